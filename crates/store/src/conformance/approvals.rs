//! Promises about approval: nothing runs before enough people said yes, to exactly what will run.

use std::sync::Arc;

use bowline_model::audit::Author;
use bowline_model::fleet::{
    ApprovalRefused, ApprovalState, CommandSpec, Decided, HostDigest, Named, PinnedCommand, Rollout, SCOPE_STEPS_MAX,
    SecretIdentity, Share, Template,
};
use bowline_model::host::{Connection, Group, GroupVars, Host, Steps, Vars};
use bowline_model::idempotency::RequestHash;
use bowline_model::person::Person;
use bowline_model::resource::ResourceKind;
use bowline_model::{ErrorClass, EventKind, JobId, JobStatus, Labels, Outcome, ResourceName};
use serde_json::json;
use tokio::task::JoinSet;

use super::bench::{Bench, body, labels};
use super::fleets::{host_name, inventory, spec};
use super::tokens::token;
use crate::{
    ApprovalAnswer, ApprovalOrder, HostRecord, NewApproval, NewFleet, NewJob, OrderAnswer, Origin, ResourceKey,
    ResourcePut, ResourceStored, TokenRecord,
};

fn hash() -> RequestHash {
    body("what will run")
}

/// A command on two hosts that ann asked for.
async fn asked(bench: &Bench, approval: NewApproval) -> JobId {
    bench.hosts(2).await;
    asked_for(bench, spec(), Rollout::default(), approval).await
}

/// A command on all hosts there are.
async fn asked_for(bench: &Bench, spec: CommandSpec, rollout: Rollout, approval: NewApproval) -> JobId {
    let mut wish = bench.command(spec, rollout).await;
    let fleet = wish.fleet.as_deref().cloned().expect("a command");
    let digests = digests(bench, &wish.payload).await;
    wish.fleet = Some(Arc::new(NewFleet { approval: Some(NewApproval { digests, ..approval }), ..fleet }));
    let origin = Origin { actor: "ann".into(), ..wish.origin.clone() };
    bench.submit(NewJob { origin, ..wish }).await
}

/// What a command would do on each host there is.
async fn digests(bench: &Bench, payload: &str) -> Vec<HostDigest> {
    let command: PinnedCommand = serde_json::from_str(payload).expect("a command");
    let hosts = bench.ledger.list_hosts(bench.tenant, inventory(), None, 100).await.expect("read").items;
    let groups = bench.ledger.list_groups(bench.tenant, inventory()).await.expect("read");
    let vars = GroupVars::new(groups);
    let digest = |record: &HostRecord| {
        let mut steps = Steps::up_to(SCOPE_STEPS_MAX);
        let scope =
            command.spec.scope_of(&record.host.labels, &vars.of(&record.host), &mut steps).expect("enough steps");
        HostDigest::of(record.id, &record.host, &command, &scope)
    };
    hosts.iter().map(digest).collect()
}

fn rule(quorum: u32, four_eyes: bool) -> NewApproval {
    let (named, digests) = (Named::default(), Vec::new());
    NewApproval { hash: hash(), quorum, four_eyes, expires_ms: 60_000, named, digests }
}

pub(super) fn vote(bench: &Bench, job: JobId, by: &str, yes: bool) -> ApprovalOrder {
    let reason = Some(format!("says {by}"));
    ApprovalOrder { tenant: bench.tenant, job, by: by.into(), yes, reason, seen: None, current: hash() }
}

/// A command that waits for one yes.
pub(super) async fn waiting(bench: &Bench) -> JobId {
    asked(bench, rule(1, false)).await
}

/// Whoever decides reads all that waits, page by page.
pub async fn what_waits_for_approval_is_listed_in_pages(bench: &Bench) {
    let mut wanted = Vec::new();
    for _ in 0..3 {
        wanted.push(asked(bench, rule(1, false)).await);
    }
    for (limit, pages) in [(2, 2), (3, 1), (4, 1)] {
        let (mut found, mut after, mut read) = (Vec::new(), None, 0);
        loop {
            let page = bench.ledger.list_approvals(bench.tenant, after, limit).await.expect("read");
            read += 1;
            found.extend(page.items.iter().map(|waiting| waiting.job));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!((found, read), (wanted.clone(), pages), "{limit} at a time");
    }
}

async fn decide(bench: &Bench, order: ApprovalOrder) -> ApprovalAnswer {
    bench.ledger.decide(order).await.expect("the ledger takes decisions")
}

async fn state(bench: &Bench, job: JobId) -> ApprovalState {
    bench.fleet(job).await.approval.expect("it needs approval").state
}

/// A1.
pub async fn nothing_runs_before_it_is_approved(bench: &Bench) {
    let job = asked(bench, rule(1, false)).await;
    assert_eq!(bench.status(job).await, JobStatus::AwaitingApproval);
    assert!(bench.begin().await.is_empty());
    assert_eq!(bench.fleet(job).await.planned, 0);
    let waiting = bench.ledger.list_approvals(bench.tenant, None, 10).await.expect("read").items;
    assert_eq!((waiting.len(), waiting[0].job, waiting[0].hosts), (1, job, 2));
    let answer = decide(bench, vote(bench, job, "bob", true)).await;
    assert_eq!(answer, ApprovalAnswer::Decided(Decided::Approved, JobStatus::Pending));
    bench.promote().await;
    assert_eq!(bench.begin().await.len(), 2);
    assert!(bench.ledger.list_approvals(bench.tenant, None, 10).await.expect("read").items.is_empty());
    let record = bench.fleet(job).await.approval.expect("it is remembered");
    assert_eq!((record.state, record.votes.len(), record.votes[0].by.as_str()), (ApprovalState::Approved, 1, "bob"));
}

/// A6.
pub async fn a_rejected_command_never_runs(bench: &Bench) {
    let job = asked(bench, rule(1, false)).await;
    let answer = decide(bench, vote(bench, job, "bob", false)).await;
    assert_eq!(answer, ApprovalAnswer::Decided(Decided::Rejected, JobStatus::Canceled));
    assert_eq!(bench.retry(job).await, OrderAnswer::NotFrom(JobStatus::Canceled), "whoever wants it again");
    assert!(bench.begin().await.is_empty());
    assert!(bench.kinds(job).await.contains(&EventKind::JobRejected));
}

/// A4.
pub async fn the_first_decision_wins(bench: &Bench) {
    let job = asked(bench, rule(1, false)).await;
    let mut people = JoinSet::new();
    for n in 0..8 {
        let (ledger, order) = (bench.ledger.clone(), vote(bench, job, &format!("p{n}"), n % 2 == 0));
        people.spawn(async move { ledger.decide(order).await.expect("the ledger takes decisions") });
    }
    let answers = people.join_all().await;
    let decided = answers.iter().filter(|answer| matches!(answer, ApprovalAnswer::Decided(..))).count();
    assert_eq!(decided, 1, "{answers:?}");
    let refused = |a: &&ApprovalAnswer| matches!(a, ApprovalAnswer::Refused(ApprovalRefused::NotWaiting(_)));
    assert_eq!(answers.iter().filter(refused).count(), 7);
}

/// A3.
pub async fn whoever_asked_cannot_approve_under_four_eyes(bench: &Bench) {
    let job = asked(bench, rule(1, true)).await;
    let own = decide(bench, vote(bench, job, "ann", true)).await;
    assert_eq!(own, ApprovalAnswer::Refused(ApprovalRefused::OwnJob));
    assert_eq!(state(bench, job).await, ApprovalState::Required);
    let other = decide(bench, vote(bench, job, "bob", true)).await;
    assert!(matches!(other, ApprovalAnswer::Decided(Decided::Approved, _)));
}

pub async fn a_quorum_needs_different_people(bench: &Bench) {
    let job = asked(bench, rule(2, false)).await;
    let first = decide(bench, vote(bench, job, "bob", true)).await;
    assert_eq!(first, ApprovalAnswer::Decided(Decided::Noted { missing: 1 }, JobStatus::AwaitingApproval));
    let again = decide(bench, vote(bench, job, "bob", true)).await;
    assert_eq!(again, ApprovalAnswer::Refused(ApprovalRefused::Twice));
    assert!(bench.begin().await.is_empty());
    let second = decide(bench, vote(bench, job, "eve", true)).await;
    assert!(matches!(second, ApprovalAnswer::Decided(Decided::Approved, _)));
    // Each decision is told with who decided, and why.
    let told = bench.history(job).await;
    for (kind, by) in [(EventKind::JobApprovalNoted, "bob"), (EventKind::JobApproved, "eve")] {
        let (_, event) = told.iter().find(|(_, event)| event.kind == kind).expect("a decision is an event");
        let why = format!("says {by}");
        assert_eq!((event.data.by.as_deref(), event.data.reason.as_deref()), (Some(by), Some(why.as_str())));
    }
}

/// A2.
pub async fn a_change_of_what_will_run_supersedes_the_approval(bench: &Bench) {
    let job = asked(bench, rule(1, false)).await;
    let other = ApprovalOrder { seen: Some(body("another page")), ..vote(bench, job, "bob", true) };
    assert_eq!(decide(bench, other).await, ApprovalAnswer::Refused(ApprovalRefused::OtherHash));
    let changed = ApprovalOrder { current: body("something else"), ..vote(bench, job, "bob", true) };
    let answer = decide(bench, changed).await;
    assert_eq!(answer, ApprovalAnswer::Decided(Decided::Superseded, JobStatus::Canceled));
    assert_eq!(state(bench, job).await, ApprovalState::Superseded);
    assert_eq!(bench.retry(job).await, OrderAnswer::NotFrom(JobStatus::Canceled));
    assert!(bench.begin().await.is_empty());
}

/// A5.
pub async fn an_approval_nobody_gives_expires(bench: &Bench) {
    let job = asked(bench, rule(1, false)).await;
    bench.pass_ms(60_001);
    bench.promote().await;
    assert_eq!((bench.status(job).await, state(bench, job).await), (JobStatus::Canceled, ApprovalState::Expired));
    let late = decide(bench, vote(bench, job, "bob", true)).await;
    assert_eq!(late, ApprovalAnswer::Refused(ApprovalRefused::NotWaiting(ApprovalState::Expired)));
}

pub async fn a_canceled_command_needs_no_decision_any_more(bench: &Bench) {
    let job = asked(bench, rule(1, false)).await;
    assert_eq!(bench.cancel(job).await, OrderAnswer::Done(JobStatus::Canceled));
    assert_eq!(state(bench, job).await, ApprovalState::Withdrawn);
    assert!(bench.ledger.list_approvals(bench.tenant, None, 10).await.expect("read").items.is_empty());
}

/// Also if its moment is the very one until which it can be approved.
pub async fn an_approved_command_for_later_waits_like_any_other_job(bench: &Bench) {
    bench.hosts(1).await;
    let wish = bench.command(spec(), Rollout::default()).await;
    let fleet = wish.fleet.as_deref().cloned().expect("a command");
    let approval = NewApproval { digests: digests(bench, &wish.payload).await, ..rule(1, false) };
    let run_at = Some(bench.now().plus_millis(60_000));
    let fleet = Some(Arc::new(NewFleet { approval: Some(approval), ..fleet }));
    let job = bench.submit(NewJob { run_at, fleet, ..wish }).await;
    let scheduled = async || {
        let depths = bench.ledger.lane_depths(Some(bench.tenant)).await.expect("the ledger can be read");
        depths.iter().map(|depth| depth.scheduled).sum::<u64>()
    };
    assert_eq!(scheduled().await, 0, "it waits for people, not for its moment");
    let answer = decide(bench, vote(bench, job, "bob", true)).await;
    assert_eq!(answer, ApprovalAnswer::Decided(Decided::Approved, JobStatus::Pending));
    assert_eq!(scheduled().await, 1);
    assert!(bench.begin().await.is_empty());
    bench.pass_ms(60_000);
    assert_eq!(bench.promote().await, 1);
    assert_eq!(bench.begin().await.len(), 1);
}

pub async fn a_command_that_needs_no_approval_says_so(bench: &Bench) {
    bench.hosts(1).await;
    let job = bench.commanded(spec(), Rollout::default()).await;
    assert_eq!(decide(bench, vote(bench, job, "bob", true)).await, ApprovalAnswer::NotNeeded);
    let plain = bench.submit(bench.job()).await;
    assert_eq!(decide(bench, vote(bench, plain, "bob", true)).await, ApprovalAnswer::NotFound);
}

pub async fn nobody_decides_for_a_neighbour(bench: &Bench) {
    let job = asked(bench, rule(1, false)).await;
    let theirs = ApprovalOrder { tenant: bench.neighbour, ..vote(bench, job, "eve", true) };
    assert_eq!(decide(bench, theirs).await, ApprovalAnswer::NotFound);
    assert!(bench.ledger.list_approvals(bench.neighbour, None, 10).await.expect("read").items.is_empty());
    assert_eq!(state(bench, job).await, ApprovalState::Required);
}

/// One person's second credential is still theirs: by the token that made it, and by its address.
pub async fn a_quorum_counts_people_and_not_tokens(bench: &Bench) {
    let made = |id: &str, person: Option<&str>, email: Option<&str>| TokenRecord {
        person: person.map(ToOwned::to_owned),
        email: email.map(ToOwned::to_owned),
        ..token(bench, id)
    };
    for token in [
        made("ann", None, Some("ann@example.com")),
        made("bob", None, None),
        made("of-bob", Some("token:bob"), Some("eve@example.com")),
    ] {
        assert!(bench.ledger.create_token(token, "root".into()).await.expect("the ledger takes tokens"));
    }
    bench.hosts(1).await;
    let job = bench.command(spec(), Rollout::default()).await;
    let fleet = job.fleet.as_deref().cloned().expect("a command");
    let approval = NewApproval { digests: digests(bench, &job.payload).await, ..rule(2, true) };
    let origin = Origin { actor: "token:ann".into(), ..job.origin.clone() };
    let fleet = Some(Arc::new(NewFleet { approval: Some(approval), ..fleet }));
    let job = bench.submit(NewJob { origin, fleet, ..job }).await;
    let by =
        |name: &str, person: &[&str]| Author { person: Person::named(person.iter().copied()), ..Author::from(name) };
    let vote = async |by: Author| decide(bench, ApprovalOrder { by, ..vote(bench, job, "x", true) }).await;
    // The requester's address on another token.
    let same_mail = vote(by("token:a2", &["token:a2", "mail:ann@example.com"])).await;
    assert_eq!(same_mail, ApprovalAnswer::Refused(ApprovalRefused::OwnJob));
    assert_eq!(vote(by("token:ann", &[])).await, ApprovalAnswer::Refused(ApprovalRefused::OwnJob));
    let first = vote(by("token:of-bob", &["token:of-bob", "token:bob"])).await;
    assert!(matches!(first, ApprovalAnswer::Decided(Decided::Noted { missing: 1 }, _)), "{first:?}");
    let maker = vote(by("token:bob", &["token:bob"])).await;
    assert_eq!(maker, ApprovalAnswer::Refused(ApprovalRefused::Twice), "a token counts as the one that made it");
    let other = vote(by("service:kim", &["service:kim", "mail:kim@example.com"])).await;
    assert!(matches!(other, ApprovalAnswer::Decided(Decided::Approved, _)), "{other:?}");
}

fn playing(name: &str, change: impl FnOnce(&mut Host)) -> Host {
    let mut host = Host {
        connection: Connection::Simulate { through: Labels::default() },
        vars: json!({"target": "good"}).as_object().expect("an object").clone(),
        ..Host::named(host_name(name))
    };
    change(&mut host);
    host
}

/// A command that uses a variable of its hosts.
fn aimed() -> CommandSpec {
    let text = |text| Template::parse(text).expect("a template");
    CommandSpec { argv: vec![text("wipe"), text("{{ host.vars.target }}")], ..CommandSpec::default() }
}

async fn approve(bench: &Bench, job: JobId) {
    let answer = decide(bench, vote(bench, job, "bob", true)).await;
    assert!(matches!(answer, ApprovalAnswer::Decided(Decided::Approved, _)), "{answer:?}");
    bench.promote().await;
}

async fn outcome(bench: &Bench, job: JobId, host: &str) -> (JobStatus, Option<ErrorClass>) {
    let unit = bench.ledger.find_unit(bench.tenant, job, host_name(host)).await.expect("read").expect("it began").0;
    (unit.state.status, unit.error.map(|error| error.class))
}

const SUPERSEDED: (JobStatus, Option<ErrorClass>) = (JobStatus::Failed, Some(ErrorClass::Superseded));

/// A host that is reached in another way, or says another thing about itself, than when somebody said yes.
pub async fn a_host_that_changed_after_the_yes_is_superseded(bench: &Bench) {
    let names = ["h0", "h1", "h2", "h3", "h4"];
    bench.put_hosts(names.iter().map(|name| playing(name, |_| {})).collect(), Vec::new()).await;
    let job = asked_for(bench, aimed(), Rollout::default(), rule(1, false)).await;
    approve(bench, job).await;
    bench.conduct().await;
    // All are planned, and none has started.
    let evil = json!({"target": "evil"}).as_object().expect("an object").clone();
    let group = Group {
        name: bowline_model::GroupName::new("g").expect("a name"),
        groups: Default::default(),
        vars: evil.clone(),
    };
    let through = labels(&[("site", "else")]);
    bench
        .put_hosts(
            vec![
                playing("h0", |host| host.vars = evil),
                playing("h1", |host| host.connection = Connection::Simulate { through }),
                playing("h2", |host| {
                    host.vars = Vars::new();
                    host.groups = [group.name.clone()].into();
                }),
                playing("h3", |host| host.labels = labels(&[("unused", "label")])),
            ],
            vec![group.clone()],
        )
        .await;
    let runs = bench.begin().await;
    let begun: Vec<&str> = runs.iter().filter_map(|run| Some(run.unit.as_ref()?.host.as_str())).collect();
    assert_eq!(begun, ["h3", "h4"], "what the command does not use is no change");
    for host in ["h0", "h1", "h2"] {
        assert_eq!(outcome(bench, job, host).await, SUPERSEDED, "{host}");
    }
    for run in &runs {
        bench.succeed(run).await;
    }
    bench.conduct().await;
    assert_eq!(bench.status(job).await, JobStatus::Failed);
    assert_eq!(state(bench, job).await, ApprovalState::Approved, "the others were approved, and ran");
}

pub async fn a_superseded_host_counts_as_failed(bench: &Bench) {
    bench.put_hosts(["h0", "h1", "h2"].iter().map(|name| playing(name, |_| {})).collect(), Vec::new()).await;
    let rollout = Rollout { canary: Some(Share::Hosts(1)), ..Rollout::default() };
    let job = asked_for(bench, aimed(), rollout, rule(1, false)).await;
    approve(bench, job).await;
    bench.put_hosts(vec![playing("h0", |host| host.vars = Vars::new())], Vec::new()).await;
    assert!(bench.begin().await.is_empty());
    assert_eq!(outcome(bench, job, "h0").await, SUPERSEDED);
    bench.conduct().await;
    assert_eq!(bench.status(job).await, JobStatus::Failed, "the canary failed, so nothing else begins");
    assert_eq!(bench.fleet(job).await.planned, 1);
}

/// The rule of the active version holds for whatever has not started, also if it was activated after the request.
pub async fn a_rule_that_is_activated_later_holds_for_what_has_not_started(bench: &Bench) {
    let name = ResourceName::new("wipe").expect("a name");
    let key = ResourceKey { tenant: bench.tenant, kind: ResourceKind::Command, name };
    let put = async |spec: &str| {
        let put = ResourcePut {
            key: key.clone(),
            spec: spec.into(),
            note: None,
            source: None,
            activate: true,
            seen: None,
            by: "ops".into(),
        };
        bench.ledger.put_resource(put).await.expect("the ledger takes resources");
    };
    let asked = async |run_at| {
        let mut wish = bench.command(spec(), Rollout::default()).await;
        let resource = bench.ledger.find_resource(key.clone(), None).await.expect("read").map(|found| found.id);
        let fleet = wish.fleet.as_deref().cloned().expect("a command");
        wish.fleet = Some(Arc::new(NewFleet { resource, ..fleet }));
        bench.submit(NewJob { run_at, ..wish }).await
    };
    let site = |name: &str, site: &str| playing(name, |host| host.labels = labels(&[("site", site)]));
    bench.put_hosts(vec![site("h0", "fra"), site("h1", "ber")], Vec::new()).await;

    // For later, and the rule comes before that.
    put(r#"{"argv":["true"]}"#).await;
    let job = asked(Some(bench.now().plus_millis(60_000))).await;
    put(r#"{"argv":["true"],"approval":{"quorum":2}}"#).await;
    bench.pass_ms(61_000);
    bench.promote().await;
    assert!(bench.begin().await.is_empty());
    assert_eq!(outcome(bench, job, "h0").await, SUPERSEDED);
    bench.conduct().await;
    assert_eq!(bench.status(job).await, JobStatus::Failed);
    // A second try is asked for, and then runs.
    let (record, _) = bench.find(job).await;
    let digests = digests(bench, record.payload.as_deref().expect("a payload")).await;
    let active = bench.ledger.find_resource(key.clone(), None).await.expect("read").and_then(|found| found.active);
    let named = Named { active, ..Named::default() };
    let approval = NewApproval { digests, named, ..rule(1, false) };
    let again = bench.ledger.retry_command(bench.order(job), Some(approval)).await.expect("an answer");
    assert_eq!(again, OrderAnswer::Done(JobStatus::AwaitingApproval));
    approve(bench, job).await;
    let runs = bench.begin().await;
    assert_eq!(runs.len(), 2);
    for run in &runs {
        bench.succeed(run).await;
    }
    bench.conduct().await;
    assert_eq!(bench.status(job).await, JobStatus::Succeeded);

    // One that waits in a queue, under rules that mean some jobs and hosts only.
    for (rule, begun) in [
        (r#"{"hosts_over":5}"#, vec!["h0", "h1"]),
        (r#"{"hosts_over":1}"#, vec![]),
        (r#"{"selector":"site=fra"}"#, vec!["h1"]),
        (r#"{"hosts_over":5,"selector":"site=mars"}"#, vec!["h0", "h1"]),
    ] {
        put(r#"{"argv":["true"]}"#).await;
        let job = asked(None).await;
        bench.conduct().await;
        put(&format!(r#"{{"approval":{rule},"argv":["true"]}}"#)).await;
        let runs = bench.begin().await;
        let names: Vec<&str> = runs.iter().filter_map(|run| Some(run.unit.as_ref()?.host.as_str())).collect();
        assert_eq!(names, begun, "{rule}");
        for run in &runs {
            bench.succeed(run).await;
        }
        bench.conduct().await;
        let all = if begun.len() == 2 { JobStatus::Succeeded } else { JobStatus::Failed };
        assert_eq!(bench.status(job).await, all, "{rule}");
    }
}

fn reference(bench: &Bench, spec: &str) -> ResourcePut {
    let name = ResourceName::new("stripe").expect("a name");
    ResourcePut {
        key: ResourceKey { tenant: bench.tenant, kind: ResourceKind::SecretRef, name },
        spec: spec.into(),
        note: None,
        source: None,
        activate: true,
        seen: None,
        by: "ops".into(),
    }
}

/// The identity of a secret is where it is kept and its pinned version. What else its reference says may change.
pub async fn a_secret_that_points_elsewhere_supersedes_what_has_not_started(bench: &Bench) {
    let put = async |spec: &str| {
        let stored = bench.ledger.put_resource(reference(bench, spec)).await.expect("the ledger takes resources");
        assert!(matches!(stored, ResourceStored::Stored { .. }), "{stored:?}");
    };
    put(r#"{"ref":"file://stripe"}"#).await;
    bench.put_hosts(["h0", "h1", "h2"].iter().map(|name| playing(name, |_| {})).collect(), Vec::new()).await;
    let secrets = [("KEY".to_owned(), "secret://stripe".to_owned())].into();
    let command = CommandSpec { secrets, ..spec() };
    let identity = SecretIdentity { reference: "file://stripe".to_owned(), version: None };
    let named = Named { active: None, secrets: [("stripe".to_owned(), Some(identity))].into() };
    let rollout = Rollout { serial: Some(Share::Hosts(1)), ..Rollout::default() };
    let job = asked_for(bench, command, rollout, NewApproval { named, ..rule(1, false) }).await;
    approve(bench, job).await;
    put(r#"{"ref":"file://stripe","description":"the same secret"}"#).await;
    let agent = || {
        let mut agent = bench.agent(10);
        let abilities = Arc::make_mut(&mut agent.abilities);
        let all = abilities.labels.iter().chain([(Connection::SEALING_LABEL, Connection::SEALING)]);
        abilities.labels = labels(&all.collect::<Vec<_>>());
        agent
    };
    bench.conduct().await;
    let runs = bench.claim(agent()).await;
    assert_eq!(runs.len(), 1, "a new description is no other secret");
    // Whoever reads the secret for the run compares it once more with what was approved.
    let approved = runs[0].unit.as_ref().and_then(|unit| unit.approved_secrets.clone()).expect("it was approved");
    let reference = approved["stripe"].as_ref().map(|identity| identity.reference.as_str());
    assert_eq!(reference, Some("file://stripe"));
    bench.beat(&runs[0]).await;
    put(r#"{"ref":"file://other"}"#).await;
    bench.succeed(&runs[0]).await;
    bench.conduct().await;
    assert!(bench.claim(agent()).await.is_empty());
    assert_eq!(outcome(bench, job, "h1").await, SUPERSEDED);
    // It points back. What was approved is over all the same.
    put(r#"{"ref":"file://stripe"}"#).await;
    bench.conduct().await;
    assert!(bench.claim(agent()).await.is_empty());
    assert_eq!(bench.status(job).await, JobStatus::Failed);
    let fleet = bench.fleet(job).await;
    assert_eq!((fleet.planned, state(bench, job).await), (2, ApprovalState::Superseded));
    let record = fleet.approval.expect("it needed approval");
    assert_eq!(record.superseded.as_deref(), Some("secret_ref stripe refers to another secret"));
    assert!(bench.kinds(job).await.contains(&EventKind::ApprovalSuperseded));
    let (job, _) = bench.find(job).await;
    assert_eq!(job.error.map(|error| error.class), Some(ErrorClass::Superseded));
}

/// A yes is for one try.
pub async fn a_second_try_of_an_approved_command_is_asked_for_again(bench: &Bench) {
    bench.put_hosts(["h0", "h1"].iter().map(|name| playing(name, |_| {})).collect(), Vec::new()).await;
    let job = asked_for(bench, aimed(), Rollout::default(), rule(1, true)).await;
    approve(bench, job).await;
    let runs = bench.begin().await;
    bench.succeed(&runs[0]).await;
    bench.report(bench.report_of(&runs[1], Outcome::Failed(ErrorClass::Permanent))).await;
    bench.conduct().await;
    assert_eq!(bench.status(job).await, JobStatus::Failed);
    assert_eq!(bench.retry(job).await, OrderAnswer::NotFrom(JobStatus::Failed), "not without a question");
    // Hosts have changed since; what is approved now is what they are now.
    let vars = json!({"target": "new"}).as_object().expect("an object").clone();
    bench.put_hosts(vec![playing("h1", |host| host.vars = vars)], Vec::new()).await;
    let now = digests(bench, &bench.find(job).await.0.payload.expect("a command")).await;
    let again = NewApproval { hash: body("again"), digests: now, ..rule(2, true) };
    let asked = bench.ledger.retry_command(bench.order(job), Some(again)).await;
    assert_eq!(asked, Ok(OrderAnswer::Done(JobStatus::AwaitingApproval)));
    let record = bench.fleet(job).await.approval.expect("it needs approval");
    assert_eq!((record.state, record.quorum, record.votes.len()), (ApprovalState::Required, 2, 0));
    assert_eq!((record.requester.as_str(), record.retry), ("ann", true));
    assert!(bench.begin().await.is_empty());
    let say =
        async |by: &str| decide(bench, ApprovalOrder { current: body("again"), ..vote(bench, job, by, true) }).await;
    assert_eq!(say("ann").await, ApprovalAnswer::Refused(ApprovalRefused::OwnJob), "whoever wants the second try");
    assert!(matches!(say("bob").await, ApprovalAnswer::Decided(Decided::Noted { missing: 1 }, _)));
    assert!(matches!(say("eve").await, ApprovalAnswer::Decided(Decided::Approved, _)));
    bench.promote().await;
    let runs = bench.begin().await;
    let begun: Vec<&str> = runs.iter().filter_map(|run| Some(run.unit.as_ref()?.host.as_str())).collect();
    assert_eq!(begun, ["h1"], "the other one had succeeded");
    let scope = runs[0].unit.as_ref().and_then(|unit| unit.scope.clone());
    assert_eq!(scope.as_deref(), Some(r#"{"vars":{"target":"new"}}"#), "what was approved is what runs");
    bench.succeed(&runs[0]).await;
    bench.conduct().await;
    assert_eq!(bench.status(job).await, JobStatus::Succeeded);
}

pub async fn a_rejected_second_try_never_runs(bench: &Bench) {
    let job = asked(bench, rule(1, false)).await;
    approve(bench, job).await;
    for run in bench.begin().await {
        bench.report(bench.report_of(&run, Outcome::Failed(ErrorClass::Permanent))).await;
    }
    bench.conduct().await;
    let again = bench.ledger.retry_command(bench.order(job), Some(rule(1, false))).await;
    assert_eq!(again, Ok(OrderAnswer::Done(JobStatus::AwaitingApproval)));
    let no = decide(bench, vote(bench, job, "bob", false)).await;
    assert_eq!(no, ApprovalAnswer::Decided(Decided::Rejected, JobStatus::Canceled));
    assert!(bench.begin().await.is_empty());
    let unasked = bench.ledger.retry_command(bench.order(job), None).await;
    assert_eq!(unasked, Ok(OrderAnswer::NotFrom(JobStatus::Canceled)));
}
