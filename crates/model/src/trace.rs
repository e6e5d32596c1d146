//! The trace that work belongs to, as `traceparent` carries it (W3C Trace Context).

use crate::id::{JobId, RunId};

/// The header for whatever a run calls. A job that came without a trace starts one with its own id, so that all its
/// attempts and everything they call still belong together; the run is the parent span.
pub fn traceparent(trace_id: Option<&str>, job: JobId, run: RunId) -> String {
    // Both are UUIDs of version 7: their variant bits make sure that neither id is all zeros.
    let span = run.as_uuid().as_u64_pair().1;
    match trace_id {
        Some(trace) => format!("00-{trace}-{span:016x}-01"),
        None => format!("00-{}-{span:016x}-01", job.as_uuid().simple()),
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_call_belongs_to_the_trace_of_its_job() {
        let job = JobId::from_uuid(Uuid::from_u128(0x01a1_e511_6739_7000_8013_0000_0000_0001));
        let run = RunId::from_uuid(Uuid::from_u128(0x01a1_e511_6739_7000_9013_0000_0000_0002));
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        assert_eq!(traceparent(Some(trace), job, run), "00-4bf92f3577b34da6a3ce929d0e0e4736-9013000000000002-01");
        assert_eq!(traceparent(None, job, run), "00-01a1e511673970008013000000000001-9013000000000002-01");
    }
}
