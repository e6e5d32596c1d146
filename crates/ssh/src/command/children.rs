//! Processes that a command left running: how they are found on the other side, and ended.
//!
//! Enters: the process that was the command, and a text that its environment had. Leaves: a line that finds what is left,
//! ends it if it is to end, and says so; and what was understood of its answer.
//!
//! Nothing of ours is installed there, so there are two marks to go by. sshd makes the command the leader of a session, and
//! whatever it starts is in that session until it leaves it on purpose (`setsid`). And whatever it starts has its
//! environment, which Linux shows to the same user, until a program replaces it. A process that does both is not found.

use std::time::Duration;

use super::shell;

/// So many are named.
const NAMED_MAX: usize = 20;

/// How to look for what a command leaves running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildSearch {
    /// Ends them (SIGTERM, this long, SIGKILL). `None`: they stay, and are named.
    pub end_after: Option<Duration>,
    /// A text that the environment of this command has and that of no other, such as `RUN=17`.
    pub marker: Option<String>,
}

/// Processes that a command left running when it ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeftChildren {
    pub count: usize,
    /// How many had to be killed, because they did not end when they were asked to.
    pub killed: usize,
    /// How many are still there.
    pub remain: usize,
    /// The first of them: process id and name.
    pub processes: Vec<(u32, String)>,
}

/// What is known of the processes that a command left running.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ChildrenSeen {
    /// It was not asked to look.
    #[default]
    NotLooked,
    /// It left none that can be recognised.
    None,
    Found(LeftChildren),
    /// It could not be found out.
    Unknown(String),
}

/// Finds what a command left running. Those that end by themselves within a quarter of a second do not count.
///
/// It prints `found PID NAME` for each, `killed PID` for those that SIGTERM did not end, `remains PID` for those that are
/// there in the end, and `done`. The command itself has ended: if its number belongs to somebody, it was given away since, and
/// sessions of that number are not ours.
const SCRIPT: &str = r#"g=$1 t=$2 e=$3 m=$4
list() {
  if [ -r /proc/self/stat ]; then
    for d in /proc/[0-9]*; do
      { read -r x <"$d/stat"; } 2>/dev/null || continue
      r=${x##*") "}; c=${x#*"("}; c=${c%")"*}
      case $r in [A-Za-z]" "*) ;; *) continue ;; esac
      set -- $r
      echo "${d#/proc/} $3 $4 $1 $c"
    done
  else
    ps -A -o pid= -o pgid= -o pgid= -o stat= -o comm= 2>/dev/null
  fi
}
marked() { [ -z "$m" ] || grep -Fls -e "$m" /proc/[0-9]*/environ 2>/dev/null; }
members() {
  l=$(list); [ -n "$l" ] || exit 2
  k=$(marked)
  o=$(echo "$l" | while read -r p a s z c; do case $p:$z in "$g":[ZX]*) ;; "$g":*) echo -; break ;; esac; done)
  [ -z "$o" ] || g=$o
  echo "$l" | while read -r p a s z c; do
    case $z in [ZX]*) continue ;; esac
    case $k in *"/proc/$p/environ"*) echo "$p $c"; continue ;; esac
    if [ "$a" = "$g" ] || [ "$s" = "$g" ]; then echo "$p $c"; fi
  done
}
signal() { echo "$f" | while read -r p c; do kill -s "$1" "$p" 2>/dev/null; done; }
say() { echo "$f" | while read -r p c; do echo "$1 $p $c"; done; }
pause() { if sleep 0.1 2>/dev/null; then n=$((n - 1)); else sleep 1; n=$((n - 10)); fi; }
none_in() { n=$1; while f=$(members) || exit 2; [ -n "$f" ]; do [ "$n" -gt 0 ] || return 1; pause; done; }
none_in 3 && { echo done; exit 0; }
say found
[ "$e" = 1 ] || { say remains; echo done; exit 0; }
signal TERM
none_in "$t" && { echo done; exit 0; }
say killed
signal KILL
n=30
while f=$(members) || exit 2; [ -n "$f" ]; do [ "$n" -gt 0 ] || break; signal KILL; pause; done
[ -z "$f" ] || say remains
echo done"#;

/// The line that looks for what the command `leader` left running.
pub(crate) fn sweep_line(leader: u32, search: &ChildSearch) -> String {
    let tenths = search.end_after.unwrap_or_default().as_millis().div_ceil(100).to_string();
    let end = if search.end_after.is_some() { "1" } else { "0" };
    let mut line = String::from("exec /bin/sh -c");
    let words = [SCRIPT, "bowline", &leader.to_string(), &tenths, end, search.marker.as_deref().unwrap_or_default()];
    words.iter().for_each(|word| shell::push(&mut line, word));
    line
}

/// What the script says, as it comes.
#[derive(Debug, Default)]
pub(crate) struct Swept {
    text: Vec<u8>,
}

impl Swept {
    /// The script names processes; whatever says more than this is not the script.
    const BYTES_MAX: usize = 1024 * 1024;

    pub fn hear(&mut self, data: &[u8]) {
        let room = Self::BYTES_MAX.saturating_sub(self.text.len());
        self.text.extend_from_slice(&data[..data.len().min(room)]);
    }

    pub fn understood(&self) -> ChildrenSeen {
        let text = String::from_utf8_lossy(&self.text);
        let (mut children, mut done) = (LeftChildren::default(), false);
        for line in text.lines() {
            let mut words = line.splitn(3, ' ');
            let (word, pid, name) = (words.next(), words.next().and_then(|pid| pid.parse().ok()), words.next());
            match (word, pid) {
                (Some("found"), Some(pid)) => {
                    children.count += 1;
                    if children.processes.len() < NAMED_MAX {
                        children.processes.push((pid, name.unwrap_or_default().to_owned()));
                    }
                }
                (Some("killed"), Some(_)) => children.killed += 1,
                (Some("remains"), Some(_)) => children.remain += 1,
                (Some("done"), _) => done = true,
                // What the user's shell says on its start.
                _ => {}
            }
        }
        match done {
            false => ChildrenSeen::Unknown("the host did not answer".to_owned()),
            true if children.count == 0 => ChildrenSeen::None,
            true => ChildrenSeen::Found(children),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn understood(text: &str) -> ChildrenSeen {
        let mut swept = Swept::default();
        text.as_bytes().chunks(3).for_each(|piece| swept.hear(piece));
        swept.understood()
    }

    #[test]
    fn only_a_whole_answer_is_believed() {
        assert_eq!(understood("welcome\ndone\n"), ChildrenSeen::None);
        assert!(matches!(understood("found 7 sleep\n"), ChildrenSeen::Unknown(_)));
        assert!(matches!(understood(""), ChildrenSeen::Unknown(_)));
        let found = LeftChildren {
            count: 2,
            killed: 1,
            remain: 1,
            processes: vec![(7, "sleep".to_owned()), (8, "a b".to_owned())],
        };
        let text = "found 7 sleep\nfound 8 a b\nkilled 8 a b\nremains 8 a b\nfound me\ndone\n";
        assert_eq!(understood(text), ChildrenSeen::Found(found));
    }

    #[test]
    fn the_first_are_named_and_all_are_counted() {
        let text: String = (1..=30).map(|n| format!("found {n} x\n")).chain(["done\n".to_owned()]).collect();
        let ChildrenSeen::Found(children) = understood(&text) else { panic!("they are there") };
        assert_eq!((children.count, children.processes.len()), (30, NAMED_MAX));
    }
}
