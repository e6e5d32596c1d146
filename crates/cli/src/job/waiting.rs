//! What a job waits for, reported to the caller who waits for its end when nothing has moved for a while.

use std::collections::HashSet;
use std::time::Duration;

use bowline_model::JobId;
use tokio::time::Instant;

use super::WhyView;
use crate::client::Client;
use crate::failure::Failure;
use crate::output::Screen;

/// When nothing moves for so long, the server is asked why.
const STILL_AFTER: Duration = Duration::from_secs(5);

/// How a job stood when it was last looked at, since when, and what was told about it.
#[derive(Debug)]
pub struct Waiting {
    standing: String,
    since: Instant,
    told: HashSet<String>,
}

impl Waiting {
    pub fn new() -> Self {
        Self { standing: String::new(), since: Instant::now(), told: HashSet::new() }
    }

    /// `standing` is how the job stands now. If it has stood so for a while, tells why, each reason once.
    pub async fn tell(&mut self, client: &Client, screen: &Screen, id: JobId, standing: String) -> Result<(), Failure> {
        if standing != self.standing {
            (self.standing, self.since) = (standing, Instant::now());
        }
        if screen.json() || self.since.elapsed() < STILL_AFTER {
            return Ok(());
        }
        self.since = Instant::now();
        let why = match WhyView::ask(client, &id.to_string()).await {
            Ok(why) => why,
            // The wait does not depend on what can be seen of its reasons.
            Err(Failure::Refused(_)) => return Ok(()),
            Err(failure) => return Err(failure),
        };
        for reason in why.of_waiting().filter(|reason| !reason.is_empty()) {
            if self.told.insert(reason.to_owned()) {
                screen.note(&format!("still waiting: {reason}"));
            }
        }
        Ok(())
    }
}
