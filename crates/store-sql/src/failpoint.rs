//! Dying on purpose right after a commit: everything is stored, no bell has rung, nobody has been answered.
//!
//! `BOWLINE_FAILPOINT=after_commit:claim:3` ends the process after the third commit that handed something out; `submit`,
//! `report`, `heartbeat` and `turn` (of a run of a workflow) likewise. For tests, and in debug builds only: in a build for
//! use this is nothing.

use crate::command::Answer;

/// To be called between the commit and whatever follows from it. `handed_out` says that a standing claim got something.
#[cfg(debug_assertions)]
pub fn after_commit(answers: &[Answer], handed_out: bool) {
    use std::sync::OnceLock;

    static ORDER: OnceLock<Option<Order>> = OnceLock::new();
    let order = ORDER.get_or_init(|| std::env::var("BOWLINE_FAILPOINT").ok().map(|text| Order::read(&text)));
    if order.as_ref().is_some_and(|order| order.strikes(answers, handed_out)) {
        eprintln!("dying after a commit, as BOWLINE_FAILPOINT orders");
        std::process::abort();
    }
}

#[cfg(not(debug_assertions))]
pub const fn after_commit(_: &[Answer], _: bool) {}

/// After which commits of which sort to die.
#[cfg(debug_assertions)]
#[derive(Debug)]
struct Order {
    sort: String,
    /// So many of them, the last one included.
    left: std::sync::atomic::AtomicU32,
}

#[cfg(debug_assertions)]
impl Order {
    fn read(text: &str) -> Self {
        let parts: Vec<&str> = text.split(':').collect();
        match parts[..] {
            ["after_commit", sort @ ("submit" | "claim" | "report" | "heartbeat" | "turn"), count] => {
                let count = count.parse().expect("BOWLINE_FAILPOINT ends with a number");
                Self { sort: sort.to_owned(), left: std::sync::atomic::AtomicU32::new(count) }
            }
            _ => panic!("BOWLINE_FAILPOINT={text} is not after_commit:<submit|claim|report|heartbeat|turn>:<count>"),
        }
    }

    /// Whether this commit is the last one before the end.
    fn strikes(&self, answers: &[Answer], handed_out: bool) -> bool {
        let sort = self.sort.as_str();
        let happened = answers.iter().any(|answer| match answer {
            Answer::Submit(stored) => sort == "submit" && !stored.is_empty(),
            Answer::Claim(runs) => sort == "claim" && !runs.is_empty(),
            Answer::Report(settled) => sort == "report" && !settled.is_empty(),
            Answer::Heartbeat(named) => sort == "heartbeat" && !named.is_empty(),
            Answer::Turn(turns) => sort == "turn" && turns.contains(&bowline_store::TurnAnswer::Stored),
            _ => false,
        });
        let happened = happened || (sort == "claim" && handed_out);
        happened && self.left.fetch_sub(1, std::sync::atomic::Ordering::SeqCst) == 1
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use bowline_model::{JobId, JobStatus, Lane, RunId, TaskType, TenantId, Timestamp, WorkerName};
    use bowline_store::{BeatAnswer, ClaimedRun, ReportAnswer, Submitted, TurnAnswer};

    use super::*;

    /// An answer of each sort in which something happened, and one in which nothing did.
    fn answers() -> [(&'static str, Answer, Answer); 5] {
        let at = Timestamp::from_millis(1);
        let claimed = ClaimedRun {
            run: RunId::mint(at, [1; 10]),
            job: JobId::mint(at, [1; 10]),
            tenant: TenantId::mint(at, [1; 10]),
            worker: WorkerName::new("w1").expect("a name"),
            lane: Lane::Default,
            task_type: TaskType::new("mail.send").expect("a type"),
            payload: "{}".into(),
            attempt: 1,
            fence: 1,
            timeout_ms: 1,
            created_at: at,
            claimed_at: at,
            trace_id: None,
            correlation_id: None,
            unit: None,
        };
        let stored = Submitted::Accepted { id: JobId::mint(at, [1; 10]), number: 1, status: JobStatus::Queued, at };
        let beat = (RunId::mint(at, [1; 10]), BeatAnswer::Renewed);
        [
            ("submit", Answer::Submit(vec![stored]), Answer::Submit(Vec::new())),
            ("claim", Answer::Claim(vec![claimed]), Answer::Claim(Vec::new())),
            ("report", Answer::Report(vec![ReportAnswer::NotFound]), Answer::Report(Vec::new())),
            ("heartbeat", Answer::Heartbeat(vec![beat]), Answer::Heartbeat(Vec::new())),
            ("turn", Answer::Turn(vec![TurnAnswer::Stored]), Answer::Turn(vec![TurnAnswer::Stale])),
        ]
    }

    fn order(sort: &str, count: u32) -> Order {
        Order::read(&format!("after_commit:{sort}:{count}"))
    }

    #[test]
    fn only_a_commit_of_the_wanted_sort_counts() {
        for (sort, something, nothing) in answers() {
            assert!(!order(sort, 1).strikes(&[nothing], false), "{sort}");
            for (other, ..) in answers() {
                let strikes = order(other, 1).strikes(std::slice::from_ref(&something), false);
                assert_eq!(strikes, other == sort, "{sort} for {other}");
            }
            let strikes = order(sort, 1).strikes(&[], true);
            assert_eq!(strikes, sort == "claim", "a standing claim got something");
        }
    }

    #[test]
    fn it_strikes_once_at_the_last_commit() {
        let order = order("claim", 3);
        let strikes = [(); 5].map(|()| order.strikes(&[], true));
        assert_eq!(strikes, [false, false, true, false, false]);
    }

    #[test]
    #[should_panic(expected = "after_commit:<submit|claim")]
    fn an_order_that_cannot_be_read_stops_the_process() {
        Order::read("after_commit:everything:1");
    }
}
