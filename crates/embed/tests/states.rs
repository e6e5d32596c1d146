//! What states promise: retries, timeouts, several tasks at once, other blueprints, people, sleep; and what becomes of
//! mistakes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bowline_embed::{
    Actions, Blueprint, Bowline, Clock, Error, Failure, JobId, JobStatus, ManualClock, Outcome, StateContext, Task,
    TaskContext, Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

type Data = Map<String, Value>;

async fn finish(bowline: &Bowline, job: JobId) -> Outcome {
    tokio::time::timeout(Duration::from_secs(30), bowline.wait(job)).await.expect("in time").expect("an outcome")
}

async fn until(bowline: &Bowline, job: JobId, wanted: JobStatus) {
    for _ in 0..1_000 {
        let (record, _) =
            bowline.engine().ledger.find_job(bowline.tenant(), job).await.expect("a look").expect("a job");
        if record.state.status == wanted {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("job {job} does not become {wanted}");
}

async fn check(bowline: &Bowline) {
    let verified = bowline.engine().ledger.verify(20).await.expect("verified");
    assert_eq!(verified.faults, Vec::<String>::new());
}

fn message(outcome: &Outcome) -> &str {
    outcome.error.as_ref().map_or("", |error| error.message.as_str())
}

#[tokio::test]
async fn a_handler_that_fails_is_asked_again_after_its_delay() {
    let clock = ManualClock::at(Timestamp::from_millis(1_800_000_000_000));
    let asked = Arc::new(AtomicU32::new(0));
    let mut blueprint = Blueprint::<Data>::new("flaky");
    let count = Arc::clone(&asked);
    blueprint
        .state("work", move |mut data: Data, _: Actions, cx: StateContext| {
            let count = Arc::clone(&count);
            async move {
                count.fetch_add(1, Ordering::SeqCst);
                if cx.attempt < 3 {
                    return Err(Failure::transient("not yet"));
                }
                data.insert("attempt".to_owned(), json!(cx.attempt));
                Ok(data)
            }
        })
        .retries(2)
        .retry_delay(Duration::from_secs(5));
    let builder = Bowline::in_memory().clock(Arc::<ManualClock>::clone(&clock) as Arc<dyn Clock>);
    let bowline = builder.blueprint(blueprint).serve().await.expect("open");
    let job = bowline.start("flaky", json!({})).await.expect("started");
    for attempt in 1..3 {
        for _ in 0..1_000 {
            if asked.load(Ordering::SeqCst) == attempt {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(asked.load(Ordering::SeqCst), attempt);
        // Not a moment before, however long one waits.
        clock.advance_ms(4_999);
        tokio::time::sleep(Duration::from_millis(1_200)).await;
        assert_eq!(asked.load(Ordering::SeqCst), attempt);
        clock.advance_ms(1);
    }
    let outcome = finish(&bowline, job).await;
    assert_eq!(outcome.result, json!({"attempt": 3}), "{outcome:?}");
    check(&bowline).await;
    bowline.close().await;
}

#[tokio::test]
async fn when_retries_are_used_up_another_state_takes_over_or_the_run_fails() {
    let mut blueprint = Blueprint::<Data>::new("broken");
    blueprint
        .state("work", |_: Data, _, _| async { Err(Failure::transient("no luck")) })
        .retries(1)
        .retry_delay(Duration::ZERO)
        .on_failure("rescue");
    blueprint.state("rescue", |mut data: Data, _, cx: StateContext| async move {
        data.insert("why".to_owned(), cx.error["message"].clone());
        Ok(data)
    });
    let mut alone = Blueprint::<Data>::new("alone");
    alone.state("work", |_: Data, _, _| async { Err(Failure::permanent("never")) }).retries(5);
    let bowline = Bowline::in_memory().blueprint(blueprint).blueprint(alone).serve().await.expect("open");
    let job = bowline.start("broken", json!({})).await.expect("started");
    assert_eq!(finish(&bowline, job).await.result, json!({"why": "no luck"}));
    let job = bowline.start("alone", json!({})).await.expect("started");
    let outcome = finish(&bowline, job).await;
    assert_eq!(outcome.status, JobStatus::Failed);
    assert!(message(&outcome).contains("never"), "{outcome:?}");
    bowline.close().await;
}

#[tokio::test]
async fn a_task_that_takes_too_long_goes_its_own_way() {
    let mut blueprint = Blueprint::<Data>::new("slow");
    blueprint.state("ask", |data: Data, actions: Actions, _| async move {
        let task = actions.dispatch_task("endless", json!({})).on("success", "never").on("timeout", "late");
        task.timeout(Duration::from_millis(100)).retries(0);
        Ok(data)
    });
    blueprint.end("never");
    blueprint.state("late", |mut data: Data, _, cx: StateContext| async move {
        data.insert("class".to_owned(), cx.task_result["error"]["class"].clone());
        Ok(data)
    });
    let bowline = Bowline::in_memory()
        .task("endless", |_: Value, cx: TaskContext| async move {
            cx.stopped().await;
            Ok::<_, Failure>(())
        })
        .blueprint(blueprint)
        .serve()
        .await
        .expect("open");
    let job = bowline.start("slow", json!({})).await.expect("started");
    assert_eq!(finish(&bowline, job).await.result, json!({"class": "timeout"}));
    bowline.close().await;
}

#[tokio::test]
async fn several_tasks_at_once_are_gathered_in_their_order() {
    let mut blueprint = Blueprint::<Data>::new("many");
    blueprint.state("ask", |data: Data, actions: Actions, _| async move {
        let tasks = (0..20).map(|n| Task::new("half", json!({"n": n})).retries(0));
        actions.dispatch_parallel(tasks).concurrency(3).aggregate_into("sum");
        Ok(data)
    });
    blueprint.state("sum", |mut data: Data, _, cx: StateContext| async move {
        let results = cx.results::<u64>()?;
        let good: Vec<u64> = results.iter().filter_map(|result| result.as_ref().ok().copied()).collect();
        data.insert("good".to_owned(), json!(good));
        data.insert("bad".to_owned(), json!(results.iter().filter(|result| result.is_err()).count()));
        Ok(data)
    });
    let bowline = Bowline::in_memory()
        .task("half", |params: Value, _| async move {
            let n = params["n"].as_u64().unwrap_or(0);
            if n.is_multiple_of(2) { Ok(n / 2) } else { Err(Failure::permanent("odd")) }
        })
        .blueprint(blueprint)
        .serve()
        .await
        .expect("open");
    let job = bowline.start("many", json!({})).await.expect("started");
    let outcome = finish(&bowline, job).await;
    assert_eq!(outcome.result, json!({"good": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], "bad": 10}), "{outcome:?}");
    check(&bowline).await;
    bowline.close().await;
}

/// A blueprint that runs another one, which does this.
fn parent_and_child(child: Blueprint<Data>) -> (Blueprint<Data>, Blueprint<Data>) {
    let mut parent = Blueprint::<Data>::new("parent");
    parent.state("ask", |data: Data, actions: Actions, _| async move {
        actions.run_blueprint("child", json!({"n": data["n"]})).on("success", "good").on("failure", "bad");
        Ok(data)
    });
    parent.state("good", |mut data: Data, _, cx: StateContext| async move {
        data.insert("child".to_owned(), cx.result_of_task::<Value>()?);
        Ok(data)
    });
    parent.state("bad", |mut data: Data, _, cx: StateContext| async move {
        data.insert("why".to_owned(), cx.task_result["error"]["message"].clone());
        Ok(data)
    });
    (parent, child)
}

#[tokio::test]
async fn a_blueprint_runs_another() {
    let mut child = Blueprint::<Data>::new("child");
    child.state("double", |mut data: Data, _, _| async move {
        let n = data["n"].as_u64().ok_or_else(|| Failure::permanent("n is no number"))?;
        data.insert("n".to_owned(), json!(n * 2));
        Ok(data)
    });
    let (parent, child) = parent_and_child(child);
    let bowline = Bowline::in_memory().blueprint(parent).blueprint(child).serve().await.expect("open");
    let job = bowline.start("parent", json!({"n": 21})).await.expect("started");
    assert_eq!(finish(&bowline, job).await.result, json!({"n": 21, "child": {"n": 42}}));
    let job = bowline.start("parent", json!({"n": "x"})).await.expect("started");
    let outcome = finish(&bowline, job).await;
    assert!(outcome.result["why"].as_str().is_some_and(|why| why.contains("n is no number")), "{outcome:?}");
    check(&bowline).await;
    bowline.close().await;
}

#[tokio::test]
async fn who_cancels_a_run_cancels_what_it_began() {
    let stopped = Arc::new(AtomicU32::new(0));
    let mut child = Blueprint::<Data>::new("child");
    child.state("ask", |data: Data, actions: Actions, _| async move {
        actions.dispatch_task("endless", json!({})).on("success", "ask");
        Ok(data)
    });
    let (parent, child) = parent_and_child(child);
    let (begun, count) = (Arc::new(tokio::sync::Notify::new()), Arc::clone(&stopped));
    let rings = Arc::clone(&begun);
    let bowline = Bowline::in_memory()
        .task("endless", move |_: Value, cx: TaskContext| {
            let (rings, count) = (Arc::clone(&rings), Arc::clone(&count));
            async move {
                rings.notify_one();
                cx.stopped().await;
                count.fetch_add(1, Ordering::SeqCst);
                Ok::<_, Failure>(())
            }
        })
        .blueprint(parent)
        .blueprint(child)
        .serve()
        .await
        .expect("open");
    let job = bowline.start("parent", json!({"n": 1})).await.expect("started");
    tokio::time::timeout(Duration::from_secs(30), begun.notified()).await.expect("it begins");
    bowline.cancel(job, Some("enough")).await.expect("canceled");
    assert_eq!(finish(&bowline, job).await.status, JobStatus::Canceled);
    let jobs =
        bowline.engine().ledger.list_jobs(bowline.tenant(), Default::default(), None, 100).await.expect("a list");
    for other in jobs.items {
        until(
            &bowline,
            other.id,
            if other.state.status == JobStatus::Succeeded { JobStatus::Succeeded } else { JobStatus::Canceled },
        )
        .await;
    }
    assert_eq!(stopped.load(Ordering::SeqCst), 1);
    check(&bowline).await;
    bowline.close().await;
}

fn patient() -> Blueprint<Data> {
    let mut blueprint = Blueprint::<Data>::new("patient");
    blueprint.state("nap", |data: Data, actions: Actions, _| async move {
        actions.sleep(Duration::from_secs(86_400)).then("ask");
        Ok(data)
    });
    blueprint.state("ask", |data: Data, actions: Actions, _| async move {
        let hour = Duration::from_secs(3_600);
        actions.await_approval("Awake?").approved("yes").rejected("no").expired(hour, "late");
        Ok(data)
    });
    for state in ["yes", "no", "late"] {
        blueprint.state(state, move |mut data: Data, _, _| async move {
            data.insert("said".to_owned(), json!(state));
            Ok(data)
        });
    }
    blueprint
}

#[tokio::test]
async fn a_sleep_and_a_question_outlast_the_program() {
    let directory = tempfile::tempdir().expect("a directory");
    let clock = ManualClock::at(Timestamp::from_millis(1_800_000_000_000));
    let open = || {
        let builder = Bowline::open(directory.path()).clock(Arc::<ManualClock>::clone(&clock) as Arc<dyn Clock>);
        builder.blueprint(patient()).serve()
    };
    let bowline = open().await.expect("open");
    let mut jobs = Vec::new();
    for _ in 0..3 {
        let job = bowline.start("patient", json!({"n": 1})).await.expect("started");
        until(&bowline, job, JobStatus::Paused).await;
        jobs.push(job);
    }
    bowline.close().await;
    clock.advance_ms(86_399_999);
    let bowline = open().await.expect("open again");
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    assert!(bowline.approvals(jobs[0]).await.expect("a run").is_empty(), "it woke too early");
    clock.advance_ms(1);
    for job in &jobs {
        for _ in 0..1_000 {
            if !bowline.approvals(*job).await.expect("a run").is_empty() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    bowline.close().await;
    let bowline = open().await.expect("open once more");
    bowline.approve(jobs[0], None).await.expect("approved");
    bowline.reject(jobs[1], Some("sleepy")).await.expect("rejected");
    let said = async |job| finish(&bowline, job).await.result["said"].clone();
    assert_eq!((said(jobs[0]).await, said(jobs[1]).await), (json!("yes"), json!("no")));
    let again = bowline.approve(jobs[0], None).await.expect_err("it is over");
    assert!(matches!(again, Error::NobodyWaits(_) | Error::Finished { .. }), "{again}");
    clock.advance_ms(3_600_000);
    assert_eq!(said(jobs[2]).await, json!("late"));
    check(&bowline).await;
    bowline.close().await;
}

#[derive(Debug, Serialize, Deserialize)]
struct Order {
    lines: Vec<u32>,
}

#[tokio::test]
async fn data_of_another_shape_are_a_permanent_failure_that_says_where() {
    let asked = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&asked);
    let mut blueprint = Blueprint::<Order>::new("typed");
    blueprint
        .state("look", move |order: Order, _, _| {
            count.fetch_add(1, Ordering::SeqCst);
            async move { Ok(order) }
        })
        .retries(5);
    let bowline = Bowline::in_memory().blueprint(blueprint).serve().await.expect("open");
    let job = bowline.start("typed", json!({"lines": [1, "two"]})).await.expect("started");
    let outcome = finish(&bowline, job).await;
    assert_eq!(outcome.status, JobStatus::Failed);
    let said = message(&outcome);
    assert!(said.contains("do not fit state look at `lines[1]`"), "{said}");
    // Nobody was asked, and nobody is asked again.
    assert_eq!(asked.load(Ordering::SeqCst), 0);
    let error = outcome.data::<Order>().expect_err("no data");
    assert!(matches!(error, Error::NotSucceeded { status: JobStatus::Failed, .. }), "{error}");
    bowline.close().await;
}

#[tokio::test]
async fn bad_actions_fail_clearly_and_lose_nothing() {
    let mut blueprint = Blueprint::<Data>::new("bad");
    blueprint.state("decide", |data: Data, actions: Actions, _| async move {
        match data["how"].as_str() {
            Some("unknown state") => actions.transition_to("nowhere"),
            Some("two") => {
                actions.transition_to("decide");
                actions.sleep(Duration::from_secs(1)).then("decide");
            }
            Some("bad type") => drop(actions.dispatch_task("not a type!", json!({})).on("success", "decide")),
            Some("nothing follows") => drop(actions.dispatch_task("echo", json!({}))),
            _ => {}
        }
        Ok(data)
    });
    let bowline = Bowline::in_memory().blueprint(blueprint).serve().await.expect("open");
    for (how, part) in [
        ("unknown state", "actions[0].transition_to: there is no state `nowhere`"),
        ("two", "actions[1].sleep: actions[0] leads on already"),
        ("bad type", "not a type!"),
        ("nothing follows", "dispatch_task.transitions: say at least one state"),
    ] {
        let job = bowline.start("bad", json!({"how": how, "kept": 1})).await.expect("started");
        let outcome = finish(&bowline, job).await;
        assert_eq!(outcome.status, JobStatus::Failed, "{how}");
        assert!(message(&outcome).contains(part), "{how}: {}", message(&outcome));
        let context = bowline.engine().flows.context(bowline.tenant(), job, None).await.expect("a context").context;
        assert_eq!(context["variables"], json!({"how": how, "kept": 1}));
    }
    check(&bowline).await;
    bowline.close().await;
}

#[tokio::test]
async fn what_is_wrong_is_said_before_anything_runs() {
    let mut blueprint = Blueprint::<Data>::new("wrong");
    blueprint.state("a", |data: Data, _, _| async move { Ok(data) }).on_failure("b");
    let error = Bowline::in_memory().blueprint(blueprint).serve().await.expect_err("a mistake");
    assert!(error.to_string().contains("states.a.on_failure: there is no state `b`"), "{error}");
    let mut twice = Blueprint::<Data>::new("twice");
    twice.end("a");
    twice.end("a");
    let error = Bowline::in_memory().blueprint(twice).serve().await.expect_err("a mistake");
    assert!(error.to_string().contains("two states \"a\""), "{error}");
    let error = Bowline::in_memory().blueprint_yaml("kind: blueprint\nname: x\nspec: {start: a, sates: {}}\n");
    let error = error.serve().await.expect_err("a mistake");
    assert!(error.to_string().contains("sates"), "{error}");
    let bowline = Bowline::in_memory().serve().await.expect("open");
    let error = bowline.start("nobody", json!({})).await.expect_err("not there");
    assert!(matches!(error, Error::Start(_)), "{error}");
    bowline.close().await;
}

#[tokio::test]
async fn the_same_key_is_the_same_run() {
    let bowline = Bowline::in_memory().blueprint(patient()).serve().await.expect("open");
    let first = bowline.start_once("k", "patient", json!({"n": 1})).await.expect("started");
    let second = bowline.start_once("k", "patient", json!({"n": 1})).await.expect("the same");
    assert_eq!(first, second);
    assert!(matches!(bowline.start_once("k", "patient", json!({"n": 2})).await, Err(Error::Data { .. })));
    bowline.cancel(first, None).await.expect("canceled");
    bowline.close().await;
}
