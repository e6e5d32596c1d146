//! Several servers on one PostgreSQL: they share keys, work and bells, and never each other's mistakes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bowline_model::audit::{Chain, ChainWalk};
use bowline_model::{ErrorClass, JobId, JobStatus, Outcome, RunId};
use bowline_store::conformance::{Bench, TIMES, abilities, task_type};
use bowline_store::{
    AuditFilter, AuditFrom, ClaimRules, Claimant, Closed, KeptDefinition, Ledger, ManualClock, NewFlow, NewJob,
    OrderAnswer, PruneMark, Retention, Submitted,
};
use bowline_store_sql::{PgSettings, SqlLedger, SqlSettings};
use bowline_testkit::{TestDatabase, connect, fresh_database};
use tokio::task::JoinSet;

/// Servers on one database, each with its own handle, threads and memory.
async fn servers(database: &TestDatabase, count: u64) -> Vec<Bench> {
    let clock = ManualClock::at(Bench::START);
    let mut servers = Vec::new();
    for n in 0..count {
        // Far apart: a server's committers each have their own dice, and count on from the server's.
        servers.push(server(database, &clock, 100 * n).await);
    }
    servers
}

async fn server(database: &TestDatabase, clock: &Arc<ManualClock>, seed: u64) -> Bench {
    let pg = PgSettings {
        url: database.url().to_owned(),
        connect_timeout: Duration::from_secs(20),
        statement_timeout: Duration::from_secs(20),
        clock: Some(clock.clone()),
    };
    let settings =
        SqlSettings { key_ttl_ms: 3_600_000, backlog_max: Bench::BACKLOG_MAX, seed, ..SqlSettings::new(clock.clone()) };
    let ledger = SqlLedger::open_postgres(pg, &settings).await.expect("a ledger opens");
    Bench::new(Arc::new(ledger), clock.clone())
}

fn rules() -> ClaimRules {
    ClaimRules { weights: Default::default(), strategy: Default::default() }
}

/// A wait that ends in a failure, not in a hang.
async fn soon<T>(what: &str, wait: impl Future<Output = T>) -> T {
    let limit = Duration::from_secs(60);
    tokio::time::timeout(limit, wait).await.unwrap_or_else(|_| panic!("{what} did not come"))
}

/// Claims and reports on one server until `count` jobs are done on all of them together.
async fn work(ledger: Arc<dyn Ledger>, claimant: Claimant, bench: Bench, count: usize, done: Done) -> Vec<RunId> {
    let mut runs = Vec::new();
    while done.lock().expect("nobody panicked").len() < count {
        let mut bell = ledger.work_wake().listen();
        let claimed = ledger.claim(vec![claimant.clone()], rules()).await.expect("the ledger hands out runs");
        if claimed.is_empty() {
            // Bells say where to look; the look every so often is for bells that were missed.
            drop(tokio::time::timeout(Duration::from_millis(20), bell.rung()).await);
            ledger.find_work().await.expect("the ledger can be read");
        }
        for run in claimed {
            bench.succeed(&run).await;
            done.lock().expect("nobody panicked").push(run.job);
            runs.push(run.run);
        }
    }
    runs
}

type Done = Arc<std::sync::Mutex<Vec<JobId>>>;

/// Two askers on each of three servers ask for the same sixty things; two workers on each do them.
#[tokio::test]
async fn every_wish_is_stored_once_and_done_once() {
    const WISHES: usize = 60;
    let database = fresh_database();
    let servers = servers(&database, 3).await;
    let mut askers = JoinSet::new();
    for asker in 0..6 {
        let (ledger, bench) = (servers[asker % 3].ledger.clone(), &servers[0]);
        // Everybody in another order, some in batches: that is where two servers could wait for each other in a circle.
        let mut jobs: Vec<NewJob> = (0..WISHES).map(|n| bench.keyed(&format!("wish {n}"), "please")).collect();
        if asker % 2 == 1 {
            jobs.reverse();
        }
        jobs.rotate_left(asker * 7);
        askers.spawn(async move {
            let mut answers = Vec::new();
            for batch in jobs.chunks(1 + asker * 3) {
                answers.extend(ledger.submit(batch.to_vec()).await.expect("the ledger takes jobs"));
            }
            answers
        });
    }
    let done = Done::default();
    let mut workers = JoinSet::new();
    for worker in 0..6 {
        let server = &servers[worker % 3];
        let claimant = Claimant { wants: 3, ..server.worker(&format!("w{worker}")) };
        let own = Bench::new(server.ledger.clone(), server.clock.clone());
        workers.spawn(work(server.ledger.clone(), claimant, own, WISHES, done.clone()));
    }
    let answers: Vec<Submitted> = askers.join_all().await.into_iter().flatten().collect();
    let of = |answer: &Submitted| match answer {
        Submitted::Accepted { id, .. } | Submitted::Replayed { id, .. } | Submitted::Pruned { id, .. } => *id,
        Submitted::Conflict { .. } => panic!("{answer:?}"),
    };
    let ids: BTreeSet<JobId> = answers.iter().map(of).collect();
    let accepted = answers.iter().filter(|answer| matches!(answer, Submitted::Accepted { .. })).count();
    assert_eq!((answers.len(), accepted, ids.len()), (6 * WISHES, WISHES, WISHES));

    let runs: Vec<RunId> = soon("the end of the work", workers.join_all()).await.into_iter().flatten().collect();
    let done = done.lock().expect("nobody panicked").clone();
    assert_eq!((runs.len(), runs.iter().collect::<BTreeSet<_>>().len()), (WISHES, WISHES), "no run twice");
    assert_eq!((done.len(), done.into_iter().collect::<BTreeSet<_>>()), (WISHES, ids.clone()), "every job once");
    for id in ids {
        let (job, runs) = servers[2].find(id).await;
        assert_eq!((job.state.status, job.state.attempts, runs.len()), (JobStatus::Succeeded, 1, 1));
    }
    servers[1].verifies().await;
}

/// Everybody reaps, promotes, cancels, retries and reports at once; in the end the ledger agrees with its history.
#[tokio::test]
async fn servers_that_do_everything_at_once_leave_the_ledger_whole() {
    let database = fresh_database();
    let servers = servers(&database, 3).await;
    let jobs = servers[0].submit_many(90).await;
    let mut people = JoinSet::new();
    for (n, server) in servers.iter().enumerate() {
        let (bench, jobs) = (Bench::new(server.ledger.clone(), server.clock.clone()), jobs.clone());
        people.spawn(async move {
            for round in 0..15 {
                let worker = Claimant { wants: 4, ..bench.worker(&format!("w{n}")) };
                bench.ledger.find_work().await.expect("the ledger can be read");
                let runs = bench.claim(worker).await;
                bench.pass_ms(700);
                for (place, run) in runs.iter().enumerate() {
                    match (place + round + n) % 4 {
                        0 => drop(bench.succeed(run).await),
                        1 => drop(bench.fail(run, ErrorClass::Transient).await),
                        2 => drop(bench.cancel(run.job).await),
                        _ => drop(bench.tell(bench.telling(run, &[2, 1])).await),
                    }
                }
                bench.reap().await;
                bench.promote().await;
                bench.cancel(jobs[(round * 7 + n) % jobs.len()]).await;
                bench.retry(jobs[(round * 11 + n) % jobs.len()]).await;
            }
        });
    }
    soon("the end of the work", people.join_all()).await;
    for server in &servers {
        server.verifies().await;
    }
}

#[tokio::test]
async fn work_queued_on_one_server_is_heard_on_the_other() {
    let database = fresh_database();
    let servers = servers(&database, 2).await;
    let (here, there) = (&servers[0], &servers[1]);
    for (from, to) in [(here, there), (there, here)] {
        let mut bell = to.ledger.work_wake().listen();
        let job = from.submit(from.job()).await;
        let claimed = soon("the bell", async {
            loop {
                bell.rung().await;
                let runs = to.claim(to.worker("w1")).await;
                if !runs.is_empty() {
                    return runs;
                }
            }
        })
        .await;
        assert_eq!(claimed[0].job, job, "it was found by the bell alone");
        to.succeed(&claimed[0]).await;
    }
    here.verifies().await;
}

#[tokio::test]
async fn events_and_timers_of_one_server_are_heard_on_the_other() {
    let database = fresh_database();
    let servers = servers(&database, 2).await;
    let (here, there) = (&servers[0], &servers[1]);
    let (mut events, mut timers) = (there.ledger.event_wake().listen(), there.ledger.timer_wake().listen());
    let due = here.now().plus_millis(5);
    let job = here.submit(NewJob { run_at: Some(due), ..here.job() }).await;
    soon("the bell for events", events.rung()).await;
    soon("the bell for timers", timers.rung()).await;
    assert_eq!(there.status(job).await, JobStatus::Pending);
}

/// A server that made lines of its own still learns the lines that others made before and after.
#[tokio::test]
async fn a_server_serves_lines_it_has_never_seen() {
    let database = fresh_database();
    let servers = servers(&database, 2).await;
    let (here, there) = (&servers[0], &servers[1]);
    let names: Vec<String> = (0..150).map(|n| format!("type-{n}")).collect();
    let jobs: Vec<NewJob> = names.iter().map(|name| NewJob { task_type: task_type(name), ..here.job() }).collect();
    let mut wanted: BTreeSet<JobId> = jobs.iter().map(|job| job.id).collect();
    here.ask_all(jobs).await;
    let own = there.submit(there.job()).await;
    wanted.insert(own);
    there.ledger.find_work().await.expect("the ledger can be read");
    let mut able: Vec<&str> = names.iter().map(String::as_str).collect();
    able.push("mail.send");
    let all = Claimant { abilities: abilities(&able), wants: 500, slots: 500, ..there.worker("w1") };
    let runs = there.claim(all).await;
    assert_eq!(runs.into_iter().map(|run| run.job).collect::<BTreeSet<_>>(), wanted);
    there.verifies().await;
}

/// Timers, retries and replays put jobs into lines that this server has never heard of; it serves them at once.
#[tokio::test]
async fn a_server_queues_into_lines_it_has_never_seen() {
    let database = fresh_database();
    let servers = servers(&database, 2).await;
    let (here, there) = (&servers[0], &servers[1]);
    let on = |name: &str| Claimant { abilities: abilities(&[name]), ..there.worker("w1") };
    let due = here.now().plus_millis(10);
    let scheduled = NewJob { run_at: Some(due), task_type: task_type("later"), ..here.job() };
    let id = here.submit(scheduled).await;
    there.pass_ms(10);
    assert_eq!(there.promote().await, 1);
    assert_eq!(there.claim(on("later")).await[0].job, id);

    let canceled = NewJob { run_at: Some(due.plus_millis(10)), task_type: task_type("again"), ..here.job() };
    let id = here.submit(canceled).await;
    here.cancel(id).await;
    assert_eq!(there.retry(id).await, OrderAnswer::Done(JobStatus::Queued));
    assert_eq!(there.claim(on("again")).await[0].job, id);

    let id = here.submit(NewJob { task_type: task_type("dead"), ..here.job() }).await;
    let run = here.claim(Claimant { abilities: abilities(&["dead"]), ..here.worker("w1") }).await.remove(0);
    here.report(here.report_of(&run, Outcome::Failed(ErrorClass::Permanent))).await;
    let Closed::Replayed { new_job, .. } = there.replay(id).await else { panic!("it should be replayed") };
    assert_eq!(there.claim(on("dead")).await[0].job, new_job);
    there.verifies().await;
}

/// Waits until as many of the database's sessions stand in front of a lock.
async fn waiting_for_a_lock(bench: &Bench, watcher: &tokio_postgres::Client, count: i64) {
    let text = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
    bench
        .until("sessions in front of a lock", async || {
            let waiting: i64 = watcher.query_one(text, &[]).await.expect("the server answers").get(0);
            if waiting >= count { Ok(()) } else { Err(waiting) }
        })
        .await;
}

/// The reaper looks, a heartbeat comes, the reaper acts: it must look again first.
#[tokio::test]
async fn a_heartbeat_that_comes_while_the_reaper_waits_counts() {
    let database = fresh_database();
    let servers = servers(&database, 1).await;
    let bench = &servers[0];
    let run = bench.running(bench.job()).await;
    bench.pass_ms(TIMES.ttl_ms + 1);
    let heartbeat = connect(database.url()).await.expect("the server takes connections");
    let watcher = connect(database.url()).await.expect("the server takes connections");
    heartbeat.batch_execute("begin; select 1 from job for update").await.expect("the job can be locked");
    let reaped = async {
        let ledger = bench.ledger.clone();
        ledger.reap(TIMES, bench.listened()).await.expect("the ledger judges leases")
    };
    let renewed = async {
        waiting_for_a_lock(bench, &watcher, 1).await;
        let micros = bench.now().as_micros();
        let renew = format!("update lease set renewed_at = 'epoch'::timestamptz + {micros} * interval '1 microsecond'");
        heartbeat.batch_execute(&format!("{renew}; commit")).await.expect("the lease can be renewed");
    };
    let (reaped, ()) = tokio::join!(reaped, renewed);
    assert_eq!((reaped.lost, reaped.active), (0, 1));
    assert_eq!(bench.status(run.job).await, JobStatus::Running);
    bench.verifies().await;
}

/// A definition that no run is pinned to, and a run that would be.
async fn run_of(bench: &Bench) -> (i64, NewJob) {
    let (hash, body): ([u8; 32], Arc<str>) = ([7; 32], "{}".into());
    let id = bench.ledger.keep_definition(bench.tenant, hash, body.clone()).await.expect("kept");
    let flow = NewFlow {
        definition: KeptDefinition { id, hash, body },
        workflow: "inline".into(),
        workflow_version: None,
        forked_from: None,
        depth: 0,
        first: None,
    };
    (id, NewJob { flow: Some(Arc::new(flow)), ..bench.job() })
}

/// Retention holds a definition and removes it, and a run begins with it in between: it has its definition all the same.
#[tokio::test]
async fn a_run_that_begins_while_retention_removes_its_definition_has_one() {
    let database = fresh_database();
    let servers = servers(&database, 1).await;
    let bench = &servers[0];
    let (id, wish) = run_of(bench).await;
    let job = wish.id;
    let retention = connect(database.url()).await.expect("the server takes connections");
    let watcher = connect(database.url()).await.expect("the server takes connections");
    retention.batch_execute("begin; delete from flow_definition").await.expect("it can be removed");
    let removed = async {
        waiting_for_a_lock(bench, &watcher, 1).await;
        retention.batch_execute("commit").await.expect("it is removed");
    };
    let (_, ()) = tokio::join!(bench.submit(wish), removed);
    let number = bench.ledger.flow_number(bench.tenant, job).await.expect("read").expect("a run");
    let stored = bench.ledger.load_flows(vec![number], None).await.expect("read").remove(0);
    assert_ne!(stored.definition, id, "what was removed is not there again under its old name");
    assert_eq!(bench.ledger.find_definition(stored.definition).await.expect("read").as_deref(), Some("{}"));
    bench.verifies().await;
}

/// A run that is about to begin holds its definition, and retention leaves it alone.
#[tokio::test]
async fn retention_passes_over_a_definition_that_a_run_begins_with() {
    let database = fresh_database();
    let servers = servers(&database, 1).await;
    let bench = &servers[0];
    let (id, _) = run_of(bench).await;
    let retention = Retention { finished_jobs_ms: 1, events_ms: 1 };
    let prune = async || bench.ledger.prune(retention, PruneMark::default()).await.expect("pruned").definitions;
    let beginner = connect(database.url()).await.expect("the server takes connections");
    beginner.batch_execute("begin; select 1 from flow_definition for key share").await.expect("it can be held");
    assert_eq!(soon("an answer", prune()).await, 0);
    beginner.batch_execute("rollback").await.expect("it is let go");
    assert_eq!(prune().await, 1);
    assert_eq!(bench.ledger.find_definition(id).await.expect("read"), None);
}

/// Retention chooses, somebody retries, retention removes: it must look again first.
#[tokio::test]
async fn a_job_that_is_retried_while_retention_waits_stays() {
    let database = fresh_database();
    let servers = servers(&database, 2).await;
    let (here, there) = (&servers[0], &servers[1]);
    let job = here.submit(here.job()).await;
    here.cancel(job).await;
    here.pass_ms(1_000);
    let blocker = connect(database.url()).await.expect("the server takes connections");
    let watcher = connect(database.url()).await.expect("the server takes connections");
    blocker.batch_execute("begin; select 1 from job for update").await.expect("the job can be locked");
    let retried = async { there.retry(job).await };
    let pruned = async {
        waiting_for_a_lock(here, &watcher, 1).await;
        here.ledger
            .prune(Retention { finished_jobs_ms: 500, events_ms: 500 }, PruneMark::default())
            .await
            .expect("it can be pruned")
    };
    let freed = async {
        waiting_for_a_lock(here, &watcher, 2).await;
        blocker.batch_execute("commit").await.expect("the lock can be given up");
    };
    let (retried, pruned, ()) = tokio::join!(retried, pruned, freed);
    assert_eq!((retried, pruned.jobs), (OrderAnswer::Done(JobStatus::Queued), 0));
    assert_eq!(here.status(job).await, JobStatus::Queued);
    here.verifies().await;
}

/// Two handles on one memory would be one server; these two really do not know of each other.
#[tokio::test]
async fn a_hint_lost_on_one_server_is_found_by_looking() {
    let database = fresh_database();
    let servers = servers(&database, 2).await;
    let (here, there) = (&servers[0], &servers[1]);
    let job = here.ledger.submit(vec![here.job()]).await.expect("the ledger takes jobs");
    assert!(matches!(job[0], Submitted::Accepted { .. }));
    there.ledger.find_work().await.expect("the ledger can be read");
    assert_eq!(there.claim(there.worker("w1")).await.len(), 1);
    here.nothing_to_claim().await;
    here.verifies().await;
}

/// One person retries, another replays or purges, on two servers at once: the work lives on once.
#[tokio::test]
async fn a_dead_letter_is_closed_in_one_way_only() {
    let database = fresh_database();
    let servers = servers(&database, 2).await;
    let (here, there) = (&servers[0], &servers[1]);
    let mut retries = 0;
    for n in 0..30 {
        let dead = here.dead(here.job()).await;
        let close = async { if n % 2 == 0 { there.replay(dead).await } else { there.purge(dead).await } };
        // Each way has the first word as often as the other, or the quicker write would win every race.
        let (retried, closed) = if n % 4 < 2 {
            tokio::join!(here.retry(dead), close)
        } else {
            let (closed, retried) = tokio::join!(close, here.retry(dead));
            (retried, closed)
        };
        let won = retried == OrderAnswer::Done(JobStatus::Queued);
        let lost = matches!(closed, Closed::Already { .. });
        assert!(won == lost && (won || retried == OrderAnswer::LetterClosed), "{retried:?} and {closed:?}");
        retries += usize::from(won);
        // Whatever lives on is taken away, so that the next round finds its own.
        here.ledger.find_work().await.expect("the ledger can be read");
        for run in here.claim(Claimant { wants: 10, ..here.worker("w1") }).await {
            here.beat(&run).await;
            here.succeed(&run).await;
        }
    }
    assert!((1..30).contains(&retries), "both ways were seen; {retries} of 30 were retries");
    here.verifies().await;
}

/// U2: the chains are one, whichever server a deed came through. Two tenants in turn: that is where servers could wait for
/// each other in a circle.
#[tokio::test]
async fn the_audit_trail_has_no_gap_whoever_writes_it() {
    const DEEDS: usize = 40;
    let database = fresh_database();
    let servers = servers(&database, 3).await;
    let mut people = JoinSet::new();
    for person in 0..6 {
        let (ledger, tenants) = (servers[person % 3].ledger.clone(), [servers[0].tenant, servers[0].neighbour]);
        people.spawn(async move {
            for n in 0..DEEDS {
                let order = ledger.unblock(tenants[(person + n) % 2], n as i64, "ops".into(), None);
                assert!(!order.await.expect("the ledger takes orders"));
            }
        });
    }
    soon("the last deed", people.join_all()).await;
    for tenant in [servers[0].tenant, servers[0].neighbour] {
        let chain = Chain::Tenant(tenant);
        let heads = servers[1].ledger.audit_heads().await.expect("it can be read");
        let page = servers[2].ledger.list_audit(chain, AuditFilter::default(), AuditFrom::After(0), 1_000).await;
        let mut walk = ChainWalk::new(chain, heads);
        for record in &page.expect("it can be read").items {
            walk.step(record).expect("each follows the one before");
        }
        assert_eq!(walk.finish().expect("it is whole").0, 6 * DEEDS as u64 / 2);
    }
    servers[0].verifies().await;
}
