//! The tests of the tests: with a known mistake switched on, a promise about it must break. A suite that cannot fail
//! proves nothing. Needs the feature `planted`.
#![cfg(feature = "planted")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use bowline_model::planted::{self, Mistake};
use bowline_store::ManualClock;
use bowline_store::conformance::{self, Bench};
use bowline_store_sql::{SqlLedger, SqlSettings};

/// A planted mistake is made by the whole process, so whoever plants one must be alone.
static ALONE: Mutex<()> = Mutex::new(());

/// Whether SQLite keeps this promise while somebody makes this mistake.
fn kept(mistake: Option<Mistake>, promise: impl AsyncFnOnce(&Bench)) -> bool {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime of one thread");
    let directory = tempfile::tempdir().expect("a place for the ledger");
    let clock = ManualClock::at(Bench::START);
    let settings = SqlSettings {
        key_ttl_ms: Bench::KEY_TTL_MS,
        backlog_max: Bench::BACKLOG_MAX,
        ..SqlSettings::new(clock.clone())
    };
    let ledger = SqlLedger::open_sqlite(directory.path(), &settings).expect("a new ledger opens");
    let bench = Bench::new(Arc::new(ledger), clock);
    planted::plant(mistake);
    let kept = catch_unwind(AssertUnwindSafe(|| runtime.block_on(bench.keeps(promise)))).is_ok();
    planted::plant(None);
    kept
}

macro_rules! caught {
    ($($test:ident: $mistake:ident breaks $noun:ident::$promise:ident;)*) => {
        $(#[test]
        fn $test() {
            assert!(kept(None, conformance::$noun::$promise), "without the mistake the promise is kept");
            assert!(!kept(Some(Mistake::$mistake), conformance::$noun::$promise), "the mistake went unnoticed");
        })*
    };
}

caught! {
    a_report_without_a_fence: NoFenceOnFinish breaks reports::a_stale_fence_is_refused;
    duplicates_that_count: CountDuplicates breaks told::told_events_are_kept_once;
    silence_from_before_we_listened: IgnoreWatermark
        breaks leases::nobody_is_lost_before_a_whole_lease_since_the_watermark;
    keys_that_never_expire: IdempotencyOutside breaks keys::a_key_is_new_after_its_time;
    a_query_that_forgets_the_tenant: ForgetTenant breaks tenancy::no_question_shows_a_neighbours_jobs;
    a_dead_letter_replayed_twice: ReplayTwice breaks dead_letters::whoever_closes_second_is_told_what_the_first_did;
    an_approval_of_something_else: ApprovalUnbound
        breaks approvals::a_change_of_what_will_run_supersedes_the_approval;
    a_host_for_everybody: HostForEverybody breaks fleets::a_host_has_one_exclusive_run_at_a_time_in_order;
    a_host_that_is_not_kept: HostNotKept breaks kept::nobody_gets_a_host_while_a_lost_run_could_be_there;
    a_schedule_considered_twice: ScheduleTwice breaks schedules::only_the_first_of_two_firings_counts;
    a_turn_taken_twice: TurnTwice breaks flows::a_turn_is_added_once_whoever_else_takes_it;
    a_queue_row_that_stays: QueueTwice breaks claims::nothing_waiting_is_an_empty_answer;
}
