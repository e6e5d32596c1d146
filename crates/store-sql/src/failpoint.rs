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
    use std::sync::atomic::{AtomicU32, Ordering};

    static ORDER: OnceLock<Option<(String, AtomicU32)>> = OnceLock::new();
    let order = ORDER.get_or_init(|| std::env::var("BOWLINE_FAILPOINT").ok().map(|text| read(&text)));
    let Some((sort, left)) = order else { return };
    let happened = answers.iter().any(|answer| match answer {
        Answer::Submit(stored) => sort == "submit" && !stored.is_empty(),
        Answer::Claim(runs) => sort == "claim" && !runs.is_empty(),
        Answer::Report(settled) => sort == "report" && !settled.is_empty(),
        Answer::Heartbeat(named) => sort == "heartbeat" && !named.is_empty(),
        Answer::Turn(turns) => sort == "turn" && turns.contains(&bowline_store::TurnAnswer::Stored),
        _ => false,
    });
    let happened = happened || (sort == "claim" && handed_out);
    if happened && left.fetch_sub(1, Ordering::SeqCst) == 1 {
        eprintln!("dying after a commit, as BOWLINE_FAILPOINT orders");
        std::process::abort();
    }
}

#[cfg(not(debug_assertions))]
pub const fn after_commit(_: &[Answer], _: bool) {}

#[cfg(debug_assertions)]
fn read(text: &str) -> (String, std::sync::atomic::AtomicU32) {
    let parts: Vec<&str> = text.split(':').collect();
    match parts[..] {
        ["after_commit", sort @ ("submit" | "claim" | "report" | "heartbeat" | "turn"), count] => {
            let count = count.parse().expect("BOWLINE_FAILPOINT ends with a number");
            (sort.to_owned(), std::sync::atomic::AtomicU32::new(count))
        }
        _ => panic!("BOWLINE_FAILPOINT={text} is not after_commit:<submit|claim|report|heartbeat|turn>:<count>"),
    }
}
