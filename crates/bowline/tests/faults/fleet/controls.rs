//! The controls: every judgement is shown a sight that it must refuse. A fault test whose judge cannot say no proves
//! nothing by its yes.
//!
//! Where it can be had, the sight is a real one: a command that really is started twice, a clock that really is right,
//! a disk that really has room, a host that really is given up.

use std::time::Duration;

use bowline_model::Timestamp;
use serde_json::{Value, json};

use super::judge::{
    Account, executed, is_ahead, nobody_lost, nothing_of, printed, time_went_on, timed_out_in_time, told_times,
    was_full,
};
use super::scene::{Fleet, ask, calm_ticks, history, server, ticks};
use crate::mid_request::{self, Receiver, asked_again};
use crate::support::small_disk::SmallDisk;
use crate::support::{Setup, TestServer};

/// The script of a witness, started by hand as often as somebody likes.
fn start_by_hand(wish: &Value, run: &str) -> std::process::Child {
    let script = wish["command"]["script"].as_str().expect("a script");
    let mut command = std::process::Command::new("sh");
    command.arg("-c").arg(script).env("BOWLINE_RUN_ID", run).env("BOWLINE_JOB_ID", "job");
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().expect("a shell")
}

/// The command itself sees a second start, one beside it, and an end that did not come.
#[tokio::test]
async fn the_witness_sees_a_second_start_and_an_overlap() {
    let server = server().await;
    let fleet = Fleet::join(&server, &server.url("")).await;
    for wish in [fleet.command(1), fleet.calm_command(1, 0)] {
        let fresh = || drop(std::fs::remove_file(fleet.witness()));
        fresh();
        assert!(start_by_hand(&wish, "a").wait().expect("an end").success());
        executed(&fleet.account(), 1, 1).expect("once is once");
        assert!(executed(&fleet.account(), 1, 0).is_err() && executed(&fleet.account(), 2, 1).is_err());
        // The same run again, after it has ended.
        assert!(start_by_hand(&wish, "a").wait().expect("an end").success());
        assert!(executed(&fleet.account(), 2, 2).is_err(), "a run was started twice");
        fresh();
        // Another one beside it.
        let mut one = start_by_hand(&wish, "a");
        fleet.begun(1).await;
        let mut other = start_by_hand(&wish, "b");
        assert!(one.wait().expect("an end").success() && other.wait().expect("an end").success());
        assert_eq!(fleet.account().overlaps, ["b"]);
        assert!(executed(&fleet.account(), 2, 2).is_err(), "two at a time");
        fresh();
        // One after the other is none.
        for run in ["a", "b"] {
            assert!(start_by_hand(&wish, run).wait().expect("an end").success());
        }
        executed(&fleet.account(), 2, 2).expect("one after the other");
        // One that is killed has no end.
        let mut killed = start_by_hand(&wish, "c");
        fleet.begun(3).await;
        killed.kill().expect("our own child");
        killed.wait().expect("an end");
        assert!(executed(&fleet.account(), 3, 3).is_err(), "one of them did not end");
    }
    assert_eq!(Account::read("starting a\nended b\n"), Account::default(), "only its own words count");
}

#[test]
fn a_byte_more_or_less_is_seen() {
    let right = calm_ticks(3);
    printed(&right, &right).expect("the same");
    for wrong in [String::new(), right[1..].to_owned(), right[..right.len() - 1].to_owned(), right.clone() + "\n"] {
        assert!(printed(&wrong, &right).is_err());
    }
    assert!(printed(&ticks(1).replace("tick 5", "tick 6"), &ticks(1)).is_err());
}

/// The same agent, the same command, and a real loss: an agent that is killed and does not come back.
#[tokio::test]
async fn a_loss_is_seen_in_the_history() {
    let server = server().await;
    let mut fleet = Fleet::join(&server, &server.url("")).await;
    let job = ask(&server, fleet.command(1)).await;
    server.until_status(&job, "success").await;
    nobody_lost(&history(&server).await).expect("nobody was lost so far");
    let job = ask(&server, fleet.command(2)).await;
    fleet.begun(2).await;
    fleet.kill_agent();
    server.until_status(&job, "failed").await;
    assert!(nobody_lost(&history(&server).await).is_err(), "somebody was called lost");
    assert!(nobody_lost(&[]).is_err(), "no history is no evidence");
}

/// Without the fault, the evidence of it is missing: a clock that is right is not taken for a wrong one.
#[test]
fn a_right_clock_is_not_taken_for_a_wrong_one() {
    let noon = Timestamp::from_millis(1_800_000_000_000);
    is_ahead(noon.plus_millis(7_200_000), noon, 7_200).expect("two hours");
    is_ahead(noon.plus_millis(-86_400_000), noon, -86_400).expect("a day behind");
    assert!(is_ahead(noon, noon, 7_200).is_err());
    assert!(is_ahead(noon.plus_millis(7_200_000), noon, -7_200).is_err());
    assert!(is_ahead(noon.plus_millis(7_200_000), noon, 0).is_err());
    let told = json!({"ts": noon.to_string(), "data": {"told_at": noon.plus_millis(1).to_string()}});
    assert_eq!(told_times(&[told]), [(noon.plus_millis(1), noon)]);
    assert!(told_times(&[json!({"ts": noon.to_string(), "data": {}})]).is_empty());
}

#[test]
fn a_ledger_whose_time_jumps_is_seen() {
    let at = |seconds: i64| json!({"ts": Timestamp::from_millis(1_800_000_000_000 + seconds * 1_000).to_string()});
    time_went_on(&[at(0), at(3), at(3), at(9)], 10_000, 0).expect("time went on");
    time_went_on(&[at(0), at(9), at(7), at(10)], 10_000, 2_000).expect("two transactions side by side");
    assert!(time_went_on(&[at(0), at(3), at(7_209)], 10_000, 2_000).is_err(), "two hours in ten seconds");
    assert!(time_went_on(&[at(7_209), at(3), at(4)], 10_000, 2_000).is_err(), "two hours back");
    assert!(time_went_on(&[at(0), at(9), at(3)], 10_000, 0).is_err(), "backwards");
    assert!(time_went_on(&[at(0), at(9), at(8), at(6)], 10_000, 2_000).is_err(), "backwards in small steps");
    assert!(time_went_on(&[], 10_000, 0).is_err() && time_went_on(&[json!({"ts": 7})], 10_000, 0).is_err());
}

#[test]
fn a_time_limit_that_came_early_or_late_is_seen() {
    let run = |status: &str, took: i64| {
        let began = Timestamp::from_millis(1_800_000_000_000);
        json!({"status": status, "started_at": began.to_string(), "finished_at": began.plus_millis(took).to_string()})
    };
    timed_out_in_time(&run("timed_out", 4_100), 4_000).expect("in time");
    assert!(timed_out_in_time(&run("timed_out", 3_900), 4_000).is_err(), "early");
    assert!(timed_out_in_time(&run("timed_out", 9_100), 4_000).is_err(), "late");
    assert!(timed_out_in_time(&run("failed", 4_100), 4_000).is_err(), "not by its limit");
}

#[test]
fn a_word_of_a_stranger_is_found_wherever_it_is() {
    let deep = json!({"data": {"detail": [{"words": "this rogue-was-here, somewhere"}]}});
    assert!(nothing_of("rogue-was-here", std::slice::from_ref(&deep)).is_err());
    nothing_of("somebody-else", &[deep]).expect("not there");
}

/// A disk that has room is not taken for a full one, and one without is.
#[test]
fn a_disk_with_room_is_not_taken_for_a_full_one() {
    assert!(was_full(&Ok(())).is_err());
    assert!(was_full(&Err(std::io::ErrorKind::PermissionDenied.into())).is_err());
    let Some(disk) = SmallDisk::mount(1) else {
        eprintln!("NO FILE SYSTEM CAN BE MOUNTED HERE: a full disk cannot be seen");
        return;
    };
    assert!(was_full(&std::fs::write(disk.path().join("small"), b"x")).is_err());
    was_full(&disk.fill()).expect("it is full");
    was_full(&std::fs::write(disk.path().join("one more"), vec![0; 1 << 20])).expect("it is full");
    std::fs::remove_file(disk.ballast()).expect("the ballast goes");
    assert!(was_full(&std::fs::write(disk.path().join("one more"), vec![0; 1 << 16])).is_err());
}

/// The stale fence of a zombie is refused because somebody else has begun, and not because it is late: without the next
/// attempt the same freeze ends with its word taken.
#[tokio::test]
async fn a_frozen_agent_whose_run_nobody_took_is_believed() {
    let server = server().await;
    let fleet = Fleet::join(&server, &server.url("")).await;
    let job = ask(&server, fleet.command(1)).await;
    fleet.begun(1).await;
    fleet.agent().stop();
    fleet.over(1).await;
    server.until_status(&job, "failed").await;
    fleet.agent().cont();
    server.until_status(&job, "success").await;
    let told = history(&server).await;
    assert!(told.iter().any(|event| event["type"] == "job_corrected"), "the truth was taken");
    assert!(nobody_lost(&told).is_err(), "and that somebody was given up is seen");
    executed(&fleet.account(), 1, 1).expect("the command ran once");
    tokio::time::timeout(Duration::from_secs(1), async { fleet.agent().is_running() }).await.expect("it lives on");
}

/// F05: the same call, the same server, and nobody killed. The receiver sees that nothing was cut off.
#[tokio::test]
async fn a_call_that_was_not_cut_off_is_not_taken_for_one() {
    let receiver = Receiver::start();
    let mut server = TestServer::with(Setup { config: mid_request::config(), ..Setup::default() }).await;
    let wish = json!({"type": "http_request", "payload": {"method": "POST", "url": receiver.server.url("/pay")}});
    let job = server.submit(wish).await;
    receiver.is_called().await;
    receiver.let_go();
    let shown = server.until_status(&job, "success").await;
    assert_eq!((receiver.cut(), receiver.server.requests().len()), (0, 1));
    assert!(asked_again(&shown, &receiver.server.requests(), receiver.cut()).is_err());
    assert!(server.stop().await.success());
}
