//! Which hosts are meant, and whether that is what somebody means.

use serde::Deserialize;

use super::args::RunArgs;
use crate::client::{Again, Client, Request};
use crate::failure::Failure;
use crate::fleet::hosts;
use crate::output::time::thousands;
use crate::output::{Screen, Text};

/// Names that are shown.
const NAMES_MAX: usize = 5;

/// The hosts that are meant, as far as this caller may know.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Meant {
    count: Option<u64>,
    hosts: Vec<Text>,
}

/// Asks the server which hosts these are.
pub async fn meant(client: &Client, screen: &Screen, args: &RunArgs) -> Result<Meant, Failure> {
    let Some(selector) = &args.target.on else {
        let hosts: Vec<Text> = args.target.hosts.iter().map(|name| Text::new(name)).collect();
        return Ok(Meant { count: Some(hosts.len() as u64), hosts });
    };
    let body = serde_json::json!({ "selector": selector }).to_string();
    let request = Request::post(["inventories", &args.inventory, "select"]).body(body).again(Again::Safe);
    let meant: Meant = match client.call(&request).await {
        Ok(answer) => answer.read()?,
        // Whoever may not see hosts may still be allowed to run something on them.
        Err(Failure::Refused(refusal)) if refusal.status == 403 => {
            screen.note(&format!("which hosts these are cannot be shown: {}", refusal.message));
            return Ok(Meant::default());
        }
        Err(failure) => return Err(failure),
    };
    if meant.count == Some(0) {
        return Err(Failure::NoHosts { selector: selector.clone(), inventory: args.inventory.clone() });
    }
    Ok(meant)
}

impl Meant {
    /// Says which hosts are meant.
    pub fn tell(&self, screen: &Screen) {
        let Some(count) = self.count.filter(|_| !screen.json()) else { return };
        let names: Vec<&str> = self.hosts.iter().take(NAMES_MAX).map(Text::as_str).collect();
        let more = count.saturating_sub(names.len() as u64);
        let more = if more > 0 { format!(" and {} more", thousands(more)) } else { String::new() };
        screen.note(&format!("{}: {}{more}", hosts(count), names.join(", ")));
    }

    /// The question, if there is one: a single host is what was named.
    pub fn question(&self, title: &str) -> Option<String> {
        let title = Text::new(title);
        match self.count {
            Some(..=1) => None,
            Some(count) => Some(format!("Run {title} on {}?", hosts(count))),
            None => Some(format!("Run {title} on hosts that cannot be shown?")),
        }
    }
}
