//! Promises about agents: a join token lets one in, once; news of many runs come together; output is where it was put.

use std::sync::Arc;

use bowline_model::admission::{Admission, Reach};
use bowline_model::host::Connection;
use bowline_model::{ErrorClass, EventKind, JobStatus, Labels, Outcome, RunStatus, TenantId, WorkerName};
use tokio::task::JoinSet;

use super::bench::{Bench, labels, worker_name};
use super::tokens::{revoke_all, token};
use crate::{
    AgentRecord, Encoding, Enrolled, EventFilter, NewOutput, OUTPUT_GRACE_MS, OUTPUT_MAX_BYTES, OutputAnswer,
    OutputRange, OutputStream, PruneMark, RemoveAgent, RemovedAgent, ReportAnswer, Retention, SealingKeySet,
    TellAnswer, TokenRecord, WorkerRecord,
};

fn admission() -> Admission {
    Admission { reach: [Reach::Ssh, Reach::Simulate].into(), secrets_for_shared_user: true, ..Admission::default() }
}

pub(super) fn agent(bench: &Bench, name: &str, key: u8) -> (AgentRecord, TokenRecord) {
    let own = TokenRecord { kind: "wrk".to_owned(), name: name.to_owned(), ..token(bench, &format!("of-{name}")) };
    let agent = AgentRecord {
        tenant: bench.tenant,
        name: worker_name(name),
        public_key: [key; 32],
        sealing_key: None,
        labels: labels(&[("dc", "fra")]),
        admission: admission(),
        token: own.id.clone(),
        token_before: None,
        enrolled_at: bench.now(),
    };
    (agent, own)
}

pub(super) async fn join_token(bench: &Bench, id: &str) -> String {
    let join = TokenRecord {
        kind: "joi".to_owned(),
        scopes: String::new(),
        labels: labels(&[("dc", "fra")]),
        expires_at: Some(bench.now().plus_millis(60_000)),
        ..token(bench, id)
    };
    assert!(bench.ledger.create_token(join, "ops".into()).await.expect("the ledger takes tokens"));
    id.to_owned()
}

pub(super) async fn enroll(bench: &Bench, join: &str, name: &str, key: u8) -> Enrolled {
    let (agent, own) = agent(bench, name, key);
    bench.ledger.enroll_agent(join.to_owned(), agent, own, "join:j".into()).await.expect("the ledger takes agents")
}

pub async fn a_join_token_lets_one_agent_in(bench: &Bench) {
    let join = join_token(bench, "j1").await;
    assert_eq!(enroll(bench, &join, "a1", 1).await, Enrolled::Done);
    assert_eq!(enroll(bench, &join, "a1", 1).await, Enrolled::Done, "whoever lost the answer asks again");
    assert_eq!(enroll(bench, &join, "a2", 2).await, Enrolled::NotWelcome);
    let found = bench.ledger.find_agent(bench.tenant, worker_name("a1")).await.expect("read").expect("it is there");
    assert_eq!(found, agent(bench, "a1", 1).0);
    let own = bench.ledger.find_token("of-a1".to_owned()).await.expect("read").expect("it has a credential");
    assert_eq!((own.kind.as_str(), own.labels), ("wrk", Labels::default()));
    assert_eq!(bench.ledger.find_agent(bench.tenant, worker_name("a2")).await.expect("read"), None);
    assert_eq!(bench.ledger.find_agent(bench.neighbour, worker_name("a1")).await.expect("read"), None);
    assert_eq!(bench.ledger.find_token("of-a2".to_owned()).await.expect("read"), None, "all or nothing");
}

pub async fn a_join_token_that_was_used_says_so(bench: &Bench) {
    let (used, revoked) = (join_token(bench, "j1").await, join_token(bench, "j2").await);
    bench.pass_ms(5);
    assert_eq!(enroll(bench, &used, "a1", 1).await, Enrolled::Done);
    assert!(revoke_all(bench, &revoked, None, false).await.is_some());
    let times = async |id: String| {
        let found = bench.ledger.find_token(id).await.expect("read").expect("it is there");
        (found.used_at, found.revoked_at)
    };
    assert_eq!(times(used).await, (Some(bench.now()), Some(bench.now())));
    assert_eq!(times(revoked).await, (None, Some(bench.now())));
}

pub async fn an_agent_with_its_old_key_is_admitted_anew(bench: &Bench) {
    let (first, second) = (join_token(bench, "j1").await, join_token(bench, "j2").await);
    assert_eq!(enroll(bench, &first, "a1", 1).await, Enrolled::Done);
    bench.ledger.register_worker(super::workers::registration(bench, "a1")).await.expect("it registers");
    let show = bench.ledger.set_sealing_key(bench.tenant, worker_name("a1"), [7; 32], "worker:a1".into());
    assert_eq!(show.await.expect("the ledger takes keys"), SealingKeySet::First);
    let (stranger, own) = agent(bench, "a1", 2);
    let own = TokenRecord { id: "stranger".to_owned(), ..own };
    let stranger = AgentRecord { token: own.id.clone(), ..stranger };
    let answer = bench.ledger.enroll_agent(second.clone(), stranger, own, "join:j".into()).await.expect("an answer");
    assert_eq!(answer, Enrolled::NameTaken, "another key is another agent");
    bench.pass_ms(5);
    let (again, own) = agent(bench, "a1", 1);
    let own = TokenRecord { id: "of-a1-again".to_owned(), ..own };
    let again = AgentRecord {
        token: own.id.clone(),
        labels: labels(&[("dc", "ams")]),
        admission: Admission::default(),
        ..again
    };
    let answer = bench.ledger.enroll_agent(second, again.clone(), own, "join:j".into()).await.expect("an answer");
    assert_eq!(answer, Enrolled::Done);
    let found = bench.ledger.find_agent(bench.tenant, worker_name("a1")).await.expect("read");
    assert_eq!(found, Some(AgentRecord { sealing_key: Some([7; 32]), ..again }), "it is what the new token says");
    let old = bench.ledger.find_token("of-a1".to_owned()).await.expect("read").expect("it is there");
    assert_eq!(old.revoked_at, Some(bench.now()), "its old credential ends");
    let registered =
        bench.ledger.find_worker(bench.tenant, worker_name("a1")).await.expect("read").expect("it is there");
    let given = labels(&[(Connection::AGENT_LABEL, "a1"), ("dc", "ams")]);
    assert_eq!(registered.labels, given, "what it registered as before is more than it is now");
}

pub async fn an_agents_credential_is_renewed(bench: &Bench) {
    let join = join_token(bench, "j1").await;
    assert_eq!(enroll(bench, &join, "a1", 1).await, Enrolled::Done);
    let renew = |used: &str, id: &str| {
        let (_, own) = agent(bench, "a1", 1);
        let expires_at = Some(bench.now().plus_millis(9_000_000));
        let token = TokenRecord { id: id.to_owned(), expires_at, ..own };
        let (name, used) = (worker_name("a1"), used.to_owned());
        async move {
            let renewed = bench.ledger.renew_agent(bench.tenant, name, used, token, 500, "worker:a1".into());
            renewed.await.expect("the ledger takes credentials")
        }
    };
    assert!(!renew("another", "x").await, "it is not the agent's");
    assert!(renew("of-a1", "second").await);
    assert!(renew("of-a1", "third").await, "the answer was lost; the old one is still good");
    let found = bench.ledger.find_agent(bench.tenant, worker_name("a1")).await.expect("read").expect("it is there");
    assert_eq!((found.token.as_str(), found.token_before.as_deref()), ("third", Some("of-a1")));
    let token = async |id: &str| bench.ledger.find_token(id.to_owned()).await.expect("read").expect("it is there");
    assert_eq!(token("of-a1").await.expires_at, Some(bench.now().plus_millis(500)), "it ends soon");
    assert_eq!(token("second").await.revoked_at, Some(bench.now()), "nothing ever used it");
    assert_eq!(token("third").await.revoked_at, None);
    assert!(renew("third", "fourth").await);
    assert!(!renew("of-a1", "fifth").await, "it is too old by now");
    let revoked = revoke_all(bench, "fourth", None, false).await.expect("it is there");
    assert_eq!(revoked.also.len(), 1, "{revoked:?}");
    assert_eq!(token("third").await.revoked_at, Some(bench.now()), "the one before would get the agent a new one");
}

pub async fn a_worker_token_and_an_agent_never_share_a_name(bench: &Bench) {
    let (first, second) = (join_token(bench, "j1").await, join_token(bench, "j2").await);
    assert_eq!(enroll(bench, &first, "a1", 1).await, Enrolled::Done);
    let named = |id: &str, name: &str| TokenRecord {
        kind: "wrk".to_owned(),
        name: name.to_owned(),
        expires_at: Some(bench.now().plus_millis(1_000)),
        ..token(bench, id)
    };
    let create = async |token| bench.ledger.create_token(token, "ops".into()).await.expect("the ledger takes tokens");
    assert!(!create(named("w1", "a1")).await, "an agent has this name");
    assert!(create(named("w2", "a2")).await);
    assert_eq!(enroll(bench, &second, "a2", 2).await, Enrolled::NameTaken, "a worker's token has this name");
    bench.pass_ms(1_001);
    assert_eq!(enroll(bench, &second, "a2", 2).await, Enrolled::Done, "and has ended");
}

pub async fn the_last_sealing_key_of_an_agent_counts(bench: &Bench) {
    let join = join_token(bench, "j1").await;
    assert_eq!(enroll(bench, &join, "a1", 1).await, Enrolled::Done);
    let show = |tenant, name: &str, key: u8| {
        let name = worker_name(name);
        let show = bench.ledger.set_sealing_key(tenant, name, [key; 32], "worker:a1".into());
        async move { show.await.expect("the ledger takes keys") }
    };
    let kept = async || {
        let found = bench.ledger.find_agent(bench.tenant, worker_name("a1")).await.expect("read");
        found.expect("it is there").sealing_key
    };
    assert_eq!(kept().await, None);
    assert_eq!(show(bench.tenant, "a1", 7).await, SealingKeySet::First);
    assert_eq!(kept().await, Some([7; 32]));
    assert_eq!(show(bench.tenant, "a1", 8).await, SealingKeySet::Replaced);
    assert_eq!(show(bench.tenant, "a1", 8).await, SealingKeySet::Unchanged);
    assert_eq!(show(bench.neighbour, "a1", 9).await, SealingKeySet::NotFound, "another tenant has no such agent");
    assert_eq!(show(bench.tenant, "a2", 9).await, SealingKeySet::NotFound, "no agent has this name");
    assert_eq!(kept().await, Some([8; 32]));
    let told = bench.stream(EventFilter::default(), 5).await;
    let keys = told.iter().map(|(_, event)| event.kind).filter(|kind| kind.as_str().contains("sealing_key"));
    let kinds: Vec<EventKind> = keys.collect();
    assert_eq!(kinds, [EventKind::AgentSealingKeySet, EventKind::AgentSealingKeyChanged], "each change is told, once");
}

pub async fn agents_that_join_at_once_with_one_token_are_one(bench: &Bench) {
    let join = join_token(bench, "j1").await;
    let mut agents = JoinSet::new();
    for n in 0..8 {
        let (ledger, join, (agent, own)) = (bench.ledger.clone(), join.clone(), agent(bench, &format!("a{n}"), n));
        agents.spawn(async move {
            ledger.enroll_agent(join, agent, own, "join:j".into()).await.expect("the ledger takes agents")
        });
    }
    let answers = agents.join_all().await;
    assert_eq!(answers.iter().filter(|answer| **answer == Enrolled::Done).count(), 1, "{answers:?}");
}

pub async fn a_join_token_that_is_old_or_of_another_tenant_lets_nobody_in(bench: &Bench) {
    let join = join_token(bench, "j1").await;
    let (stranger, own) = agent(bench, "a1", 1);
    let stranger = AgentRecord { tenant: bench.neighbour, ..stranger };
    let answer =
        bench.ledger.enroll_agent(join.clone(), stranger, own, "join:j".into()).await.expect("the ledger takes agents");
    assert_eq!(answer, Enrolled::NotWelcome);
    bench.pass_ms(60_001);
    assert_eq!(enroll(bench, &join, "a1", 1).await, Enrolled::NotWelcome);
    assert_eq!(enroll(bench, "nothing", "a1", 1).await, Enrolled::NotWelcome);
}

pub async fn a_name_and_a_key_are_given_once(bench: &Bench) {
    let (first, second) = (join_token(bench, "j1").await, join_token(bench, "j2").await);
    enroll(bench, &first, "a1", 1).await;
    assert_eq!(enroll(bench, &second, "a1", 2).await, Enrolled::NameTaken);
    assert_eq!(enroll(bench, &second, "a2", 1).await, Enrolled::KeyTaken);
    bench.ledger.register_worker(super::workers::registration(bench, "a3")).await.expect("it registers");
    assert_eq!(enroll(bench, &second, "a3", 3).await, Enrolled::NameTaken, "a worker has this name");
    assert_eq!(enroll(bench, &second, "a2", 2).await, Enrolled::Done, "a refusal uses nothing up");
}

pub(super) async fn remove(bench: &Bench, tenant: TenantId, name: &str) -> Option<RemovedAgent> {
    let reason = "the disk with its key is broken".to_owned();
    let request = RemoveAgent { tenant, name: worker_name(name), by: "ann".into(), reason };
    bench.ledger.remove_agent(request).await.expect("the ledger removes agents")
}

pub async fn a_removed_agent_leaves_its_name_and_key_free(bench: &Bench) {
    let (first, second) = (join_token(bench, "j1").await, join_token(bench, "j2").await);
    assert_eq!(enroll(bench, &first, "a1", 1).await, Enrolled::Done);
    bench.ledger.register_worker(super::workers::registration(bench, "a1")).await.expect("it registers");
    assert_eq!(remove(bench, bench.neighbour, "a1").await, None, "another tenant has no such agent");
    bench.pass_ms(5);
    let removed = remove(bench, bench.tenant, "a1").await.expect("it was there");
    assert_eq!((removed.credentials, removed.lost_runs, removed.returned_runs), (vec!["of-a1".to_owned()], 0, 0));
    assert_eq!(remove(bench, bench.tenant, "a1").await, None, "twice is once");
    let old = bench.ledger.find_token("of-a1".to_owned()).await.expect("read").expect("its record is kept");
    assert_eq!(old.revoked_at, Some(bench.now()), "its credential has ended");
    assert_eq!(bench.ledger.find_agent(bench.tenant, worker_name("a1")).await.expect("read"), None);
    assert_eq!(bench.ledger.find_worker(bench.tenant, worker_name("a1")).await.expect("read"), None);
    let told = bench.stream(EventFilter { kinds: vec![EventKind::AgentRemoved], ..EventFilter::default() }, 1).await;
    let data = &told[0].1.data;
    assert_eq!((data.by.as_deref(), data.reason.as_deref()), (Some("ann"), Some("the disk with its key is broken")));
    let (again, own) = agent(bench, "a1", 2);
    let own = TokenRecord { id: "of-a1-again".to_owned(), ..own };
    let again = AgentRecord { token: own.id.clone(), ..again };
    let answer = bench.ledger.enroll_agent(second, again, own, "join:j".into()).await.expect("an answer");
    assert_eq!(answer, Enrolled::Done, "another key may have the name");
}

pub async fn what_happens_to_agents_is_told_with_who_and_why(bench: &Bench) {
    let (first, second) = (join_token(bench, "j1").await, join_token(bench, "j2").await);
    let (ledger, tenant, name) = (&bench.ledger, bench.tenant, || worker_name("a1"));
    assert_eq!(enroll(bench, &first, "a1", 1).await, Enrolled::Done);
    let (again, own) = agent(bench, "a1", 1);
    let renewed = TokenRecord { id: "renewed".to_owned(), ..own.clone() };
    let done = ledger.renew_agent(tenant, name(), "of-a1".to_owned(), renewed, 500, "worker:a1".into()).await;
    assert_eq!(done, Ok(true));
    let shown = ledger.set_sealing_key(tenant, name(), [7; 32], "worker:a1".into()).await;
    assert_eq!(shown, Ok(SealingKeySet::First));
    let own = TokenRecord { id: "of-a1-again".to_owned(), ..own };
    let again = AgentRecord { token: own.id.clone(), ..again };
    assert_eq!(ledger.enroll_agent(second, again, own, "join:j".into()).await, Ok(Enrolled::Done));
    assert!(remove(bench, tenant, "a1").await.is_some());
    let kinds =
        vec![EventKind::AgentEnrolled, EventKind::AgentRenewed, EventKind::AgentSealingKeySet, EventKind::AgentRemoved];
    let stream = bench.stream(EventFilter { kinds, ..EventFilter::default() }, 5).await;
    let told: Vec<_> = stream
        .iter()
        .map(|(_, event)| (event.kind, event.data.by.as_deref().unwrap_or(""), event.data.reason.as_deref()))
        .collect();
    assert_eq!(
        told,
        [
            (EventKind::AgentEnrolled, "join:j1", None),
            (EventKind::AgentRenewed, "worker:a1", None),
            (EventKind::AgentSealingKeySet, "worker:a1", None),
            (EventKind::AgentEnrolled, "join:j2", Some("admitted anew, with the same key")),
            (EventKind::AgentRemoved, "ann", Some("the disk with its key is broken")),
        ]
    );
    assert!(stream.iter().all(|(_, event)| event.data.worker == Some(name())), "{stream:?}");
}

pub async fn an_agent_that_registers_while_it_is_removed_is_not_stored(bench: &Bench) {
    let agent = labels(&[(Connection::AGENT_LABEL, "a1")]);
    let late = WorkerRecord { labels: agent, ..super::workers::registration(bench, "a1") };
    bench.ledger.register_worker(late).await.expect("an answer");
    assert_eq!(bench.ledger.find_worker(bench.tenant, worker_name("a1")).await.expect("read"), None);
    let join = join_token(bench, "j1").await;
    assert_eq!(enroll(bench, &join, "a1", 1).await, Enrolled::Done, "nothing holds the name");
}

pub async fn agents_are_listed_by_name_in_pages_with_who_admitted_them(bench: &Bench) {
    for (n, name) in ["a3", "a1", "a2"].into_iter().enumerate() {
        let join = join_token(bench, &format!("j-{name}")).await;
        assert_eq!(enroll(bench, &join, name, u8::try_from(n).expect("few")).await, Enrolled::Done);
    }
    bench.ledger.register_worker(super::workers::registration(bench, "a2")).await.expect("it registers");
    let list = async |after: Option<&str>| {
        let page = bench.ledger.list_agents(bench.tenant, after.map(worker_name), 2).await.expect("read");
        (page.items, page.next)
    };
    let (items, next) = list(None).await;
    let names: Vec<&str> = items.iter().map(|entry| entry.agent.name.as_str()).collect();
    assert_eq!((names, next.as_ref().map(WorkerName::as_str)), (vec!["a1", "a2"], Some("a2")));
    assert_eq!(items[0].join_token.as_deref(), Some("j-a1"));
    assert!(items[0].worker.is_none(), "it never registered");
    assert_eq!(items[1].worker, Some(super::workers::registration(bench, "a2")));
    let (items, next) = list(Some("a2")).await;
    assert_eq!((items.len(), items[0].agent.name.as_str(), next), (1, "a3", None));
    let found =
        async |tenant, name: &str| bench.ledger.find_agent_entry(tenant, worker_name(name)).await.expect("read");
    assert_eq!(found(bench.tenant, "a3").await.as_ref(), Some(&items[0]));
    assert_eq!(found(bench.neighbour, "a3").await, None);
    let neighbours = bench.ledger.list_agents(bench.neighbour, None, 10).await.expect("read");
    assert!(neighbours.items.is_empty());
}

pub async fn news_of_many_runs_come_together(bench: &Bench) {
    let (one, two) = (bench.running(bench.job()).await, bench.running(bench.job()).await);
    let told = vec![bench.telling(&one, &[1, 2]), bench.telling(&two, &[1])];
    let reports = vec![bench.report_of(&two, Outcome::Failed(ErrorClass::Permanent))];
    let (heard, settled) = bench.ledger.ship(told.clone(), reports.clone()).await.expect("the ledger takes news");
    let acked = |answer: &TellAnswer| match answer {
        TellAnswer::Held { acked, added, .. } => (*acked, *added),
        other => panic!("{other:?}"),
    };
    assert_eq!(heard.iter().map(acked).collect::<Vec<_>>(), [(2, 2), (1, 1)]);
    assert_eq!(settled, [ReportAnswer::Recorded(JobStatus::Dead)]);
    let (again, settled) = bench.ledger.ship(told, reports).await.expect("the ledger takes news");
    assert_eq!(again.iter().map(acked).collect::<Vec<_>>(), [(2, 0), (1, 0)], "twice is once");
    assert_eq!(settled, [ReportAnswer::Duplicate]);
    let (_, runs) = bench.find(two.job).await;
    assert_eq!((runs[0].status, runs[0].acked_seq), (RunStatus::Failed, 1));
    assert_eq!(bench.status(one.job).await, JobStatus::Running);
}

pub async fn two_tellings_of_one_run_in_one_shipment_are_taken_in_order(bench: &Bench) {
    let run = bench.running(bench.job()).await;
    let told = vec![bench.telling(&run, &[2]), bench.telling(&run, &[1]), bench.telling(&run, &[3, 2])];
    let (heard, _) = bench.ledger.ship(told, Vec::new()).await.expect("the ledger takes news");
    let acked: Vec<u64> =
        heard.iter().map(|a| if let TellAnswer::Held { acked, .. } = a { *acked } else { u64::MAX }).collect();
    assert_eq!(acked, [0, 2, 3]);
}

fn output(bench: &Bench, run: &crate::ClaimedRun, begins: u64, bytes: u64, hash: u8) -> NewOutput {
    let key = Arc::from(format!("runs/x/stdout/{begins}"));
    let range = OutputRange { begins, bytes, sha256: [hash; 32], encoding: Encoding::Zstd, key };
    NewOutput { tenant: bench.tenant, worker: run.worker.clone(), run: run.run, stream: OutputStream::Stdout, range }
}

async fn add(bench: &Bench, output: NewOutput) -> OutputAnswer {
    bench.ledger.add_output(output).await.expect("the ledger takes output")
}

pub async fn output_is_found_in_order_and_counts_up_to_a_gap(bench: &Bench) {
    let run = bench.running(bench.job()).await;
    assert_eq!(add(bench, output(bench, &run, 0, 10, 1)).await, OutputAnswer::Held { stored: 10, added: true });
    assert_eq!(add(bench, output(bench, &run, 20, 5, 3)).await, OutputAnswer::Held { stored: 10, added: true });
    assert_eq!(add(bench, output(bench, &run, 0, 10, 1)).await, OutputAnswer::Held { stored: 10, added: false });
    assert_eq!(add(bench, output(bench, &run, 0, 10, 9)).await, OutputAnswer::Conflict);
    let found = bench.ledger.find_output(bench.tenant, run.job, None).await.expect("read").expect("it runs");
    assert_eq!((found.run, found.stdout, found.stderr, found.ended), (run.run, 10, 0, false));
    assert_eq!(add(bench, output(bench, &run, 10, 10, 2)).await, OutputAnswer::Held { stored: 25, added: true });
    let ranges = bench.ledger.list_output(run.run, OutputStream::Stdout, 12, 10).await.expect("read");
    assert_eq!(ranges.iter().map(|range| (range.begins, range.bytes)).collect::<Vec<_>>(), [(10, 10), (20, 5)]);
    assert_eq!(ranges[0], output(bench, &run, 10, 10, 2).range.clone());
    bench.succeed(&run).await;
    let found = bench.ledger.find_output(bench.tenant, run.job, None).await.expect("read").expect("it ran");
    assert!(found.ended);
}

pub async fn nobody_brings_or_sees_output_of_another_ones_run(bench: &Bench) {
    let run = bench.running(bench.job()).await;
    let other = NewOutput { worker: worker_name("w2"), ..output(bench, &run, 0, 1, 1) };
    assert_eq!(add(bench, other).await, OutputAnswer::NotYours);
    let stranger = NewOutput { tenant: bench.neighbour, ..output(bench, &run, 0, 1, 1) };
    assert_eq!(add(bench, stranger).await, OutputAnswer::NotFound);
    assert_eq!(bench.ledger.find_output(bench.neighbour, run.job, None).await.expect("read"), None);
    let may = bench.ledger.may_bring(bench.tenant, run.worker.clone(), run.run, OutputStream::Stderr, 1).await;
    assert_eq!(may.expect("read"), OutputAnswer::Held { stored: 0, added: false });
}

pub async fn output_ends_at_its_limit_and_some_time_after_its_run(bench: &Bench) {
    let run = bench.running(bench.job()).await;
    let max = OUTPUT_MAX_BYTES;
    assert_eq!(add(bench, output(bench, &run, max - 5, 6, 1)).await, OutputAnswer::TooLong { max });
    assert_eq!(add(bench, output(bench, &run, 0, 10, 1)).await, OutputAnswer::Held { stored: 10, added: true });
    let may = async |end| {
        let asked = bench.ledger.may_bring(bench.tenant, run.worker.clone(), run.run, OutputStream::Stdout, end).await;
        asked.expect("read")
    };
    assert_eq!(may(max).await, OutputAnswer::Held { stored: 10, added: false });
    assert_eq!(may(max + 1).await, OutputAnswer::TooLong { max });
    bench.succeed(&run).await;
    assert_eq!(add(bench, output(bench, &run, 10, 10, 2)).await, OutputAnswer::Held { stored: 20, added: true });
    bench.pass_ms(OUTPUT_GRACE_MS + 60_000);
    assert_eq!(may(21).await, OutputAnswer::Ended);
    assert_eq!(add(bench, output(bench, &run, 20, 1, 3)).await, OutputAnswer::Ended);
    let again = add(bench, output(bench, &run, 10, 10, 2)).await;
    assert_eq!(again, OutputAnswer::Held { stored: 20, added: false }, "what is held may be brought again");
    // What an agent knows of a run that was given up counts whenever it comes.
    let lost = bench.running(bench.job()).await;
    bench.silence().await;
    bench.pass_ms(OUTPUT_GRACE_MS + 60_000);
    assert_eq!(add(bench, output(bench, &lost, 0, 1, 1)).await, OutputAnswer::Held { stored: 1, added: true });
}

pub async fn ranges_that_overlap_count_with_all_their_bytes(bench: &Bench) {
    let run = bench.running(bench.job()).await;
    let max = OUTPUT_MAX_BYTES;
    assert_eq!(add(bench, output(bench, &run, 10, max - 10, 1)).await, OutputAnswer::Held { stored: 0, added: true });
    // Each ends within the limit, and together they would be stored twice.
    for begins in [0, 5, 11] {
        let overlapping = add(bench, output(bench, &run, begins, max - 11, 2)).await;
        assert_eq!(overlapping, OutputAnswer::TooLong { max }, "from {begins} on");
    }
    assert_eq!(add(bench, output(bench, &run, 0, 10, 3)).await, OutputAnswer::Held { stored: max, added: true });
    let again = add(bench, output(bench, &run, 10, max - 10, 1)).await;
    assert_eq!(again, OutputAnswer::Held { stored: max, added: false }, "what is there is no second time");
}

pub async fn retention_says_whose_output_is_to_go(bench: &Bench) {
    let run = bench.running(bench.job()).await;
    add(bench, output(bench, &run, 0, 1, 1)).await;
    bench.succeed(&run).await;
    bench.pass_ms(100_000);
    let retention = Retention { finished_jobs_ms: 50_000, events_ms: 50_000 };
    let pruned = bench.ledger.prune(retention, PruneMark::default()).await.expect("it prunes");
    assert_eq!(pruned.outputs, [run.run]);
    assert!(bench.ledger.list_output(run.run, OutputStream::Stdout, 0, 10).await.expect("read").is_empty());
}

pub async fn all_servers_of_a_ledger_keep_output_in_one_place(bench: &Bench) {
    let place = async |identity: &str, adopt| {
        bench.ledger.place_for_output(identity.to_owned(), adopt).await.expect("the ledger can be written")
    };
    assert_eq!(place("here", false).await, "here", "the first one decides");
    assert_eq!(place("here", false).await, "here");
    assert_eq!(place("elsewhere", false).await, "here", "the others are told");
    assert_eq!(place("elsewhere", true).await, "elsewhere", "unless somebody insists");
    assert_eq!(place("here", false).await, "elsewhere");
}
