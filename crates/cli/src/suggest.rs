//! Which name may have been meant, where the server knows no such thing.

use bowline_workflow::compile::nearest;
use serde_json::Value;

use crate::client::{Client, Request};
use crate::failure::Refusal;

/// How many pages of names are looked at.
const PAGES_MAX: usize = 10;

/// Where the names are listed: the path of the list, its field, and the field of a name.
struct Names {
    path: Vec<String>,
    list: &'static str,
    name: &'static str,
}

impl Names {
    fn of(path: &[&str], list: &'static str, name: &'static str) -> Self {
        Self { path: path.iter().map(|part| (*part).to_owned()).collect(), list, name }
    }

    fn of_resources(kind: &str) -> Self {
        Self::of(&["resources", kind], "resources", "name")
    }
}

/// The name that was not found, and where names of its sort are listed.
fn asked(refusal: &Refusal) -> Option<(String, Names)> {
    let path: Vec<&str> = refusal.asked.iter().map(String::as_str).collect();
    let (name, names) = match (path.as_slice(), refusal.code.as_str()) {
        (["resources", kind, name, ..], "RESOURCE_NOT_FOUND") => (*name, Names::of_resources(kind)),
        (["secrets", name, ..], _) => (*name, Names::of_resources("secret_ref")),
        (["schedules", name, ..], _) => (*name, Names::of(&["schedules"], "schedules", "name")),
        (["triggers", name, ..], _) => (*name, Names::of(&["triggers"], "triggers", "name")),
        (["inventories", name, ..], "INVENTORY_NOT_FOUND") => {
            (*name, Names::of(&["inventories"], "inventories", "name"))
        }
        (["hosts", name, ..], "HOST_NOT_FOUND") => (*name, Names::of(&["hosts"], "hosts", "name")),
        (["workers", name, ..], _) => (*name, Names::of(&["workers"], "workers", "worker_id")),
        (["agents", name, ..], _) => (*name, Names::of(&["agents"], "agents", "name")),
        // What a job names stands in its body; the message ends with it.
        (["jobs"], "WORKFLOW_NOT_FOUND") => (last_word(refusal), Names::of_resources("workflow")),
        (["jobs"], "BLUEPRINT_NOT_FOUND") => (last_word(refusal), Names::of_resources("blueprint")),
        (["jobs"], "COMMAND_NOT_FOUND") => (last_word(refusal), Names::of_resources("command")),
        (["jobs"], "INVENTORY_NOT_FOUND") => (last_word(refusal), Names::of(&["inventories"], "inventories", "name")),
        (["jobs"], "HOST_NOT_FOUND") => (last_word(refusal), Names::of(&["hosts"], "hosts", "name")),
        _ => return None,
    };
    Some((name.to_owned(), names))
}

fn last_word(refusal: &Refusal) -> &str {
    refusal.message.as_str().rsplit(' ').next().unwrap_or_default()
}

/// Adds the name that may have been meant to what the server said, if there is one that is near.
pub async fn suggest(client: &Client, refusal: &mut Refusal) {
    if !matches!(refusal.status, 404 | 422) {
        return;
    }
    if refusal.code.as_str() == "KIND_NOT_FOUND" {
        let details = refusal.details.as_deref().and_then(|text| serde_json::from_str::<Value>(text).ok());
        let kinds = details.as_ref().and_then(|details| details["kinds"].as_array()).into_iter().flatten();
        let asked = refusal.asked.get(1).map_or("", String::as_str);
        if let Some(near) = nearest(asked, kinds.filter_map(Value::as_str)) {
            refusal.hint = Some(format!("did you mean {near}?"));
        }
        return;
    }
    let Some((name, Names { path, list, name: field })) = asked(refusal) else { return };
    let (mut known, mut cursor) = (Vec::new(), None);
    for _ in 0..PAGES_MAX {
        let request = Request::get(path.iter().map(String::as_str)).query_if("cursor", cursor.clone());
        let Ok(answer) = client.call(&request).await else { break };
        let Ok(mut page) = answer.read::<Value>() else { break };
        if let Value::Array(items) = page[list].take() {
            known.extend(items.iter().filter_map(|item| item[field].as_str()).map(str::to_owned));
        }
        let next = page["next_cursor"].as_str().map(str::to_owned);
        if next.is_none() || next == cursor {
            break;
        }
        cursor = next;
    }
    let others = known.iter().map(String::as_str).filter(|known| *known != name);
    if let Some(near) = nearest(&name, others) {
        refusal.hint = Some(format!("did you mean {near}?"));
    }
}
