//! Promises about the audit trail: every privileged deed has its record, with the deed itself, in a chain without a gap.

use bowline_model::audit::{Action, AuditRecord, Author, Chain, ChainWalk, Deed};
use bowline_model::fleet::{ApprovalState, Decided, Rollout};
use bowline_model::host::{Group, Host, Inventory};
use bowline_model::{ErrorClass, GroupName, HostName, InventoryName, JobStatus, ResourceName};
use tokio::task::JoinSet;

use super::bench::Bench;
use super::tokens::token;
use crate::{
    Activated, Applied, Applying, ApprovalAnswer, AuditFilter, AuditFrom, Claimant, DeadLetterChoice, FlowStanding,
    InventoryPut, JobOrder, NewTurn, OnceKey, OnceRequest, OrderAnswer, PruneMark, ReleaseOrder, ResourceKey,
    ResourceOrder, ResourcePut, Retention, RevokeToken, TokenRecord, TurnOrder, Unmentioned,
};

async fn list(bench: &Bench, chain: Chain, filter: AuditFilter) -> Vec<AuditRecord> {
    let page = bench.ledger.list_audit(chain, filter, AuditFrom::After(0), 1_000).await.expect("it can be read");
    assert_eq!(page.next, None, "there is no more");
    page.items
}

fn ours(bench: &Bench) -> Chain {
    Chain::Tenant(bench.tenant)
}

/// The whole chain, which must be sound.
async fn trail(bench: &Bench, chain: Chain) -> Vec<AuditRecord> {
    let records = list(bench, chain, AuditFilter::default()).await;
    let heads = bench.ledger.audit_heads().await.expect("it can be read");
    let mut walk = ChainWalk::new(chain, heads);
    for record in &records {
        walk.step(record).expect("each follows the one before");
    }
    walk.finish().expect("it ends where the ledger says");
    records
}

fn told(records: &[AuditRecord]) -> Vec<(&str, &str, &str)> {
    records.iter().map(|r| (r.actor.as_str(), r.action.as_str(), r.result.as_str())).collect()
}

fn key(bench: &Bench) -> ResourceKey {
    let name = ResourceName::new("restart").expect("a name");
    ResourceKey { tenant: bench.tenant, kind: bowline_model::resource::ResourceKind::Command, name }
}

fn put(bench: &Bench, spec: &str) -> ResourcePut {
    ResourcePut {
        key: key(bench),
        spec: spec.into(),
        note: None,
        source: None,
        by: "ann".into(),
        activate: true,
        seen: None,
    }
}

fn hosts(bench: &Bench) -> InventoryPut {
    let host = Host::named(HostName::new("a").expect("a name"));
    InventoryPut {
        tenant: bench.tenant,
        inventory: InventoryName::new("main").expect("a name"),
        content: std::sync::Arc::new(Inventory { hosts: vec![host], groups: Vec::new() }),
        unmentioned: Unmentioned::Keep,
        by: "ops".into(),
        reason: None,
    }
}

/// C13, U3: whatever was said about a deed stands in its record.
pub async fn a_record_says_who_did_what_to_what_and_why(bench: &Bench) {
    let job = bench.submit(bench.job()).await;
    let by = Author {
        name: "token:1".into(),
        on_behalf_of: Some("ann".into()),
        scopes: "jobs.write".into(),
        tenant: Some(bench.tenant),
        request_id: Some("req-7".into()),
        ip: Some("192.0.2.1".into()),
        ..Author::default()
    };
    let order = JobOrder { by, reason: Some("it harms".to_owned()), ..bench.order(job) };
    bench.pass_ms(5);
    assert_eq!(bench.ledger.cancel_job(order).await, Ok(OrderAnswer::Done(JobStatus::Canceled)));
    let records = trail(bench, ours(bench)).await;
    let wanted = AuditRecord {
        number: 1,
        at: bench.now(),
        actor: "token:1".to_owned(),
        on_behalf_of: Some("ann".to_owned()),
        scopes: "jobs.write".to_owned(),
        action: "job.cancel".to_owned(),
        resource: format!("job/{job}"),
        diff: Some(r#"{"status":"canceled"}"#.to_owned()),
        reason: Some("it harms".to_owned()),
        request_id: Some("req-7".to_owned()),
        ip: Some("192.0.2.1".to_owned()),
        result: "done".to_owned(),
        prev: Default::default(),
        hash: records[0].hash,
    };
    assert_eq!(records, [wanted]);
}

fn revocation(id: &str) -> RevokeToken {
    RevokeToken { id: id.to_owned(), tenant: None, with_workers: false }
}

pub async fn every_privileged_deed_is_recorded(bench: &Bench) {
    let ledger = &bench.ledger;
    let worker = bench.worker("w1").worker;
    assert!(ledger.create_token(token(bench, "t1"), "ann".into()).await.expect("tokens"));
    assert!(ledger.revoke_token(revocation("t1"), "root".into()).await.expect("orders").is_some());
    assert!(!ledger.drain_worker(bench.tenant, worker, true, "ops".into()).await.expect("orders"));
    ledger.put_inventory(hosts(bench)).await.expect("inventories");
    let gone = vec![HostName::new("a").expect("a name")];
    let inventory = InventoryName::new("main").expect("a name");
    assert_eq!(ledger.remove_hosts(bench.tenant, inventory, gone, "ops".into(), None).await, Ok(1));
    ledger.put_resource(put(bench, "{}")).await.expect("resources");
    ledger.put_resource(put(bench, "[]")).await.expect("resources");
    let order = || ResourceOrder { key: key(bench), by: "bob".into(), reason: Some("it broke".to_owned()) };
    assert_eq!(ledger.activate_resource(order(), 1).await, Ok(Activated::Done { before: Some(2) }));
    assert_eq!(ledger.activate_resource(order(), 2).await, Ok(Activated::Done { before: Some(1) }));
    ledger.delete_resource(order()).await.expect("orders");
    let dead = bench.submit(bench.job()).await;
    let run = bench.claim(Claimant { wants: 1, ..bench.worker("w1") }).await.remove(0);
    bench.fail(&run, ErrorClass::Permanent).await;
    ledger.replay_dead_letters(bench.about(DeadLetterChoice::Jobs(vec![dead]))).await.expect("orders");
    ledger.purge_dead_letters(bench.about(DeadLetterChoice::Jobs(vec![dead]))).await.expect("orders");
    assert!(!ledger.unblock(bench.tenant, 7, "ops".into(), None).await.expect("orders"));
    let documents = vec![Applying::Inventory(hosts(bench)), Applying::Resource(put(bench, "{\"a\":1}"))];
    assert!(matches!(ledger.apply(documents).await, Ok(Applied::Done(_))));
    let release = ReleaseOrder {
        tenant: bench.tenant,
        inventory: InventoryName::new("main").expect("a name"),
        host: HostName::new("a").expect("a name"),
        by: "ops".into(),
        reason: "it is off".to_owned(),
    };
    assert_eq!(ledger.release_host(release).await, Ok(Some(0)));
    let records = trail(bench, ours(bench)).await;
    assert_eq!(
        told(&records),
        [
            ("ann", "token.create", "done"),
            ("root", "token.revoke", "done"),
            ("ops", "worker.drain", "not_found"),
            ("ops", "inventory.put", "done"),
            ("ops", "host.remove", "done"),
            ("ann", "resource.put", "done"),
            ("ann", "resource.put", "done"),
            // A lower version, but nobody called it a rollback.
            ("bob", "resource.activate", "done"),
            ("bob", "resource.activate", "done"),
            ("bob", "resource.delete", "done"),
            ("ann", "dead_letter.replay", "done"),
            ("ann", "dead_letter.purge", "unchanged"),
            ("ops", "block.lift", "not_found"),
            ("ops", "inventory.put", "done"),
            // One request, one author.
            ("ops", "resource.put", "done"),
            ("ops", "host.release", "unchanged"),
        ]
    );
    let text = format!("{records:?}");
    assert!(!text.contains("[7, 7"), "no secret, not even as a hash");
}

/// A request under a key is carried out once and recorded each time, also where it did nothing more or was refused.
pub async fn a_request_under_a_key_is_recorded_each_time(bench: &Bench) {
    let job = bench.dead(bench.job()).await;
    for text in ["one", "one", "two"] {
        let key = OnceKey { key: "k".to_owned(), hash: super::bench::body(text) };
        bench.ledger.carry_out_once(key, OnceRequest::RetryJob(bench.order(job))).await.expect("orders");
    }
    let records = trail(bench, ours(bench)).await;
    assert_eq!(
        told(&records),
        [
            ("ann", "job.retry", "done"),
            ("ann", "job.retry", "unchanged"),
            ("ann", "job.retry", "refused: the key was used before with another body"),
        ]
    );
    assert!(records.iter().all(|record| record.resource == format!("job/{job}")), "{records:?}");
}

/// Configuration that is put again and again, as it is, leaves no trace: nothing was done.
pub async fn what_was_there_already_is_not_recorded(bench: &Bench) {
    for _ in 0..3 {
        bench.ledger.put_resource(put(bench, "{}")).await.expect("resources");
        bench.ledger.put_inventory(hosts(bench)).await.expect("inventories");
    }
    let records = trail(bench, ours(bench)).await;
    assert_eq!(told(&records), [("ann", "resource.put", "done"), ("ops", "inventory.put", "done")]);
}

/// Jobs have their events. The way of a job through the ledger does not touch the trail.
pub async fn ordinary_work_is_not_recorded(bench: &Bench) {
    bench.submit_many(3).await;
    for run in bench.claim(Claimant { wants: 3, ..bench.worker("w1") }).await {
        bench.succeed(&run).await;
    }
    assert_eq!(bench.ledger.audit_heads().await.expect("it can be read"), []);
}

/// U2: whoever acts at the same moment, and in whatever batches it is stored.
pub async fn numbers_have_no_gap_while_many_act_at_once(bench: &Bench) {
    let mut people = JoinSet::new();
    for n in 0..40 {
        let (ledger, tenants) = (bench.ledger.clone(), [bench.tenant, bench.neighbour]);
        let token = token(bench, &format!("t{n}"));
        people.spawn(async move {
            let token = TokenRecord { tenant: Some(tenants[n % 2]), ..token };
            assert!(ledger.create_token(token, "ann".into()).await.expect("tokens"));
            let revoked = ledger.revoke_token(revocation(&format!("t{n}")), "bob".into()).await;
            assert!(revoked.expect("orders").is_some());
        });
    }
    people.join_all().await;
    for tenant in [bench.tenant, bench.neighbour] {
        let records = trail(bench, Chain::Tenant(tenant)).await;
        assert_eq!(records.iter().map(|r| r.number).collect::<Vec<_>>(), (1..=40).collect::<Vec<_>>());
    }
}

/// A4: the first decision wins, and that somebody else tried is known.
pub async fn a_second_decision_is_refused_and_recorded(bench: &Bench) {
    let job = super::approvals::waiting(bench).await;
    let first = bench.ledger.decide(super::approvals::vote(bench, job, "bob", true)).await.expect("orders");
    assert!(matches!(first, ApprovalAnswer::Decided(Decided::Approved, _)), "{first:?}");
    let second = bench.ledger.decide(super::approvals::vote(bench, job, "eve", false)).await.expect("orders");
    assert!(matches!(second, ApprovalAnswer::Refused(_)), "{second:?}");
    let filter = AuditFilter { resource: Some("job".to_owned()), ..AuditFilter::default() };
    let records = list(bench, ours(bench), filter).await;
    assert_eq!(records.len(), 3);
    assert_eq!(told(&records)[..2], [("ann", "command.run", "done"), ("bob", "job.approve", "done")]);
    let (actor, action, result) = told(&records)[2];
    assert_eq!((actor, action), ("eve", "job.reject"));
    assert!(result.starts_with("refused: ") && result.contains(ApprovalState::Approved.as_str()), "{result}");
    assert_eq!(records[2].reason.as_deref(), Some("says eve"));
}

/// T1 for the trail, and B018: who reaches over the wall is known in their own house only.
pub async fn a_chain_belongs_to_its_tenant(bench: &Bench) {
    let job = bench.submit(bench.job()).await;
    let order = JobOrder { tenant: bench.neighbour, by: "eve".into(), ..bench.order(job) };
    assert_eq!(bench.ledger.cancel_job(order).await, Ok(OrderAnswer::NotFound));
    let made = bench.ledger.create_tenant(bench.tenant, "acme".to_owned(), "root".into()).await.expect("tenants");
    assert!(made.is_some());
    let root = TokenRecord { tenant: None, ..token(bench, "root") };
    assert!(bench.ledger.create_token(root, "bowline".into()).await.expect("tokens"));
    assert_eq!(trail(bench, ours(bench)).await, []);
    assert_eq!(told(&trail(bench, Chain::Tenant(bench.neighbour)).await), [("eve", "job.cancel", "not_found")]);
    assert_eq!(
        told(&trail(bench, Chain::System).await),
        [("root", "tenant.create", "done"), ("bowline", "token.create", "done")]
    );
}

pub async fn records_are_listed_either_way_in_pages_and_by_what_is_asked(bench: &Bench) {
    for n in 0..7 {
        assert!(bench.ledger.create_token(token(bench, &format!("t{n}")), "ann".into()).await.expect("tokens"));
        bench.pass_ms(1_000);
    }
    assert!(bench.ledger.revoke_token(revocation("t3"), "bob".into()).await.expect("orders").is_some());
    let pages = async |mut from: AuditFrom| {
        let mut seen = Vec::new();
        loop {
            let page = bench.ledger.list_audit(ours(bench), AuditFilter::default(), from, 3).await.expect("it is read");
            seen.push(page.items.iter().map(|r| r.number).collect::<Vec<_>>());
            match (page.next, from) {
                (None, _) => return seen,
                (Some(next), AuditFrom::After(_)) => from = AuditFrom::After(next),
                (Some(next), AuditFrom::Before(_)) => from = AuditFrom::Before(Some(next)),
            }
        }
    };
    assert_eq!(pages(AuditFrom::After(0)).await, [vec![1, 2, 3], vec![4, 5, 6], vec![7, 8]]);
    assert_eq!(pages(AuditFrom::Before(None)).await, [vec![8, 7, 6], vec![5, 4, 3], vec![2, 1]]);
    let numbers =
        async |filter: AuditFilter| list(bench, ours(bench), filter).await.iter().map(|r| r.number).collect::<Vec<_>>();
    let some = |text: &str| Some(text.to_owned());
    let none = AuditFilter::default();
    assert_eq!(
        numbers(AuditFilter { actors: Some(vec!["eve".to_owned(), "bob".to_owned()]), ..none.clone() }).await,
        [8]
    );
    assert_eq!(numbers(AuditFilter { action: some("token.revoke"), ..none.clone() }).await, [8]);
    assert_eq!(numbers(AuditFilter { resource: some("token/t3"), ..none.clone() }).await, [4, 8]);
    assert_eq!(numbers(AuditFilter { resource: some("token"), ..none.clone() }).await.len(), 8);
    assert_eq!(numbers(AuditFilter { resource: some("tok"), ..none.clone() }).await, [] as [u64; 0]);
    let (since, until) = (Some(Bench::START.plus_millis(2_000)), Some(Bench::START.plus_millis(4_000)));
    assert_eq!(numbers(AuditFilter { since, until, ..none }).await, [3, 4], "the end is not part of it");
}

pub async fn retention_leaves_the_trail_alone(bench: &Bench) {
    let job = bench.submit(bench.job()).await;
    bench.cancel(job).await;
    bench.pass_ms(3_600_000);
    let retention = Retention { finished_jobs_ms: 1, events_ms: 1 };
    let pruned = bench.ledger.prune(retention, PruneMark::default()).await.expect("it can be pruned");
    assert_eq!(pruned.jobs, 1, "the job is gone");
    assert_eq!(told(&trail(bench, ours(bench)).await), [("ann", "job.cancel", "done")]);
    assert_eq!(bench.ledger.verify(10).await.expect("it can be verified").audit, 1);
}

/// Running something on machines is recorded, also where submitting a job is not; asking again is not a second command.
pub async fn a_command_on_hosts_is_recorded_with_who_asked_for_it(bench: &Bench) {
    let author = Author { scopes: "jobs.write".into(), ip: Some("192.0.2.1".into()), ..Author::from("token:1") };
    bench.hosts(1).await;
    let mut command = bench.command(super::fleets::spec(), Rollout::default()).await;
    command.origin.author = Some(std::sync::Arc::new(author));
    let job = bench.submit(command.clone()).await;
    bench.ledger.submit(vec![command]).await.expect("the same request again");
    let filter = AuditFilter { action: Some("command.run".to_owned()), ..AuditFilter::default() };
    let records = list(bench, ours(bench), filter).await;
    assert_eq!(told(&records), [("token:1", "command.run", "done")]);
    assert_eq!(records[0].resource, format!("job/{job}"));
    assert_eq!((records[0].scopes.as_str(), records[0].ip.as_deref()), ("jobs.write", Some("192.0.2.1")));
    let diff: serde_json::Value = serde_json::from_str(records[0].diff.as_deref().expect("what ran")).expect("JSON");
    assert_eq!(diff["hosts"], 1, "{diff}");
    trail(bench, ours(bench)).await;
}

/// An execution may start a command in the advance that is stored together with its submission.
pub async fn a_command_that_starts_with_its_execution_is_recorded(bench: &Bench) {
    bench.hosts(1).await;
    let command = bench.command(super::fleets::spec(), Rollout::default()).await;
    let started = command.id;
    let execution = super::flows::starting_with(bench, vec![command]).await;
    bench.submit(execution).await;
    let filter = AuditFilter { action: Some("command.run".to_owned()), ..AuditFilter::default() };
    let records = list(bench, ours(bench), filter).await;
    assert_eq!(records.len(), 1, "{records:?}");
    assert_eq!(records[0].resource, format!("job/{started}"));
    assert_eq!(records[0].request_id.as_deref(), Some("req-1"), "the request that started its execution");
}

/// So may each advance after that. One that is not stored starts nothing.
pub async fn a_command_that_an_advance_starts_is_recorded(bench: &Bench) {
    bench.hosts(1).await;
    let (_, flow) = super::flows::running(bench).await;
    let mut started = Vec::new();
    for _ in 0..2 {
        let command = bench.command(super::fleets::spec(), Rollout::default()).await;
        started.push(command.id);
        let standing = FlowStanding::of(JobStatus::Running);
        let turn = NewTurn { children: vec![command], ..NewTurn::standing("[2]".into(), (1, 2), standing) };
        let order = TurnOrder { flow, version: 1, heard: Vec::new(), turn };
        bench.ledger.turn_flows(vec![order]).await.expect("an answer");
    }
    let filter = AuditFilter { action: Some("command.run".to_owned()), ..AuditFilter::default() };
    let records = list(bench, ours(bench), filter).await;
    let resources: Vec<&str> = records.iter().map(|record| record.resource.as_str()).collect();
    assert_eq!(resources, [format!("job/{}", started[0])], "the second advance was stale");
}

/// A refused request changes nothing, and stands in the same chain as everything else.
pub async fn what_changed_nothing_is_recorded_too(bench: &Bench) {
    let refused = |n: u32| Deed {
        chain: ours(bench),
        author: "token:1".into(),
        action: Action::AccessRefused,
        resource: "route/POST /tokens".to_owned(),
        diff: Some(format!(r#"{{"times":{n}}}"#)),
        reason: None,
        result: "refused: 403 this needs the scope tokens.write".to_owned(),
    };
    bench.ledger.record_audit(vec![refused(2), refused(1)]).await.expect("it is recorded");
    let records = trail(bench, ours(bench)).await;
    let times: Vec<_> = records.iter().map(|record| record.diff.as_deref()).collect();
    assert_eq!(times, [Some(r#"{"times":2}"#), Some(r#"{"times":1}"#)], "in the order given");
}

/// Whoever reads the trail sees what a new version changed, against the active one.
pub async fn a_change_of_configuration_is_recorded_with_what_it_changed(bench: &Bench) {
    for spec in [r#"{"argv":["true"],"timeout_ms":1000}"#, r#"{"argv":["true"],"timeout_ms":2000,"cwd":"/"}"#] {
        bench.ledger.put_resource(put(bench, spec)).await.expect("stored");
    }
    let records = trail(bench, ours(bench)).await;
    let diff: serde_json::Value = serde_json::from_str(records[1].diff.as_deref().expect("a diff")).expect("JSON");
    let changed = serde_json::json!({"changes": 2, "changed": [
        {"path": "/timeout_ms", "change": "changed", "before": 1000, "after": 2000},
        {"path": "/cwd", "change": "added", "after": "/"},
    ]});
    assert_eq!((&diff["version"], &diff["diff"]), (&serde_json::json!(2), &changed));
}

/// What was asked for and found nothing is recorded as that.
pub async fn what_was_not_found_is_recorded_as_not_found(bench: &Bench) {
    let inventory = || InventoryName::new("main").expect("a name");
    let gone = || vec![HostName::new("a").expect("a name")];
    bench.ledger.put_inventory(hosts(bench)).await.expect("stored");
    for wanted in [1, 0] {
        let removed = bench.ledger.remove_hosts(bench.tenant, inventory(), gone(), "ops".into(), None).await;
        assert_eq!(removed, Ok(wanted));
    }
    assert_eq!(bench.ledger.revoke_token(revocation("nobody"), "ops".into()).await, Ok(None));
    let removals = AuditFilter { action: Some("host.remove".to_owned()), ..AuditFilter::default() };
    let removals = list(bench, ours(bench), removals).await;
    assert_eq!(told(&removals), [("ops", "host.remove", "done"), ("ops", "host.remove", "not_found")]);
    let revocations = trail(bench, Chain::System).await;
    assert_eq!(told(&revocations), [("ops", "token.revoke", "not_found")]);
    assert_eq!(revocations[0].resource, "token/nobody");
}

/// Groups are looked into as hosts are.
pub async fn a_change_of_groups_is_recorded_with_what_it_changed(bench: &Bench) {
    let group = |name: &str, port: u32| Group {
        name: GroupName::new(name).expect("a name"),
        groups: Default::default(),
        vars: serde_json::json!({"port": port}).as_object().cloned().unwrap_or_default(),
    };
    for groups in [vec![group("g", 80), group("h", 1)], vec![group("g", 81), group("h", 1)], vec![group("h", 1)]] {
        let content = std::sync::Arc::new(Inventory { hosts: Vec::new(), groups });
        let put = InventoryPut { content, unmentioned: Unmentioned::Remove, ..hosts(bench) };
        bench.ledger.put_inventory(put).await.expect("stored");
    }
    let changes: Vec<serde_json::Value> = trail(bench, ours(bench))
        .await
        .iter()
        .map(|record| serde_json::from_str(record.diff.as_deref().expect("a diff")).expect("JSON"))
        .map(|diff: serde_json::Value| diff["diff"]["changed"].clone())
        .collect();
    assert_eq!(
        changes[1],
        serde_json::json!([{"path": "/groups/g/vars/port", "change": "changed", "before": 80, "after": 81}])
    );
    assert_eq!(changes[2].as_array().map(Vec::len), Some(1), "{}", changes[2]);
    assert_eq!((&changes[2][0]["path"], &changes[2][0]["change"]), (&"/groups/g".into(), &"removed".into()));
}

/// The same for hosts and groups: which fields, what they were, what they are, and why. It is bounded, whatever was put.
pub async fn a_change_of_hosts_is_recorded_with_what_it_changed(bench: &Bench) {
    let host = |name: &str, vars: serde_json::Value| {
        let vars = vars.as_object().cloned().unwrap_or_default();
        Host { vars, ..Host::named(HostName::new(name).expect("a name")) }
    };
    let put = |hosts: Vec<Host>, reason: &str| InventoryPut {
        content: std::sync::Arc::new(Inventory { hosts, groups: Vec::new() }),
        unmentioned: Unmentioned::Remove,
        reason: Some(reason.to_owned()),
        ..self::hosts(bench)
    };
    let (a, b) = (host("a", serde_json::json!({"port": 80})), host("b", serde_json::json!({"db_password": "hunter2"})));
    bench.ledger.put_inventory(put(vec![a, b], "two")).await.expect("stored");
    bench.ledger.put_inventory(put(vec![host("a", serde_json::json!({"port": 81}))], "one")).await.expect("stored");
    let many = (0..200).map(|n| host(&format!("h{n:03}"), serde_json::json!({"text": "x".repeat(1_000)}))).collect();
    bench.ledger.put_inventory(put(many, "many")).await.expect("stored");
    let main = InventoryName::new("main").expect("a name");
    let gone = vec![HostName::new("h000").expect("a name")];
    let removed = bench.ledger.remove_hosts(bench.tenant, main, gone, "ops".into(), Some("broken".to_owned())).await;
    assert_eq!(removed, Ok(1));
    let records = trail(bench, ours(bench)).await;
    let reasons: Vec<_> = records.iter().map(|record| record.reason.as_deref()).collect();
    assert_eq!(reasons, [Some("two"), Some("one"), Some("many"), Some("broken")]);
    let diffs: Vec<serde_json::Value> = records
        .iter()
        .map(|record| serde_json::from_str(record.diff.as_deref().expect("a diff")).expect("JSON"))
        .collect();
    let changed = &diffs[1]["diff"]["changed"];
    assert_eq!(
        changed[0],
        serde_json::json!({"path": "/hosts/a/vars/port", "change": "changed", "before": 80, "after": 81})
    );
    assert_eq!((&changed[1]["path"], &changed[1]["change"]), (&"/hosts/b".into(), &"removed".into()));
    assert!(!format!("{records:?}").contains("hunter2"), "a value that sounds like a secret is not kept: {records:?}");
    assert_eq!((&diffs[2]["created"], diffs[2]["diff"]["changed"].as_array().map(Vec::len)), (&200.into(), Some(50)));
    assert!(records[2].diff.as_ref().is_some_and(|diff| diff.len() < 50 * 500), "{:?}", records[2].diff);
}
