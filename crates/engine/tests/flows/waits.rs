//! Runs that wait: for a time, a person, an event; also while nobody is there.

use bowline_model::JobStatus;
use bowline_store::{FlowAnswer, JobOrder};
use serde_json::{Value, json};

use crate::{House, node, result_of, row};

const DAY_MS: i64 = 86_400_000;

#[tokio::test]
async fn a_sleep_of_years_is_exact_after_a_restart() {
    let house = House::open().await;
    let workflow =
        row(&[node("nap", "sleep", json!({"duration": "730d"})), node("out", "end", json!({"output": "awake"}))]);
    let job = house.begin(workflow, json!(null)).await;
    let record = house.until(job, |status| status == JobStatus::Paused).await;
    let due = crate::start_of_time().plus_millis(730 * DAY_MS);
    assert_eq!(record.state.due_at, Some(due));
    let house = house.die_and_return().await;
    house.clock.set(due.plus_millis(-1));
    tokio::time::sleep(std::time::Duration::from_millis(1_300)).await;
    assert_eq!(house.job(job).await.state.status, JobStatus::Paused);
    house.clock.set(due);
    let record = house.until(job, JobStatus::is_terminal).await;
    assert_eq!(result_of(&record), json!("awake"));
    assert_eq!(house.steps(job).await[1].step.ended_at, due);
    house.check().await;
}

fn approval() -> Value {
    json!({
        "nodes": [
            node("start", "start", json!({})),
            node("ask", "approval", json!({"title": "Pay {{webhook.payload.sum}}?", "four_eyes": false, "timeout": "1h"})),
            node("paid", "end", json!({"output": {"by": "{{steps.ask.output.by}}"}})),
            node("refused", "end", json!({"output": {"why": "{{steps.ask.output.reason}}"}})),
            node("late", "end", json!({"output": "late"})),
        ],
        "edges": [
            {"source": "start", "target": "ask"},
            {"source": "ask", "target": "paid"},
            {"source": "ask", "target": "refused", "on": "rejected"},
            {"source": "ask", "target": "late", "on": "expired"},
        ],
    })
}

#[tokio::test]
async fn people_decide_once() {
    let house = House::open().await;
    let flows = &house.engine.flows;
    let mut jobs = Vec::new();
    for _ in 0..3 {
        let job = house.begin(approval(), json!({"sum": 7})).await;
        house.until(job, |status| status == JobStatus::Paused).await;
        jobs.push(job);
    }
    let record = house.engine.ledger.find_flow(house.tenant, jobs[0]).await.unwrap().unwrap();
    assert_eq!(record.paused_for.as_deref(), Some("approval"));
    assert_eq!(&*record.waits[0].wait.name, "Pay 7?");
    let decide = |job, yes, why: Option<&str>| {
        flows.decide(house.tenant, job, None, yes, house.author(), why.map(ToOwned::to_owned))
    };
    assert_eq!(decide(jobs[0], true, None).await.unwrap(), FlowAnswer::Taken);
    let second = decide(jobs[0], false, None).await.unwrap();
    assert!(matches!(second, FlowAnswer::NobodyWaits | FlowAnswer::Finished(_)), "{second:?}");
    assert_eq!(decide(jobs[1], false, Some("too much")).await.unwrap(), FlowAnswer::Taken);
    let paid = house.until(jobs[0], JobStatus::is_terminal).await;
    assert_eq!(result_of(&paid)["by"], json!("ada"));
    assert_eq!(result_of(&house.until(jobs[1], JobStatus::is_terminal).await), json!({"why": "too much"}));
    house.clock.advance_ms(3_600_000);
    assert_eq!(result_of(&house.until(jobs[2], JobStatus::is_terminal).await), json!("late"));
    house.check().await;
}

#[tokio::test]
async fn events_reach_whoever_waits_for_them_also_when_they_are_early() {
    let house = House::open().await;
    let workflow = row(&[
        node("nap", "sleep", json!({"duration_ms": 1_000})),
        node("wait", "wait_event", json!({"event": "paid", "key": "{{webhook.payload.order}}"})),
        node("out", "end", json!({"output": "{{steps.wait.output}}"})),
    ]);
    let flows = &house.engine.flows;
    let early = house.begin(workflow.clone(), json!({"order": "1"})).await;
    let told = flows.tell(house.tenant, early, "paid", Some("1".into()), json!({"sum": 1}), house.author()).await;
    assert_eq!(told.unwrap(), FlowAnswer::Taken);
    let late = house.begin(workflow, json!({"order": "2"})).await;
    house.clock.advance_ms(1_000);
    assert_eq!(result_of(&house.until(early, JobStatus::is_terminal).await), json!({"sum": 1}));
    for _ in 0..500 {
        if !house.engine.ledger.find_flow(house.tenant, late).await.unwrap().unwrap().waits.is_empty() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let signal =
        |key: &str| flows.signal(house.tenant, "paid", Some(key.to_owned()), json!({"sum": 2}), house.author());
    assert_eq!(signal("3").await.unwrap(), 0);
    assert_eq!(signal("2").await.unwrap(), 1);
    assert_eq!(result_of(&house.until(late, JobStatus::is_terminal).await), json!({"sum": 2}));
    house.check().await;
}

/// No worker takes the first task, also over a restart, and one never ends the second: the time of both counts from when the
/// node was entered, and then the job is stopped.
#[tokio::test]
async fn a_task_is_waited_for_until_its_deadline_and_then_stopped() {
    for task_type in ["nobody.takes.this", "endless"] {
        let house = House::open().await;
        let workflow = json!({
            "nodes": [
                node("start", "start", json!({})),
                node("work", "task", json!({"type": task_type, "deadline": "1m"})),
                node("late", "end", json!({"output": "{{steps.work.output}}"})),
            ],
            "edges": [{"source": "start", "target": "work"}, {"source": "work", "target": "late", "on": "failure"}],
        });
        let run = house.begin(workflow, json!(null)).await;
        let record = house.until(run, |status| status == JobStatus::Running).await;
        assert_eq!(record.state.due_at, Some(crate::start_of_time().plus_millis(60_000)));
        // Whoever was at work when everything died would have to be missed first.
        let house = if task_type == "endless" { house } else { house.die_and_return().await };
        house.clock.set(crate::start_of_time().plus_millis(60_000));
        let told = result_of(&house.until(run, JobStatus::is_terminal).await);
        assert_eq!(told["error"], json!({"class": "timeout", "message": "there was no result in time"}));
        let job = told["job_id"].as_str().expect("an id").parse().expect("an id");
        house.until(job, |status| status == JobStatus::Canceled).await;
        house.check().await;
    }
}

#[tokio::test]
async fn canceling_reaches_what_it_began() {
    let house = House::open().await;
    let workflow = row(&[node("endless", "task", json!({"type": "endless"}))]);
    let job = house.begin(workflow, json!(null)).await;
    house.until(job, |status| status == JobStatus::Running).await;
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    let order = JobOrder { tenant: house.tenant, job, by: house.author(), reason: None };
    house.engine.cancel_job(order).await.unwrap();
    let record = house.until(job, JobStatus::is_terminal).await;
    assert_eq!(record.state.status, JobStatus::Canceled);
    house.check().await;
}

#[tokio::test]
async fn a_run_goes_on_after_the_server_died_while_a_job_was_out() {
    let house = House::open().await;
    let workflow = row(&[
        node("first", "task", json!({"type": "echo", "payload": 1})),
        node("nap", "sleep", json!({"duration_ms": 500})),
        node("second", "task", json!({"type": "flaky", "payload": {"failures": 0}})),
        node("out", "end", json!({"output": "{{steps.first.output}}"})),
    ]);
    let job = house.begin(workflow, json!(null)).await;
    house.until(job, |status| status == JobStatus::Paused).await;
    let house = house.die_and_return().await;
    house.clock.advance_ms(500);
    let record = house.until(job, JobStatus::is_terminal).await;
    assert_eq!((record.state.status, result_of(&record)), (JobStatus::Succeeded, json!(1)));
    assert_eq!(house.path(job).await, ["start", "first", "nap", "second", "out"]);
    house.check().await;
}

const HOUR_MS: i64 = 3_600_000;

fn late(id: &str, kind: &str, config: Value, way: &str) -> Value {
    json!({
        "nodes": [node("start", "start", json!({})), node(id, kind, config), node("late", "end", json!({"output": "late"}))],
        "edges": [{"source": "start", "target": id}, {"source": id, "target": "late", "on": way}],
    })
}

/// Sleeps go on; a person, an event and a job are waited for until somebody has believed the clock.
#[tokio::test]
async fn nothing_that_is_waited_for_ends_by_a_clock_that_is_held() {
    let house = House::open_doubting();
    let ledger = &house.engine.ledger;
    let event = late("wait", "wait_event", json!({"event": "paid", "timeout": "1h"}), "expired");
    let call = late("work", "task", json!({"type": "nobody.takes.this", "deadline": "1h"}), "failure");
    let nap = row(&[node("nap", "sleep", json!({"duration": "2h"})), node("out", "end", json!({"output": "awake"}))]);
    let asks = house.begin(approval(), json!({"sum": 7})).await;
    let event = house.begin(event, json!(null)).await;
    let call = house.begin(call, json!(null)).await;
    let nap = house.begin(nap, json!(null)).await;
    for job in [asks, event, nap] {
        house.until(job, |status| status == JobStatus::Paused).await;
    }
    ledger.note_time().await.expect("the time is noted");
    house.clock.advance_ms(400 * DAY_MS);
    ledger.note_time().await.expect("the time is noted");
    assert!(ledger.clock_status().is_held());
    house.clock.advance_ms(3 * HOUR_MS);
    assert_eq!(result_of(&house.until(nap, JobStatus::is_terminal).await), json!("awake"));
    // Something makes it take a turn.
    let told = house.engine.flows.tell(house.tenant, call, "news", None, json!(1), house.author()).await;
    assert_eq!(told.unwrap(), FlowAnswer::Taken);
    tokio::time::sleep(std::time::Duration::from_millis(1_500)).await;
    let statuses = [house.job(asks).await, house.job(event).await, house.job(call).await].map(|job| job.state.status);
    assert_eq!(statuses, [JobStatus::Paused, JobStatus::Paused, JobStatus::Running]);
    let yes = house.engine.flows.decide(house.tenant, asks, None, true, house.author(), None).await;
    assert_eq!(yes.unwrap(), FlowAnswer::Taken);
    assert_eq!(result_of(&house.until(asks, JobStatus::is_terminal).await)["by"], json!("ada"));
    house.engine.ledger.accept_clock("ops".into(), None).await.expect("accepted");
    for job in [event, call] {
        assert_eq!(result_of(&house.until(job, JobStatus::is_terminal).await), json!("late"));
    }
    house.check().await;
}

/// What a run reckoned from a time that was not true moves with the clock. What somebody named stays where it is.
#[tokio::test]
async fn waits_that_began_in_a_wrong_future_move_with_the_clock() {
    let house = House::open_doubting();
    let ledger = &house.engine.ledger;
    let (right, wrong) = (crate::start_of_time(), crate::start_of_time().plus_millis(400 * DAY_MS));
    ledger.note_time().await.expect("the time is noted");
    let out = || node("out", "end", json!({"output": "awake"}));
    let nap = row(&[node("nap", "sleep", json!({"duration": "1h"})), out()]);
    let early = house.begin(row(&[node("nap", "sleep", json!({"duration": "500d"})), out()]), json!(null)).await;
    house.until(early, |status| status == JobStatus::Paused).await;
    house.clock.set(wrong);
    ledger.note_time().await.expect("the time is noted");
    ledger.accept_clock("ops".into(), None).await.expect("accepted, wrongly");
    let named = wrong.plus_millis(DAY_MS);
    let until = row(&[node("nap", "sleep", json!({"until": named.to_string()})), out()]);
    let call = late("work", "task", json!({"type": "nobody.takes.this", "deadline": "1h"}), "failure");
    let call = house.begin(call, json!(null)).await;
    house.until(call, |status| status == JobStatus::Running).await;
    let (nap, until, asks) = (
        house.begin(nap, json!(null)).await,
        house.begin(until, json!(null)).await,
        house.begin(approval(), json!({"sum": 7})).await,
    );
    for job in [nap, until, asks] {
        house.until(job, |status| status == JobStatus::Paused).await;
    }
    ledger.note_time().await.expect("the time is noted");
    house.clock.set(right);
    ledger.note_time().await.expect("the time is noted");
    assert!(ledger.clock_status().is_held());
    ledger.accept_clock("ops".into(), None).await.expect("accepted, rightly");
    let hour = right.plus_millis(HOUR_MS);
    for (job, due_at) in
        [(nap, hour), (asks, hour), (call, hour), (until, named), (early, right.plus_millis(500 * DAY_MS))]
    {
        for _ in 0..500 {
            if house.job(job).await.state.due_at == Some(due_at) {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        assert_eq!(house.job(job).await.state.due_at, Some(due_at));
    }
    house.clock.advance_ms(HOUR_MS);
    assert_eq!(result_of(&house.until(nap, JobStatus::is_terminal).await), json!("awake"));
    for job in [asks, call] {
        assert_eq!(result_of(&house.until(job, JobStatus::is_terminal).await), json!("late"));
    }
    assert_eq!(house.job(until).await.state.status, JobStatus::Paused);
    house.check().await;
}
