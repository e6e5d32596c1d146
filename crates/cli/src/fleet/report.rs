//! How a command ended, host by host: those that need somebody first, and as many lines as somebody reads.

use bowline_model::JobId;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::{HostCounts, UnitView};
use crate::client::{Again, Answer, Client, Request};
use crate::failure::Failure;
use crate::output::time::thousands;
use crate::output::{Screen, Table};

/// Hosts asked for at once.
const PAGE_MAX: u64 = 100;
/// Lines of a table that nobody asked to see whole.
pub const LINES_MAX: u64 = 50;

/// In which order hosts are shown, and how those that are not are summed up.
const ORDER: [(&str, &str); 14] = [
    ("failed", "failed"),
    ("dead", "failed"),
    ("timed_out", "timed out"),
    ("unreachable", "could not be reached"),
    ("error", "were lost"),
    ("blocked", "are blocked"),
    ("canceled", "were canceled"),
    ("canceling", "are being stopped"),
    ("running", "are running"),
    ("paused", "are waiting"),
    ("queued", "are waiting"),
    ("pending", "are waiting"),
    ("new", "were not begun"),
    ("success", "succeeded"),
];

#[derive(Deserialize)]
struct Page<T> {
    hosts: Vec<T>,
    next_cursor: Option<String>,
}

/// The hosts of a command as one document: what the server says of the job, and `hosts`.
pub async fn as_json(client: &Client, id: JobId, job: &Answer) -> Result<String, Failure> {
    let mut hosts: Vec<Box<RawValue>> = Vec::new();
    read(client, id, None, u64::MAX, |page| hosts.extend(page)).await?;
    let mut parts: std::collections::BTreeMap<String, Box<RawValue>> = job.read()?;
    let broken = |error: serde_json::Error| client.strange(error.to_string());
    parts.insert("hosts".to_owned(), serde_json::value::to_raw_value(&hosts).map_err(broken)?);
    serde_json::to_string(&parts).map(|text| text.replace(['\n', '\r'], " ")).map_err(broken)
}

/// Reads up to `limit` hosts that stand somewhere, or all, page by page.
pub async fn read<T: DeserializeOwned>(
    client: &Client,
    id: JobId,
    status: Option<&str>,
    limit: u64,
    mut take: impl FnMut(Vec<T>),
) -> Result<(), Failure> {
    let id = id.to_string();
    let (mut cursor, mut left) = (None, limit);
    while left > 0 {
        let request = Request::get(["jobs", &id, "hosts"])
            .query_if("status", status)
            .query("limit", left.min(PAGE_MAX).to_string())
            .query_if("cursor", cursor.clone())
            .again(Again::Patient);
        let page: Page<T> = client.call(&request).await?.read()?;
        left = left.saturating_sub(page.hosts.len() as u64);
        take(page.hosts);
        if page.next_cursor.is_none() || page.next_cursor == cursor {
            break;
        }
        cursor = page.next_cursor;
    }
    Ok(())
}

/// A table of hosts, those that went wrong first.
pub struct Report {
    /// Every host, however many.
    pub all: bool,
    /// Hosts where all is well, too.
    pub good: bool,
}

impl Report {
    pub async fn show(
        &self,
        client: &Client,
        screen: &mut Screen,
        id: JobId,
        counts: &HostCounts,
    ) -> Result<(), Failure> {
        let mut table = Table::new(&UnitView::COLUMNS);
        let mut left = if self.all { u64::MAX } else { LINES_MAX };
        let mut rest: Vec<(&str, u64)> = Vec::new();
        // One table has one set of widths, and a short one is measured whole.
        let mut rows = Vec::new();
        for (status, words) in ORDER {
            let count = counts.of(&[status]);
            if count == 0 {
                continue;
            }
            let mut shown = 0;
            if status == "success" && !self.all && !self.good {
                continue;
            }
            // A list of hosts where nothing happened helps only those who asked for it.
            if left > 0 && (self.all || status != "new") {
                let mut units: Vec<UnitView> = Vec::new();
                read(client, id, Some(status), left, |page| units.extend(page)).await?;
                shown = units.len() as u64;
                rows.extend(units.iter().map(|unit| UnitView::row(screen, unit)));
                left = left.saturating_sub(shown);
            }
            let more = count.saturating_sub(shown);
            match rest.last_mut() {
                Some((before, sum)) if *before == words => *sum += more,
                _ if more > 0 && !self.all => rest.push((words, more)),
                _ => {}
            }
        }
        if rows.is_empty() {
            return Ok(());
        }
        let text = table.render(&rows, screen.width(), screen.color());
        screen.text(&text)?;
        if !rest.is_empty() {
            let parts: Vec<_> =
                rest.iter().map(|(words, count)| format!("{} more {words}", thousands(*count))).collect();
            screen.line(&format!("… and {}", parts.join(", ")))?;
        }
        Ok(())
    }
}
