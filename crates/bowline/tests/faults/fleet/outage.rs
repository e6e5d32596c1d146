//! F06: PostgreSQL is away while commands run.
//!
//! It mostly waits, and so do its commands: `.config/nextest.toml` lets it run beside the other faults.

use std::time::{Duration, Instant};

use bowline_testkit::Postgres;
use serde_json::json;

use super::judge::{executed, nobody_lost, printed};
use super::scene::{Fleet, ask, calm_ticks, history, metrics, output, runs_on};
use crate::support::oracle::answered_well;
use crate::support::{SHORT_LEASES, Setup, TestServer};

const COMMANDS: u32 = 50;
/// Twenty leases long.
const AWAY: Duration = Duration::from_secs(60);

/// Nothing is called lost, every outcome is right, and all output is there afterwards.
#[tokio::test]
async fn fifty_commands_do_not_notice_that_the_database_is_away_for_a_minute() {
    let postgres = Postgres::start();
    let setup =
        Setup { database_url: Some(postgres.create_database()), config: SHORT_LEASES.to_owned(), ..Setup::default() };
    let server = TestServer::with(setup).await;
    let fleet = Fleet::join(&server, &server.url("")).await;
    let mut jobs = Vec::new();
    for n in 0..COMMANDS {
        // Most end in the dark, the last ones in the light again; every fifth fails.
        let (seconds, exit_code) = (15 + n * 13 / 10, if n % 5 == 4 { 3 } else { 0 });
        jobs.push((ask(&server, fleet.calm_command(seconds, exit_code)).await, seconds, exit_code));
    }
    fleet.begun(jobs.len()).await;
    let before = fleet.account();
    assert!(before.ends.len() < 10, "most of them run: {} have ended", before.ends.len());
    postgres.stop_immediate();
    let (stopped_at, mut refusals) = (Instant::now(), 0);
    while stopped_at.elapsed() < AWAY {
        let asked = Instant::now();
        let answer = server.post("/jobs", json!({"type": "noop"})).await;
        answered_well(&answer, asked.elapsed()).expect("a submission");
        assert_eq!(answer.status, 503, "the outage is real: {}", answer.body);
        refusals += 1;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(refusals >= 10, "the outage was felt {refusals} times");
    let in_the_dark = fleet.account().ends.len() - before.ends.len();
    assert!(in_the_dark >= 25 && fleet.account().ends.len() < jobs.len(), "{in_the_dark} ended in the dark");
    postgres.start_again();
    server.until_ready().await;
    for (job, seconds, exit_code) in &jobs {
        server.until_status(job, if *exit_code == 0 { "success" } else { "failed" }).await;
        printed(&output(&server, job).await, &calm_ticks(*seconds)).expect("all its output is there");
        let runs = runs_on(&server, job, "web1").await;
        assert_eq!((runs.len(), &runs[0]["exit_code"]), (1, &json!(exit_code)), "{runs:?}");
        assert_eq!(runs[0]["incomplete"], false, "{runs:?}");
    }
    executed(&fleet.account(), jobs.len(), jobs.len()).expect("each was executed once");
    nobody_lost(&history(&server).await).expect("nobody was called lost");
    let metrics = metrics(&server).await;
    assert!(metrics.contains("orchestrator_runs_lost_total 0"), "{metrics}");
    server.assert_verified();
}
