//! What a command on hosts gives to the expressions of a workflow: how it ended on each host, and the beginning of what it
//! wrote there.
//!
//! In: the job's result, which only counts hosts. Out: the same counts, and `hosts` by name with `status`, `exit_code`,
//! `stdout` and `stderr`; of a single host the last three stand at the top as well. The execution records it with the step,
//! so it is read once and stays what it was. Bounded: [`HOSTS_MAX`] hosts, [`STREAM_MAX`] bytes of a stream, [`TOTAL_MAX`]
//! bytes in all; what is cut or left out is marked `truncated`.

use bowline_model::{JobId, JobStatus, TenantId};
use bowline_store::{OutputStream, StoreResult, UnitFilter, UnitRecord};
use serde_json::{Map, Value, json};

use super::Flows;
use crate::output::load;

/// Hosts that are told one by one.
const HOSTS_MAX: u32 = 100;
/// Of each stream of a host.
const STREAM_MAX: usize = 16 * 1024;
/// Of all hosts together.
const TOTAL_MAX: usize = 128 * 1024;
/// Ranges of output that are looked up at a time.
const RANGES: u32 = 16;

/// Whether this may be the result of a command: it counts hosts.
pub(super) fn counts_hosts(result: &Value) -> bool {
    result.as_object().is_some_and(|fields| {
        fields.len() == 3 && fields["hosts"].is_u64() && fields.contains_key("begun") && fields.contains_key("ended")
    })
}

impl Flows {
    /// The result of a command with what happened on its hosts; that of any other job as it is.
    pub(super) async fn with_hosts(&self, tenant: TenantId, job: JobId, result: Value) -> StoreResult<Value> {
        if !counts_hosts(&result) || self.ledger.find_fleet(tenant, job).await?.is_none() {
            return Ok(result);
        }
        let page = self.ledger.list_units(tenant, job, UnitFilter::default(), None, HOSTS_MAX).await?;
        let (mut hosts, mut room) = (Map::new(), TOTAL_MAX);
        for unit in &page.items {
            hosts.insert(unit.host.to_string(), self.host(tenant, job, unit, &mut room).await?);
        }
        let mut output = json!({"total": result["hosts"], "begun": result["begun"], "ended": result["ended"]});
        if page.next.is_some() {
            output["truncated"] = true.into();
        }
        if let (1, Some(only), Some(1)) = (hosts.len(), hosts.values().next(), result["hosts"].as_u64()) {
            for field in ["exit_code", "stdout", "stderr"] {
                output[field] = only[field].clone();
            }
        }
        output["hosts"] = hosts.into();
        Ok(output)
    }

    async fn host(&self, tenant: TenantId, job: JobId, unit: &UnitRecord, room: &mut usize) -> StoreResult<Value> {
        let status = match unit.state.status {
            JobStatus::Succeeded => "success",
            other => other.as_str(),
        };
        let exit_code = unit.run.as_ref().and_then(|run| run.exit_code);
        let mut view = json!({"status": status, "exit_code": exit_code, "stdout": "", "stderr": ""});
        let Some(found) = self.ledger.find_output(tenant, job, Some(unit.host.clone())).await? else { return Ok(view) };
        for (stream, name) in [(OutputStream::Stdout, "stdout"), (OutputStream::Stderr, "stderr")] {
            let held = found.held(stream);
            let wanted = usize::try_from(held).unwrap_or(usize::MAX).min(STREAM_MAX).min(*room);
            let mut bytes: Vec<u8> = Vec::with_capacity(wanted);
            'read: while bytes.len() < wanted {
                let at = bytes.len() as u64;
                let ranges = self.ledger.list_output(found.run, stream, at, RANGES).await?;
                let before = bytes.len();
                for range in ranges {
                    let at = bytes.len() as u64;
                    if range.begins > at {
                        break 'read;
                    }
                    // What cannot be read is left out, and marked; the log says why.
                    let Ok(raw) = load(&*self.blobs, found.run, &range).await else { break 'read };
                    let from = usize::try_from(at - range.begins).unwrap_or(usize::MAX).min(raw.len());
                    bytes.extend_from_slice(&raw[from..]);
                    if bytes.len() >= wanted {
                        break;
                    }
                }
                if bytes.len() == before {
                    break;
                }
            }
            bytes.truncate(wanted);
            *room -= bytes.len();
            if (bytes.len() as u64) < held {
                view["truncated"] = true.into();
            }
            view[name] = String::from_utf8_lossy(&bytes).into_owned().into();
        }
        Ok(view)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_counts_hosts_is_taken_for_the_result_of_a_command() {
        assert!(counts_hosts(&json!({"hosts": 1, "begun": 1, "ended": {"succeeded": 1}})));
        for other in [
            json!(null),
            json!({"hosts": []}),
            json!({"hosts": 1, "begun": 1}),
            json!([1]),
            json!({"hosts": "x", "begun": 1, "ended": {}}),
        ] {
            assert!(!counts_hosts(&other), "{other}");
        }
    }
}
