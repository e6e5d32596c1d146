//! Promises about handing out: who gets what, in which order, and nobody gets what somebody has.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bowline_model::worker::{Abilities, Strategy};
use bowline_model::{JobId, JobStatus, Labels, Lane, RunStatus, TenantId};
use tokio::task::JoinSet;

use super::bench::{Bench, TYPE, abilities, job_ids, labels, run_ids, task_type, worker_name};
use crate::{ClaimRules, Claimant, ClaimedRun, NewJob, ReportAnswer};

pub async fn a_claim_leaves_the_tenants_it_passes_over_to_others(bench: &Bench) {
    let ours = bench.submit(bench.job()).await;
    let theirs = bench.submit(NewJob { tenant: bench.neighbour, ..bench.job() }).await;
    let claimant = Claimant { abilities: bench.worker("w1").abilities, ..bench.insider(10) };
    let passing = Claimant { passes_over: Arc::from([bench.tenant]), ..claimant.clone() };
    assert_eq!(job_ids(&bench.claim(passing.clone()).await), [theirs]);
    assert_eq!(bench.claim(passing).await.len(), 0, "the other one is not for it");
    assert_eq!(job_ids(&bench.claim(claimant).await), [ours]);
}

pub async fn nothing_waiting_is_an_empty_answer(bench: &Bench) {
    bench.nothing_to_claim().await;
    bench.submit(bench.job()).await;
    bench.claim_one().await;
    bench.nothing_to_claim().await;
    assert!(bench.claim_by(Strategy::RoundRobin, Vec::new()).await.is_empty(), "nobody asked");
}

pub async fn a_claimed_run_says_what_it_is(bench: &Bench) {
    let created_at = bench.now();
    let mut job = NewJob { lane: Lane::Webhook, policy: super::bench::attempts(3), ..bench.job() };
    job.origin.trace_id = Some("4bf92f3577b34da6a3ce929d0e0e4736".into());
    job.origin.correlation_id = Some("cart-9".into());
    let id = bench.submit(job.clone()).await;
    bench.pass_ms(40);
    let run = bench.claim_one().await;
    assert_eq!((run.job, run.tenant, run.worker.as_str()), (id, bench.tenant, "w1"));
    assert_eq!((run.lane, run.task_type.as_str()), (Lane::Webhook, TYPE));
    assert_eq!((run.attempt, run.fence), (1, 1));
    assert_eq!(Some(run.timeout_ms), job.policy.map(|policy| policy.timeout_ms));
    assert_eq!((run.created_at, run.claimed_at), (created_at, bench.now()));
    assert_eq!((run.trace_id, run.correlation_id), (job.origin.trace_id, job.origin.correlation_id));
    let (job, runs) = bench.find(id).await;
    assert_eq!((job.state.status, job.state.attempts, job.state.fence), (JobStatus::Running, 1, 1));
    assert_eq!(runs.len(), 1);
    assert_eq!((runs[0].id, runs[0].attempt, runs[0].fence), (run.run, 1, 1));
    assert_eq!((runs[0].status, runs[0].worker.as_str()), (RunStatus::Starting, "w1"));
    assert_eq!((runs[0].claimed_at, runs[0].started_at, runs[0].finished_at), (bench.now(), None, None));
}

/// A payload belongs to the caller; what a worker gets is what the caller wrote, to the byte.
pub async fn a_payload_arrives_as_it_was_written(bench: &Bench) {
    let payloads = [
        "null",
        "0",
        "\"\"",
        "{}",
        "  { \"b\" : 1.10 ,\n\t\"a\" : [ ] }\r\n",
        r#"{"n": 12345678901234567890, "m": -0, "x": 1e999, "y": 0.1000000000000000055511151231257827, "z": -0.0E+00}"#,
        r#"{"a": 1, "a": 2, "é": "é", "e\u0301": "\ud83d\ude00"}"#,
        "[\"🦀\", \"\\u0000\", \"\\/\", \"/\", \"\u{2028}\", \"\u{200f}\u{202e}\", \"tab\\t\"]",
        r#""'; drop table job; -- %s $1 ?1""#,
    ];
    for payload in payloads {
        let id = bench.submit(NewJob { payload: payload.into(), ..bench.job() }).await;
        let run = bench.claim_one().await;
        assert_eq!((&*run.payload, run.job), (payload, id));
        assert_eq!(bench.find(id).await.0.payload.as_deref(), Some(payload));
    }
    let large = format!("\"{}\"", "päckchen ".repeat(50_000));
    bench.submit(NewJob { payload: large.as_str().into(), ..bench.job() }).await;
    assert_eq!(*bench.claim_one().await.payload, *large);
}

pub async fn priority_comes_before_age(bench: &Bench) {
    let mut ids = Vec::new();
    for priority in [0, 5, 0, 9, 5, -3] {
        ids.push(bench.submit(NewJob { priority, ..bench.job() }).await);
    }
    let wanted = [ids[3], ids[1], ids[4], ids[0], ids[2], ids[5]];
    for id in &wanted[..2] {
        assert_eq!(bench.claim_one().await.job, *id);
    }
    let rest = bench.claim(Claimant { wants: 9, ..bench.worker("w1") }).await;
    assert_eq!(job_ids(&rest), &wanted[2..]);
}

pub async fn a_worker_gets_no_more_than_it_wants(bench: &Bench) {
    bench.submit_many(5).await;
    assert_eq!(bench.claim(Claimant { wants: 0, ..bench.worker("w1") }).await.len(), 0);
    assert_eq!(bench.claim(Claimant { wants: 3, ..bench.worker("w1") }).await.len(), 3);
    let (one, two) = (Claimant { wants: 1, ..bench.worker("w1") }, Claimant { wants: 1, ..bench.worker("w2") });
    let runs = bench.claim_by(Strategy::RoundRobin, vec![one, two]).await;
    assert_eq!(runs.iter().map(|run| run.worker.as_str()).collect::<BTreeSet<_>>().len(), 2, "one each");
}

/// How many bytes the runs of one answer may have.
const ANSWER_BYTES_MAX: usize = 8 << 20;

pub async fn long_payloads_are_handed_out_in_pieces(bench: &Bench) {
    let long = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
    let mut ids = Vec::new();
    for bytes in [ANSWER_BYTES_MAX + 1].into_iter().chain([1 << 20; 20]).chain([10; 3]) {
        ids.push(bench.submit(NewJob { payload: long(bytes).into(), ..bench.job() }).await);
    }
    let (mut seen, mut claims) = (Vec::new(), 0);
    while seen.len() < ids.len() {
        let runs = bench.claim(Claimant { wants: 100, slots: 100, ..bench.worker("w1") }).await;
        let bytes: usize = runs.iter().map(|run| run.payload.len()).sum();
        assert!(
            runs.len() == 1 || (!runs.is_empty() && bytes <= ANSWER_BYTES_MAX),
            "{} runs, {bytes} bytes",
            runs.len()
        );
        seen.extend(job_ids(&runs));
        claims += 1;
    }
    assert_eq!(seen, ids, "in their order, each once");
    assert_eq!(claims, 4, "the one that is too long alone, eight at a time, the last ones with the short ones");
    bench.nothing_to_claim().await;
    // Who waits beside one whose answer is full gets what that one does not.
    for _ in 0..10 {
        bench.submit(NewJob { payload: long(1 << 20).into(), ..bench.job() }).await;
    }
    let both = ["w1", "w2"].map(|name| Claimant { wants: 100, slots: 100, ..bench.worker(name) });
    let runs = bench.claim_by(Strategy::RoundRobin, both.to_vec()).await;
    assert_eq!(runs.len(), 10);
}

/// An answer carries the command once for each of its hosts.
pub async fn long_commands_count_with_each_of_their_hosts(bench: &Bench) {
    let runs = super::fleets::long_command_on_hosts(bench, 20).await;
    assert_eq!(runs, [7, 7, 6], "the command has 1,080,000 bytes, and some");
}

pub async fn a_worker_gets_only_its_types(bench: &Bench) {
    let other = bench.submit(NewJob { task_type: task_type("other"), ..bench.job() }).await;
    bench.nothing_to_claim().await;
    let both = Claimant { abilities: abilities(&[TYPE, "other"]), wants: 5, ..bench.worker("w2") };
    assert_eq!(job_ids(&bench.claim(both).await), [other]);
}

pub async fn a_worker_gets_only_what_its_labels_allow(bench: &Bench) {
    let picky = bench.submit(NewJob { requires: labels(&[("gpu", "a100"), ("zone", "eu")]), ..bench.job() }).await;
    let with = |pairs: &[(&str, &str)]| Claimant {
        abilities: Arc::new(Abilities { labels: labels(pairs), ..(*abilities(&[TYPE])).clone() }),
        wants: 5,
        ..bench.worker("w2")
    };
    for poor in [&[][..], &[("gpu", "a100")], &[("gpu", "a100"), ("zone", "us")], &[("zone", "eu"), ("a", "b")]] {
        assert!(bench.claim(with(poor)).await.is_empty(), "{poor:?} is not enough");
    }
    let rich = with(&[("gpu", "a100"), ("zone", "eu"), ("rack", "7")]);
    assert_eq!(job_ids(&bench.claim(rich.clone()).await), [picky]);
    let plain = bench.submit(bench.job()).await;
    assert_eq!(job_ids(&bench.claim(rich).await), [plain], "labels nobody asked for do not hurt");
}

/// What a job requires an amount of goes to a worker that has at least as much, compared as numbers.
pub async fn a_worker_gets_only_what_its_resources_allow(bench: &Bench) {
    let required = |pairs: &[(&str, &str)]| {
        let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Labels::required(pairs.collect()).expect("a requirement")
    };
    let large = bench.submit(NewJob { requires: required(&[("gpu", ">=10")]), ..bench.job() }).await;
    let small = bench.submit(NewJob { requires: required(&[("gpu", ">=2"), ("site", "fra")]), ..bench.job() }).await;
    let taken = async |site: &str, gpu: f64| {
        let labels = labels(&[("site", site)]).with_resources(&[("gpu".to_owned(), gpu)].into()).expect("resources");
        let claimant = bench.worker("w1");
        let types = claimant.abilities.task_types.clone();
        let abilities = Arc::new(Abilities { task_types: types, labels });
        bench.claim(Claimant { abilities, ..claimant }).await.into_iter().map(|run| run.job).collect::<Vec<_>>()
    };
    assert_eq!(taken("fra", 1.5).await, []);
    assert_eq!(taken("ber", 9.0).await, [], "nine is less than ten, and the site is another");
    assert_eq!(taken("fra", 9.0).await, [small]);
    assert_eq!(taken("fra", 10.0).await, [large]);
    let (record, _) = bench.find(large).await;
    assert_eq!(record.requires.canonical(), "gpu=>=10");
}

pub async fn a_worker_gets_only_its_tenants_runs(bench: &Bench) {
    let theirs = bench.submit(NewJob { tenant: bench.neighbour, ..bench.job() }).await;
    bench.nothing_to_claim().await;
    let ours = bench.submit(bench.job()).await;
    let runs = bench.claim(Claimant { wants: 9, ..bench.worker("w1") }).await;
    assert_eq!(job_ids(&runs), [ours]);
    let runs = bench.claim(bench.insider(9)).await;
    assert_eq!((runs.len(), runs[0].job, runs[0].tenant), (1, theirs, bench.neighbour), "insiders serve everybody");
}

fn by_lane(runs: &[ClaimedRun]) -> BTreeMap<Lane, usize> {
    let mut counts = BTreeMap::new();
    for run in runs {
        *counts.entry(run.lane).or_default() += 1;
    }
    counts
}

/// As many jobs in every lane.
async fn fill_lanes(bench: &Bench, each: usize) {
    for lane in Lane::ALL {
        bench.ask_all((0..each).map(|_| NewJob { lane, ..bench.job() }).collect()).await;
    }
}

pub async fn lanes_share_by_weight(bench: &Bench) {
    fill_lanes(bench, 40).await;
    let runs = bench.claim(Claimant { wants: 32, slots: 32, ..bench.worker("w1") }).await;
    let wanted = [(Lane::Critical, 16), (Lane::Webhook, 8), (Lane::Default, 6), (Lane::Low, 2)];
    assert_eq!(by_lane(&runs), BTreeMap::from(wanted));
}

pub async fn a_lane_alone_gets_all_places(bench: &Bench) {
    let ids: Vec<JobId> = {
        let jobs: Vec<NewJob> = (0..20).map(|_| NewJob { lane: Lane::Low, ..bench.job() }).collect();
        let ids = jobs.iter().map(|job| job.id).collect();
        bench.ask_all(jobs).await;
        ids
    };
    assert_eq!(job_ids(&bench.claim(Claimant { wants: 20, slots: 20, ..bench.worker("w1") }).await), ids);
}

/// Places that a short line cannot fill go to the long ones, in the same claim.
pub async fn what_one_line_cannot_fill_another_one_does(bench: &Bench) {
    bench.ask_all((0..40).map(|_| NewJob { lane: Lane::Critical, ..bench.job() }).collect()).await;
    for lane in [Lane::Low, Lane::Default] {
        bench.submit(NewJob { lane, ..bench.job() }).await;
    }
    bench.submit(NewJob { tenant: bench.neighbour, ..bench.job() }).await;
    let runs = bench.claim(Claimant { tenant: None, wants: 32, slots: 32, ..bench.worker("w1") }).await;
    assert_eq!(run_ids(&runs).into_iter().collect::<BTreeSet<_>>().len(), 32, "every run once");
    assert_eq!(job_ids(&runs).into_iter().collect::<BTreeSet<_>>().len(), 32, "every job once");
    assert_eq!(by_lane(&runs), BTreeMap::from([(Lane::Critical, 29), (Lane::Default, 2), (Lane::Low, 1)]));
}

/// Even a worker with a single place gets to every lane, whatever waits in the others.
pub async fn no_lane_starves(bench: &Bench) {
    fill_lanes(bench, 80).await;
    let mut seen = BTreeMap::<Lane, usize>::new();
    for _ in 0..64 {
        let run = bench.claim_one().await;
        *seen.entry(run.lane).or_default() += 1;
    }
    assert_eq!(seen.len(), 4, "{seen:?}");
    assert!(seen[&Lane::Critical] > seen[&Lane::Low], "{seen:?}");
}

fn by_tenant(runs: &[ClaimedRun]) -> BTreeMap<TenantId, usize> {
    let mut counts = BTreeMap::new();
    for run in runs {
        *counts.entry(run.tenant).or_default() += 1;
    }
    counts
}

/// A loud tenant does not silence a quiet one, however many types of work it has.
pub async fn tenants_take_turns(bench: &Bench) {
    let types = ["mail.send", "mail.read", "mail.sort"];
    for name in types {
        bench.ask_all((0..40).map(|_| NewJob { task_type: task_type(name), ..bench.job() }).collect()).await;
    }
    bench.ask_all((0..40).map(|_| NewJob { tenant: bench.neighbour, ..bench.job() }).collect()).await;
    let claimant = Claimant { abilities: abilities(&types), ..bench.insider(20) };
    let runs = bench.claim(claimant.clone()).await;
    assert_eq!(by_tenant(&runs), BTreeMap::from([(bench.tenant, 10), (bench.neighbour, 10)]));
    let mut singles = Vec::new();
    for _ in 0..40 {
        singles.extend(bench.claim(Claimant { wants: 1, ..claimant.clone() }).await);
    }
    let counts = by_tenant(&singles);
    assert_eq!(counts.len(), 2, "one place at a time goes to both: {counts:?}");
}

fn by_worker(runs: &[ClaimedRun]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for run in runs {
        *counts.entry(run.worker.as_str()).or_default() += 1;
    }
    counts
}

pub async fn round_robin_gives_one_each(bench: &Bench) {
    bench.submit_many(6).await;
    let asking = ["w1", "w2", "w3"].map(|name| Claimant { wants: 5, ..bench.worker(name) });
    let runs = bench.claim_by(Strategy::RoundRobin, asking.into()).await;
    assert_eq!(by_worker(&runs), BTreeMap::from([("w1", 2), ("w2", 2), ("w3", 2)]));
}

pub async fn the_least_loaded_worker_comes_first(bench: &Bench) {
    bench.submit_many(4).await;
    let full = Claimant { wants: 2, busy: 8, slots: 10, ..bench.worker("full") };
    let free = Claimant { wants: 10, busy: 0, slots: 10, ..bench.worker("free") };
    let runs = bench.claim_by(Strategy::LeastLoaded, vec![full, free]).await;
    assert_eq!(by_worker(&runs), BTreeMap::from([("free", 4)]));
}

pub async fn the_best_match_leaves_generalists_free(bench: &Bench) {
    bench.submit_many(3).await;
    let jack = Claimant { abilities: abilities(&[TYPE, "b", "c"]), wants: 5, ..bench.worker("jack") };
    let expert = Claimant { wants: 2, ..bench.worker("expert") };
    let runs = bench.claim_by(Strategy::BestMatch, vec![jack, expert]).await;
    assert_eq!(by_worker(&runs), BTreeMap::from([("expert", 2), ("jack", 1)]));
}

pub async fn at_random_everybody_is_served_in_the_end(bench: &Bench) {
    bench.submit_many(60).await;
    let asking = ["w1", "w2", "w3"].map(|name| Claimant { wants: 60, slots: 60, ..bench.worker(name) });
    let runs = bench.claim_by(Strategy::Random, asking.into()).await;
    assert_eq!((runs.len(), by_worker(&runs).len()), (60, 3));
}

/// L2, J1: whoever asks, and however many at once, a run has one holder.
pub async fn no_run_is_claimed_twice(bench: &Bench) {
    let ids: BTreeSet<JobId> = bench.submit_many(120).await.into_iter().collect();
    let rules = ClaimRules { weights: Default::default(), strategy: Strategy::RoundRobin };
    let mut workers = JoinSet::new();
    for n in 0..12 {
        let claimant = Claimant { wants: 1 + n % 5, ..bench.worker(&format!("w{n}")) };
        let ledger = bench.ledger.clone();
        workers.spawn(async move {
            let mut got = Vec::new();
            loop {
                let runs = ledger.claim(vec![claimant.clone()], rules).await.expect("the ledger hands out runs");
                if runs.is_empty() {
                    return got;
                }
                assert!(runs.iter().all(|run| run.worker == claimant.worker), "nobody gets another one's runs");
                got.extend(runs);
            }
        });
    }
    let mut runs: Vec<ClaimedRun> = workers.join_all().await.into_iter().flatten().collect();
    // A claim may look away from rows that another one is just taking; what is left over is there for the next.
    bench.ledger.find_work().await.expect("the ledger can be read");
    runs.extend(bench.claim(Claimant { wants: 200, slots: 200, ..bench.worker("last") }).await);
    assert_eq!(runs.len(), 120);
    assert_eq!(job_ids(&runs).into_iter().collect::<BTreeSet<_>>(), ids);
    assert_eq!(run_ids(&runs).into_iter().collect::<BTreeSet<_>>().len(), 120);
}

/// Submitting, claiming and reporting all at once: every job is done exactly once.
pub async fn every_job_is_done_once_while_everybody_is_busy(bench: &Bench) {
    let rules = ClaimRules { weights: Default::default(), strategy: Strategy::LeastLoaded };
    let mut people = JoinSet::new();
    for _ in 0..4 {
        let (ledger, jobs) = (bench.ledger.clone(), (0..25).map(|_| bench.job()).collect::<Vec<_>>());
        people.spawn(async move {
            for job in jobs {
                ledger.submit(vec![job]).await.expect("the ledger takes jobs");
            }
            Vec::new()
        });
    }
    for n in 0..4 {
        let (ledger, claimant) =
            (bench.ledger.clone(), Claimant { wants: 3, accepts_at_once: true, ..bench.worker(&format!("w{n}")) });
        let reports = Bench::new(bench.ledger.clone(), bench.clock.clone());
        people.spawn(async move {
            let (mut done, mut idle) = (Vec::new(), 0);
            while idle < 200 {
                let runs = ledger.claim(vec![claimant.clone()], rules).await.expect("the ledger hands out runs");
                idle = if runs.is_empty() { idle + 1 } else { 0 };
                for run in runs {
                    let answer = reports.succeed(&run).await;
                    assert_eq!(answer, ReportAnswer::Recorded(JobStatus::Succeeded));
                    done.push(run.job);
                }
                ledger.find_work().await.expect("the ledger can be read");
            }
            done
        });
    }
    let mut done: Vec<JobId> = people.join_all().await.into_iter().flatten().collect();
    for run in bench.claim(Claimant { wants: 200, slots: 200, ..bench.worker("last") }).await {
        bench.succeed(&run).await;
        done.push(run.job);
    }
    assert_eq!(done.len(), 100);
    assert_eq!(done.into_iter().collect::<BTreeSet<_>>().len(), 100);
}

pub async fn an_insider_confirms_with_the_hand_out(bench: &Bench) {
    let id = bench.submit(bench.job()).await;
    let runs = bench.claim(bench.insider(1)).await;
    assert_eq!(job_ids(&runs), [id]);
    let record = &bench.find(id).await.1[0];
    assert_eq!((record.status, record.started_at), (RunStatus::Running, Some(bench.now())));
    bench.pass_ms(super::bench::TIMES.accept_ms + 1);
    assert_eq!(bench.reap().await.returned, 0, "there is nothing left to confirm");
}

/// L1: every hand-out has a run of its own and a higher fence.
pub async fn every_hand_out_is_a_new_run_with_a_higher_fence(bench: &Bench) {
    bench.submit(NewJob { policy: super::bench::losses(9), ..bench.job() }).await;
    let mut runs = Vec::new();
    for n in 1..=4 {
        let run = bench.start_one().await;
        assert_eq!((run.attempt, run.fence), (n, n));
        bench.silence().await;
        runs.push(run);
    }
    assert_eq!(run_ids(&runs).into_iter().collect::<BTreeSet<_>>().len(), 4);
}

pub async fn queued_work_rings_for_workers(bench: &Bench) {
    let mut work = bench.ledger.work_wake().listen();
    bench.submit(bench.job()).await;
    work.rung().await;
    let run = bench.start_one().await;
    work.forget();
    bench.silence().await;
    work.rung().await;
    assert_eq!(bench.claim_one().await.job, run.job);
}

/// A look finds nothing that was not known already, and forgets nothing.
pub async fn looking_for_work_takes_nothing_away(bench: &Bench) {
    let id = bench.submit(bench.job()).await;
    for _ in 0..3 {
        assert!(!bench.ledger.find_work().await.expect("the ledger can be read"), "it was known");
    }
    assert_eq!(bench.claim_one().await.job, id);
    assert!(!bench.ledger.find_work().await.expect("the ledger can be read"), "nothing waits");
}

pub async fn a_name_of_a_worker_is_kept_as_it_is(bench: &Bench) {
    for name in ["W1", "w1", "site/fra-1:gpu@2", "0"] {
        let id = bench.submit(bench.job()).await;
        let runs = bench.claim(bench.worker(name)).await;
        assert_eq!((runs[0].job, &runs[0].worker), (id, &worker_name(name)));
        assert_eq!(bench.find(id).await.1[0].worker.as_str(), name);
    }
}
