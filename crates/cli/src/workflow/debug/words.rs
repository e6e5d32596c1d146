//! What can be said to the debugger, as lines.

use serde_json::Value;

use crate::workflow::run::condition;
use crate::workflow::values::{pair, value};

/// Something that somebody wants from the debugger.
#[derive(Debug, Clone, PartialEq)]
pub enum Wish {
    Step,
    Continue,
    Pause,
    RunTo(String),
    Break { node: String, when: Option<String> },
    Unbreak(String),
    Edit { name: String, value: Value, reason: String },
    Pin { node: String, output: Value },
    Unpin(String),
    Graph,
    Context(Option<String>),
    Steps,
    Fork { step: u32, set: Vec<(String, Value)> },
    Approve(Option<String>),
    Reject { node: Option<String>, reason: String },
    Signal { event: String, payload: Value },
    Wait,
    Cancel,
    Detach,
    Quit,
    Help,
    Nothing,
}

/// Every command, for whoever asks.
pub const HELP: &str = "  s  step                        go on, and stop again after one node
  c  continue                    go on until a breakpoint
  r  run NODE                    go on until this node is next
  b  break NODE [if CONDITION]   stop before a node; unbreak NODE takes that back
  e  edit NAME=VALUE because …   set a variable
  p  pin NODE JSON               let a node give this, without carrying it out; unpin NODE takes that back
  g  graph                       the nodes, and how they stand
  x  context [PATH]              what the run knows
     steps                       what it has done
  f  fork STEP [NAME=VALUE …]    a new run from a step of this one, and on with that
     pause                       stop before the next node
  w  wait                        wait until it continues by itself
     approve [NODE]              say yes to what waits for approval; reject [NODE] because …
     signal EVENT [JSON]         tell it of an event
     cancel                      stop the run for good
  d  detach                      let it go on by itself, and leave
  q  quit                        leave it as it is";

const BECAUSE: &str = " because ";

/// Reads a line.
pub fn read(line: &str) -> Result<Wish, String> {
    let line = line.trim();
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    let needed = |what: &str| if rest.is_empty() { Err(format!("{word}: {what}")) } else { Ok(rest.to_owned()) };
    let maybe = || (!rest.is_empty()).then(|| rest.to_owned());
    Ok(match word {
        "" => Wish::Nothing,
        "s" | "step" => Wish::Step,
        "c" | "continue" => Wish::Continue,
        "pause" => Wish::Pause,
        "r" | "run" | "run-to" => Wish::RunTo(needed("which node?")?),
        "b" | "break" => {
            let rest = needed("which node?")?;
            match rest.split_once(" if ") {
                Some((node, when)) => Wish::Break { node: node.trim().to_owned(), when: Some(condition(when)) },
                None => Wish::Break { node: rest, when: None },
            }
        }
        "unbreak" => Wish::Unbreak(needed("which node?")?),
        "e" | "edit" => {
            let text = needed("say NAME=VALUE because REASON")?;
            let (text, reason) = text.split_once(BECAUSE).ok_or("edit: say why: edit NAME=VALUE because REASON")?;
            let (name, value) = pair(text).map_err(|e| format!("edit: {e}"))?;
            Wish::Edit { name, value, reason: reason.trim().to_owned() }
        }
        "p" | "pin" => {
            let rest = needed("say NODE and its output as JSON")?;
            let (node, output) = rest.split_once(char::is_whitespace).ok_or("pin: say NODE and its output as JSON")?;
            Wish::Pin { node: node.to_owned(), output: value(output.trim()) }
        }
        "unpin" => Wish::Unpin(needed("which node?")?),
        "g" | "graph" => Wish::Graph,
        "x" | "context" => Wish::Context(maybe()),
        "steps" => Wish::Steps,
        "f" | "fork" => {
            let rest = needed("from which step?")?;
            let mut words = rest.split_whitespace();
            let step = words.next().unwrap_or_default();
            let step = step.parse().map_err(|_| format!("fork: {step:?} is not the number of a step"))?;
            let set: Result<Vec<_>, _> = words.map(pair).collect();
            Wish::Fork { step, set: set.map_err(|e| format!("fork: {e}"))? }
        }
        "approve" => Wish::Approve(maybe()),
        "reject" => {
            let text = format!(" {rest}");
            let (node, reason) = text.split_once(BECAUSE).ok_or("reject: say why: reject [NODE] because REASON")?;
            let node = node.trim();
            Wish::Reject { node: (!node.is_empty()).then(|| node.to_owned()), reason: reason.trim().to_owned() }
        }
        "signal" => {
            let rest = needed("which event?")?;
            let (event, payload) = rest.split_once(char::is_whitespace).unwrap_or((&rest, "null"));
            Wish::Signal { event: event.to_owned(), payload: value(payload.trim()) }
        }
        "w" | "wait" => Wish::Wait,
        "cancel" => Wish::Cancel,
        "d" | "detach" => Wish::Detach,
        "q" | "quit" | "exit" => Wish::Quit,
        "?" | "h" | "help" => Wish::Help,
        other => return Err(format!("{other:?} means nothing here; `help` lists what does")),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_are_read() {
        let wish = |line: &str| read(line).unwrap();
        assert_eq!(wish("  step "), Wish::Step);
        assert_eq!(wish(""), Wish::Nothing);
        assert_eq!(wish("break add"), Wish::Break { node: "add".into(), when: None });
        let when = Some("{{ variables.n > 3 }}".to_owned());
        assert_eq!(wish("b add if variables.n > 3"), Wish::Break { node: "add".into(), when });
        let edit = Wish::Edit { name: "n".into(), value: json!(5), reason: "of a test".into() };
        assert_eq!(wish("edit n=5 because of a test"), edit);
        assert_eq!(wish("pin ask {\"ok\": true}"), Wish::Pin { node: "ask".into(), output: json!({"ok": true}) });
        assert_eq!(
            wish("fork 3 n=1 m=a"),
            Wish::Fork { step: 3, set: vec![("n".into(), json!(1)), ("m".into(), json!("a"))] }
        );
        assert_eq!(wish("reject because no"), Wish::Reject { node: None, reason: "no".into() });
        assert_eq!(wish("reject ask because no"), Wish::Reject { node: Some("ask".into()), reason: "no".into() });
        assert_eq!(wish("signal paid"), Wish::Signal { event: "paid".into(), payload: Value::Null });
    }

    #[test]
    fn what_is_missing_is_said() {
        for line in ["break", "edit n=5", "edit n because x", "pin add", "fork", "fork x", "fork 1 n", "reject", "jump"]
        {
            assert!(read(line).is_err(), "{line}");
        }
    }
}
