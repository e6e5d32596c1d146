//! Which job is meant: its id, its number, the end of its id, or the caller's last one.

use std::str::FromStr;

use bowline_model::JobId;
use clap::Args;
use serde::Deserialize;

use crate::client::{Again, Client, Request};
use crate::failure::Failure;
use crate::output::Text;

/// The shortest end of an id that names a job.
const SUFFIX_MIN: usize = 4;

/// A job, as people name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobRef {
    Id(JobId),
    /// A number or the end of an id, for the server to look up.
    Part(String),
    Last,
}

/// Why a text names no job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a job: its id, its number such as 5003, or at least the last {SUFFIX_MIN} characters of its id are expected"
)]
pub struct InvalidJobRef;

impl FromStr for JobRef {
    type Err = InvalidJobRef;

    fn from_str(text: &str) -> Result<Self, InvalidJobRef> {
        let text = text.trim();
        if let Ok(id) = text.parse() {
            return Ok(Self::Id(id));
        }
        if text == "last" {
            return Ok(Self::Last);
        }
        let number = text.strip_prefix('#').unwrap_or(text);
        if !number.is_empty() && number.len() <= 18 && number.chars().all(|c| c.is_ascii_digit()) {
            return Ok(Self::Part(number.to_owned()));
        }
        let part = text.trim_start_matches(['…', '.']);
        let fits = part.len() >= SUFFIX_MIN && part.len() < 36;
        if fits && part.chars().all(|c| c.is_ascii_hexdigit() || c == '-') {
            return Ok(Self::Part(part.to_ascii_lowercase()));
        }
        Err(InvalidJobRef)
    }
}

impl JobRef {
    /// The job's id; the server is asked unless it was given.
    pub async fn resolve(&self, client: &Client) -> Result<JobId, Failure> {
        #[derive(Deserialize)]
        struct Answer {
            job: Named,
        }
        #[derive(Deserialize)]
        struct Page {
            jobs: Vec<Named>,
            #[serde(default)]
            next_cursor: Option<String>,
        }
        #[derive(Deserialize)]
        struct Named {
            id: Text,
        }
        #[derive(Deserialize)]
        struct Caller {
            actor: Text,
        }
        let id = match self {
            Self::Id(id) => return Ok(*id),
            Self::Part(text) => {
                let request = Request::get(["jobs", text.as_str()]).again(Again::Patient);
                client.call(&request).await?.read::<Answer>()?.job.id
            }
            Self::Last => {
                let caller: Caller = client.call(&Request::get(["whoami"]).again(Again::Patient)).await?.read()?;
                let mut cursor = None;
                loop {
                    let request = Request::get(["jobs"]).query("limit", "1").query("children", "false");
                    let request = request.query("actor", caller.actor.as_str());
                    let request = request.query_if("cursor", cursor.clone()).again(Again::Patient);
                    let page: Page = client.call(&request).await?.read()?;
                    if let Some(newest) = page.jobs.into_iter().next() {
                        break newest.id;
                    }
                    // What the newest executions started may fill a page or two.
                    if page.next_cursor.is_none() || page.next_cursor == cursor {
                        return Err(Failure::Usage("you have not submitted a job yet".to_owned()));
                    }
                    cursor = page.next_cursor;
                }
            }
        };
        id.as_str().parse().map_err(|_| client.strange("it has no job id".to_owned()))
    }
}

/// One job, for commands about one.
#[derive(Debug, Clone, Args)]
pub struct OneJob {
    /// The job: its id, its number, or the end of its id
    #[arg(value_name = "JOB", required_unless_present = "last")]
    job: Option<JobRef>,
    /// The job that you submitted last
    #[arg(long, conflicts_with = "job")]
    last: bool,
}

impl OneJob {
    pub async fn resolve(&self, client: &Client) -> Result<JobId, Failure> {
        match &self.job {
            Some(job) => job.resolve(client).await,
            None => JobRef::Last.resolve(client).await,
        }
    }
}

/// One job or several.
#[derive(Debug, Clone, Args)]
pub struct SomeJobs {
    /// The jobs: each by its id, its number, or the end of its id
    #[arg(value_name = "JOB", required_unless_present = "last")]
    jobs: Vec<JobRef>,
    /// The job that you submitted last
    #[arg(long, conflicts_with = "jobs")]
    last: bool,
}

impl SomeJobs {
    pub fn refs(&self) -> Vec<JobRef> {
        if self.last { vec![JobRef::Last] } else { self.jobs.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_named_in_several_ways() {
        let read = |text: &str| text.parse::<JobRef>();
        let id = "0198c0de-0000-7000-8000-000000000001";
        assert_eq!(read(id), Ok(JobRef::Id(id.parse().unwrap())));
        assert_eq!(read("5003"), Ok(JobRef::Part("5003".to_owned())));
        assert_eq!(read("#5003"), Ok(JobRef::Part("5003".to_owned())));
        assert_eq!(read("7"), Ok(JobRef::Part("7".to_owned())));
        assert_eq!(read("…8013-ABCDEF"), Ok(JobRef::Part("8013-abcdef".to_owned())));
        assert_eq!(read("last"), Ok(JobRef::Last));
        for text in ["", "#", "abc", "order", "5003x", "-1"] {
            assert_eq!(read(text), Err(InvalidJobRef), "{text:?}");
        }
    }
}
