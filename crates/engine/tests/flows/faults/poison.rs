//! Runs that cannot go on: their records, their definition, their next turn or what they call makes no sense. Each is given
//! up with a reason, and nobody else waits for it.

use std::path::Path;

use bowline_engine::flow::DefinitionKind;
use bowline_model::{JobId, JobStatus};
use bowline_store::{JobRecord, Submitted};
use serde_json::{Value, json};

use super::Judgement;
use super::errors::store;
use crate::{House, node, row};

const OTHERS: usize = 100;

/// Sleeps for an hour, and then does this.
fn nap(then: Value) -> Value {
    row(&[node("nap", "sleep", json!({"duration": "1h"})), then])
}

/// Everybody has ended well.
fn went_on(others: &[JobRecord]) -> Judgement {
    let left: Vec<_> = others.iter().filter(|job| job.state.status != JobStatus::Succeeded).collect();
    if left.is_empty() && others.len() == OTHERS { Ok(()) } else { Err(format!("{} stand still", left.len())) }
}

/// It has ended as it must, and says why.
fn given_up(job: &JobRecord, status: JobStatus, why: &str) -> Judgement {
    let says = job.error.as_ref().map_or("", |error| &error.message);
    if job.state.status == status && says.contains(why) { Ok(()) } else { Err(format!("{} {says}", job.state.status)) }
}

fn tamper(directory: &Path, changes: &[String]) {
    let file = rusqlite::Connection::open(directory.join("bowline.db")).expect("the ledger's file");
    // Whoever died may not be gone yet.
    file.busy_timeout(std::time::Duration::from_secs(20)).expect("patience");
    for change in changes {
        // A trigger says nothing of rows.
        let changed = file.execute(change, []).unwrap_or_else(|e| panic!("{change}: {e}"));
        assert!(change.starts_with("create") || changed == 1, "{change} changed {changed} rows");
    }
}

async fn all(house: &House, jobs: &[JobId]) -> Vec<JobRecord> {
    let mut records = Vec::new();
    for job in jobs {
        records.push(house.job(*job).await);
    }
    records
}

#[tokio::test]
async fn a_run_that_cannot_go_on_is_given_up_and_holds_nobody_up() {
    let house = House::open().await;
    store(&house, "broken", &row(&[])).await;
    let log = |message: &str| node("say", "log", json!({"message": message}));
    let unreadable = house.begin(nap(log("unreadable")), json!(null)).await;
    let undefined = house.begin(nap(log("its definition is its own")), json!(null)).await;
    let refused = house.begin(nap(log("refused")), json!(null)).await;
    let calls = house.begin(nap(node("call", "workflow", json!({"name": "broken"}))), json!(null)).await;
    let mut failing = nap(log("after a failure"));
    failing["nodes"].as_array_mut().expect("a list").push(node(
        "fails",
        "task",
        json!({"type": "witnessed", "payload": {"by": 0}}),
    ));
    failing["edges"] = json!([
        {"source": "start", "target": "fails"},
        {"source": "fails", "target": "nap", "on": "always"},
        {"source": "nap", "target": "say"},
        {"source": "say", "target": "end"},
    ]);
    let misheard = house.begin(failing, json!(null)).await;
    let mut others = Vec::new();
    for _ in 0..OTHERS {
        others.push(house.begin(nap(log("one of many")), json!(null)).await);
    }
    let poisons = [unreadable, undefined, refused, calls, misheard];
    let mut numbers = Vec::new();
    for job in poisons {
        house.until(job, |status| status == JobStatus::Paused).await;
        numbers.push(house.engine.ledger.flow_number(house.tenant, job).await.expect("an answer").expect("a run"));
    }
    for job in &others {
        house.until(*job, |status| status == JobStatus::Paused).await;
    }
    let changes = [
        format!("update flow_turn set records = '[{{' where flow = {} and turn = 1", numbers[0]),
        format!("delete from flow_definition where id = (select definition from flow where number = {})", numbers[1]),
        format!(
            "create trigger refuses before insert on flow_turn when new.flow = {} and new.records <> '[]'
             begin select raise(abort, 'this turn is not stored'); end",
            numbers[2]
        ),
        "update resource_version set spec = '{' where resource = (select id from resource where name = 'broken')"
            .to_owned(),
        // What a job ended with cannot be read, and its run is told of it.
        format!("update job set error = '{{' where flow = {}", numbers[4]),
        format!("insert into flow_inbox (flow, child) select flow, number from job where flow = {}", numbers[4]),
    ];
    // The evidence is in `tamper`: each change changed something.
    let house = house.die_and_return_after(|directory| tamper(directory, &changes)).await;
    // The control: before the time has come, everybody stands still, and nobody is given up but the one that was spoken to.
    let before = all(&house, &others).await;
    assert!(went_on(&before).is_err(), "those who stand still are seen");
    assert!(went_on(&before[1..]).is_err() && went_on(&[]).is_err());
    house.clock.advance_ms(3_600_000);
    for job in others.iter().chain(&poisons) {
        house.until(*job, JobStatus::is_terminal).await;
    }
    let after = all(&house, &others).await;
    went_on(&after).expect("nobody was held up");
    for (job, status, why) in [
        (unreadable, JobStatus::Error, "do not add up"),
        (undefined, JobStatus::Error, "is gone"),
        (refused, JobStatus::Error, "this turn is not stored"),
        (calls, JobStatus::Failed, "does not parse"),
    ] {
        let record = house.job(job).await;
        given_up(&record, status, why).unwrap_or_else(|wrong| panic!("{why}: {wrong}"));
        assert!(given_up(&after[0], status, why).is_err() && given_up(&record, status, "another reason").is_err());
    }
    let ledger = &house.engine.ledger;
    let record = ledger.find_flow(house.tenant, unreadable).await.expect("an answer").expect("an execution");
    let state = house.engine.flows.final_state(house.tenant, unreadable, record.steps).await;
    assert_eq!(state.expect("it can be shown"), None, "its records cannot be read");
    assert_eq!(house.job(misheard).await.state.status, JobStatus::Succeeded, "it did not wait for that word");
    // Others can begin and end, too.
    let late = house.run(row(&[log("late")]), json!(null)).await;
    assert_eq!(late.state.status, JobStatus::Succeeded);
}

/// A turn that a real ledger refuses: a rule of the database forbids one title of an approval. Zero bytes are no poison.
#[tokio::test]
async fn a_turn_that_postgresql_cannot_store_is_given_up_and_holds_nobody_up() {
    let database = bowline_testkit::fresh_database();
    let house = House::on_postgres(database.url()).await;
    let rule = "alter table flow_wait add constraint no_poison check (name <> 'poison')";
    let ruler = bowline_testkit::connect(database.url()).await.expect("the database is there");
    ruler.batch_execute(rule).await.expect("a rule");
    store(&house, "asks", &row(&[node("ask", "approval", json!({"title": "{{webhook.payload}}"}))])).await;
    store(&house, "works", &row(&[node("echo", "task", json!({"type": "echo", "payload": "{{webhook.payload}}"}))]))
        .await;
    // All at once, so that they are turned together.
    let mut requests = Vec::new();
    for n in 0..=OTHERS {
        let (name, input) = if n == 50 { ("asks", "poison") } else { ("works", "a\u{0}b") };
        let name = bowline_model::ResourceName::new(name).expect("a name");
        let request =
            house.engine.flows.prepare(house.tenant, DefinitionKind::Workflow, &name, None, json!(input)).await;
        requests.push(request.expect("a run"));
    }
    let begun = house.engine.intake.submit(house.tenant, &house.origin(), requests).await.expect("stored");
    let mut jobs: Vec<JobId> = begun
        .iter()
        .map(|answer| match answer {
            Submitted::Accepted { id, .. } => *id,
            other => panic!("{other:?}"),
        })
        .collect();
    let poison = jobs.remove(50);
    for job in jobs.iter().chain([&poison]) {
        house.until(*job, JobStatus::is_terminal).await;
    }
    went_on(&all(&house, &jobs).await).expect("nobody was held up");
    let record = house.job(poison).await;
    given_up(&record, JobStatus::Error, "no_poison").expect("given up");
    assert!(went_on(&[all(&house, &jobs[1..]).await, vec![record]].concat()).is_err(), "the control");
    house.check().await;
}
