//! What the server is told about an end that the executor saw.

use bowline_execute::{ChildrenBecame, Ended, EndedAs};
use bowline_model::{ErrorClass, RunError};
use bowline_protocol::{ResultStatus, RunEnd};
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

pub fn run_end(ended: &Ended) -> RunEnd {
    let said = || ended.message.clone();
    let failure = |class, message: String| (ResultStatus::Failure, Some(RunError::new(class, message)));
    let (status, error) = match ended.outcome {
        EndedAs::Succeeded => (ResultStatus::Success, None),
        EndedAs::Canceled => (ResultStatus::Canceled, None),
        // What never ran will not run the next time either.
        EndedAs::Failed if ended.exit_code.is_none() && ended.signal.is_none() => {
            failure(ErrorClass::Permanent, how_it_failed(ended))
        }
        EndedAs::Failed => failure(ErrorClass::Exit, how_it_failed(ended)),
        EndedAs::NotStarted => {
            failure(ErrorClass::Transient, said().unwrap_or_else(|| "it could not be started".to_owned()))
        }
        EndedAs::Unreachable => {
            failure(ErrorClass::Unreachable, said().unwrap_or_else(|| "the host could not be reached".to_owned()))
        }
        EndedAs::TimedOut => {
            failure(ErrorClass::Timeout, said().unwrap_or_else(|| "it took longer than it may".to_owned()))
        }
        EndedAs::Interrupted => {
            failure(ErrorClass::Lost, said().unwrap_or_else(|| "it was started, and nobody saw its end".to_owned()))
        }
    };
    let exit_code = match ended.outcome {
        EndedAs::Succeeded => Some(ended.exit_code.unwrap_or(0)),
        _ => ended.exit_code,
    };
    RunEnd { status, exit_code, result: ended.children.and_then(shown), error, last_seq: ended.last_seq }
}

/// What became of processes that the command left running, as the run shows it.
fn shown((became, count): (ChildrenBecame, usize)) -> Option<Box<RawValue>> {
    let became = match became {
        ChildrenBecame::Ended => "ended",
        ChildrenBecame::Left => "left",
    };
    to_raw_value(&json!({"children": {became: count}})).ok()
}

fn how_it_failed(ended: &Ended) -> String {
    let how = match (ended.exit_code, ended.signal) {
        (Some(code), _) => Some(format!("exit code {code}")),
        (None, Some(signal)) => Some(format!("ended by signal {signal}")),
        (None, None) => None,
    };
    match (how, &ended.message) {
        (Some(how), Some(message)) => format!("{how}; {message}"),
        (Some(how), None) => how,
        (None, Some(message)) => message.clone(),
        (None, None) => "it failed".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    fn ended(outcome: EndedAs, exit_code: Option<i32>, signal: Option<i32>, message: Option<&str>) -> Ended {
        Ended {
            outcome,
            exit_code,
            signal,
            message: message.map(str::to_owned),
            children: None,
            duration_ms: Some(1),
            stdout_bytes: 0,
            stderr_bytes: 0,
            last_seq: 4,
        }
    }

    #[test]
    fn every_end_has_its_words() {
        use EndedAs as E;
        let samples = [
            ended(E::Succeeded, Some(0), None, None),
            ended(E::Succeeded, Some(0), None, Some("processes that it left running: 1")),
            ended(E::Failed, Some(3), None, None),
            ended(E::Failed, Some(3), None, Some("the memory limit ended a process of it")),
            ended(E::Failed, None, Some(9), None),
            ended(E::Failed, None, None, Some("the command could not be started: no such file")),
            ended(E::TimedOut, None, Some(15), Some("it took longer than 5 ms")),
            ended(E::TimedOut, None, Some(9), None),
            ended(E::Canceled, None, Some(15), None),
            ended(E::Interrupted, None, None, Some("its keeper was lost")),
            ended(E::NotStarted, None, None, Some("the session was refused")),
            ended(E::Unreachable, None, None, Some("no answer")),
            ended(E::Unreachable, None, None, None),
        ];
        let mut table = String::new();
        for sample in samples {
            let end = run_end(&sample);
            assert_eq!(end.last_seq, 4);
            let error = end.error.map(|error| format!(" {}: {}", error.class.as_str(), error.message));
            let code = end.exit_code.map_or_else(|| "-".to_owned(), |code| code.to_string());
            writeln!(table, "{:?} {code}{}", end.status, error.unwrap_or_default()).unwrap();
        }
        let left = Ended { children: Some((ChildrenBecame::Left, 2)), ..ended(E::Succeeded, Some(0), None, None) };
        assert_eq!(run_end(&left).result.unwrap().get(), r#"{"children":{"left":2}}"#);
        assert_eq!(
            table,
            "Success 0\n\
             Success 0\n\
             Failure 3 exit: exit code 3\n\
             Failure 3 exit: exit code 3; the memory limit ended a process of it\n\
             Failure - exit: ended by signal 9\n\
             Failure - permanent: the command could not be started: no such file\n\
             Failure - timeout: it took longer than 5 ms\n\
             Failure - timeout: it took longer than it may\n\
             Canceled -\n\
             Failure - lost: its keeper was lost\n\
             Failure - transient: the session was refused\n\
             Failure - unreachable: no answer\n\
             Failure - unreachable: the host could not be reached\n"
        );
    }
}
