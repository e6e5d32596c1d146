//! Reading along in one PostgreSQL connection: just enough of protocol 3 to know a COMMIT and its answer.
//!
//! Enters: bytes as they come, cut anywhere. Leaves: whole messages to pass on, and whether the connection breaks after
//! them. What cannot be read (TLS, something that is not PostgreSQL after all) passes untouched.

use std::collections::{HashMap, VecDeque};

use bytes::{Buf, Bytes, BytesMut};

use super::commit_faults::{CommitFaults, Fate};

const CANCEL_REQUEST: u32 = 80_877_102;
const SSL_REQUEST: u32 = 80_877_103;
const GSS_REQUEST: u32 = 80_877_104;

/// No honest peer sends longer messages; beyond it we are not reading PostgreSQL.
const LENGTH_MAX: u32 = 1 << 30;
/// The same for the startup, where the server itself sets this limit.
const STARTUP_LENGTH_MAX: u32 = 10_000;

pub(super) struct Passed {
    pub bytes: Bytes,
    pub then_break: bool,
}

/// What the server still owes an answer to, in the order it was asked.
#[derive(Debug, PartialEq, Eq)]
enum Awaited {
    Commit(Fate),
    /// ReadyForQuery: everything asked before it is settled, also what an error made the server skip.
    Ready,
}

pub(super) struct Session<'a> {
    faults: &'a CommitFaults,
    client: BytesMut,
    server: BytesMut,
    started: bool,
    /// The client asked for encryption; the server answers with one naked byte.
    encryption_asked: bool,
    opaque: bool,
    /// Prepared statements and portals by name, and whether they are a COMMIT.
    statements: HashMap<Bytes, bool>,
    portals: HashMap<Bytes, bool>,
    awaited: VecDeque<Awaited>,
}

impl<'a> Session<'a> {
    pub fn new(faults: &'a CommitFaults) -> Self {
        Self {
            faults,
            client: BytesMut::new(),
            server: BytesMut::new(),
            started: false,
            encryption_asked: false,
            opaque: false,
            statements: HashMap::new(),
            portals: HashMap::new(),
            awaited: VecDeque::new(),
        }
    }

    pub fn read_client(&mut self, bytes: &[u8]) -> Passed {
        self.client.extend_from_slice(bytes);
        let mut out = BytesMut::new();
        while !self.opaque {
            let message = if self.started { typed(&mut self.client) } else { untyped(&mut self.client) };
            let Some(message) = message.unwrap_or_else(|_| self.give_up()) else { break };
            let commits = if self.started {
                self.typed_by_client(message[0], message.slice(5..))
            } else {
                self.startup(&message);
                false
            };
            if commits {
                let fate = self.faults.decide();
                if fate == Fate::Fail {
                    return Passed { bytes: out.freeze(), then_break: true };
                }
                // A simple query has already asked for its ReadyForQuery, which comes after the answer.
                let before = self.awaited.len() - usize::from(message[0] == b'Q');
                self.awaited.insert(before, Awaited::Commit(fate));
            }
            out.extend_from_slice(&message);
        }
        if self.opaque {
            out.unsplit(self.client.split());
        }
        Passed { bytes: out.freeze(), then_break: false }
    }

    pub fn read_server(&mut self, bytes: &[u8]) -> Passed {
        self.server.extend_from_slice(bytes);
        let mut out = BytesMut::new();
        while !self.opaque {
            if self.encryption_asked {
                let Some(answer) = self.server.first().copied() else { break };
                self.encryption_asked = false;
                match answer {
                    b'N' => out.extend_from_slice(&self.server.split_to(1)),
                    b'S' | b'G' => self.opaque = true,
                    // An old server's error is a message like any other.
                    _ => {}
                }
                continue;
            }
            let Some(message) = typed(&mut self.server).unwrap_or_else(|_| self.give_up()) else { break };
            match message[0] {
                b'C' if message.slice(5..) == b"COMMIT\0"[..] && self.committed() => {
                    self.faults.answer_was_dropped();
                    return Passed { bytes: out.freeze(), then_break: true };
                }
                b'Z' => self.settle(),
                _ => {}
            }
            out.extend_from_slice(&message);
        }
        if self.opaque {
            out.unsplit(self.server.split());
        }
        Passed { bytes: out.freeze(), then_break: false }
    }

    fn startup(&mut self, message: &Bytes) {
        match message.slice(4..).try_get_u32().unwrap_or_default() {
            SSL_REQUEST | GSS_REQUEST => self.encryption_asked = true,
            CANCEL_REQUEST => self.opaque = true,
            _ => {
                self.started = true;
                self.awaited.push_back(Awaited::Ready);
            }
        }
    }

    /// Whether this message asks the server to commit.
    fn typed_by_client(&mut self, kind: u8, mut body: Bytes) -> bool {
        match kind {
            b'Q' => {
                self.awaited.push_back(Awaited::Ready);
                return ends_in_commit(&text(&mut body));
            }
            // Sync, and the old function call.
            b'S' | b'F' => self.awaited.push_back(Awaited::Ready),
            b'P' => {
                let name = text(&mut body);
                let commits = ends_in_commit(&text(&mut body));
                self.statements.insert(name, commits);
            }
            b'B' => {
                let portal = text(&mut body);
                let commits = self.statements.get(&text(&mut body)).copied().unwrap_or(false);
                self.portals.insert(portal, commits);
            }
            b'E' => return self.portals.get(&text(&mut body)).copied().unwrap_or(false),
            b'C' => {
                let closed = if body.try_get_u8() == Ok(b'S') { &mut self.statements } else { &mut self.portals };
                closed.remove(&text(&mut body));
            }
            _ => {}
        }
        false
    }

    /// The server has committed. Whether the answer is to be dropped.
    fn committed(&mut self) -> bool {
        let Some(first) = self.awaited.iter().position(|awaited| matches!(awaited, Awaited::Commit(_))) else {
            return false;
        };
        matches!(self.awaited.remove(first), Some(Awaited::Commit(Fate::DropAnswer { .. })))
    }

    /// All that was asked up to here is answered. A COMMIT among it that was not answered so has failed.
    fn settle(&mut self) {
        while let Some(Awaited::Commit(fate)) = self.awaited.pop_front() {
            self.faults.give_back(fate);
        }
    }

    fn give_up(&mut self) -> Option<Bytes> {
        self.opaque = true;
        None
    }
}

/// A connection that ends with a fault not yet carried out leaves it to the next one.
impl Drop for Session<'_> {
    fn drop(&mut self) {
        for awaited in self.awaited.drain(..) {
            if let Awaited::Commit(fate) = awaited {
                self.faults.give_back(fate);
            }
        }
    }
}

/// This is no PostgreSQL message.
struct Unreadable;

/// The next whole message after the startup: a letter, a length that counts itself, a body.
fn typed(buffer: &mut BytesMut) -> Result<Option<Bytes>, Unreadable> {
    take(buffer, 1, LENGTH_MAX)
}

/// The next whole message of the startup, which has no letter.
fn untyped(buffer: &mut BytesMut) -> Result<Option<Bytes>, Unreadable> {
    take(buffer, 0, STARTUP_LENGTH_MAX)
}

fn take(buffer: &mut BytesMut, letters: usize, length_max: u32) -> Result<Option<Bytes>, Unreadable> {
    let Some(mut head) = buffer.get(letters..letters + 4) else { return Ok(None) };
    let length = head.get_u32();
    if !(4..=length_max).contains(&length) {
        return Err(Unreadable);
    }
    let whole = letters + length as usize;
    Ok((buffer.len() >= whole).then(|| buffer.split_to(whole).freeze()))
}

/// The next text, without its closing zero.
fn text(body: &mut Bytes) -> Bytes {
    let end = body.iter().position(|byte| *byte == 0).unwrap_or(body.len());
    let text = body.split_to(end);
    body.advance(body.len().min(1));
    text
}

/// Whether the last statement of the text is a COMMIT.
fn ends_in_commit(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text).to_ascii_uppercase();
    let last = text.rsplit(';').map(str::trim).find(|statement| !statement.is_empty()).unwrap_or_default();
    let words: Vec<&str> = last.split_whitespace().collect();
    // Not the synonym END: it is also the last word of a function's body.
    matches!(words.as_slice(), ["COMMIT"] | ["COMMIT", "WORK" | "TRANSACTION"])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap();
        [&[kind], &length.to_be_bytes()[..], body].concat()
    }

    /// A session past its startup, with nothing owed by the server.
    fn started(faults: &CommitFaults) -> Session<'_> {
        let mut session = Session::new(faults);
        let startup = [&9_u32.to_be_bytes()[..], &196_608_u32.to_be_bytes(), b"\0"].concat();
        assert_eq!(session.read_client(&startup).bytes, startup);
        session.read_server(&message(b'Z', b"I"));
        assert!(session.started && session.awaited.is_empty());
        session
    }

    #[test]
    fn commits_are_known_in_every_spelling() {
        for text in ["COMMIT", "commit;", " Commit Work ; ", "commit\ntransaction", "insert into t; commit;"] {
            assert!(ends_in_commit(text.as_bytes()), "{text}");
        }
        for text in ["", ";", "COMMIT PREPARED 'x'", "rollback", "select 'commit'", "commit; select 1"] {
            assert!(!ends_in_commit(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn messages_cut_anywhere_pass_whole_and_unchanged() {
        let faults = CommitFaults::default();
        let stream = [message(b'Q', b"begin\0"), message(b'Q', b"COMMIT\0"), message(b'S', b"")].concat();
        for size in 1..stream.len() {
            let mut session = started(&faults);
            let passed: Vec<u8> = stream.chunks(size).flat_map(|piece| session.read_client(piece).bytes).collect();
            assert_eq!(passed, stream, "in pieces of {size}");
        }
    }

    #[test]
    fn the_answer_to_a_simple_commit_is_swallowed_and_what_came_before_passes() {
        let faults = CommitFaults::default();
        faults.drop_next(1);
        let mut session = started(&faults);
        session.read_client(&message(b'Q', b"insert; commit\0"));
        let before = message(b'C', b"INSERT 0 1\0");
        let passed = session.read_server(&[&before[..], &message(b'C', b"COMMIT\0"), &message(b'Z', b"I")].concat());
        assert_eq!((passed.bytes.as_ref(), passed.then_break), (&before[..], true));
        assert_eq!(faults.answers_dropped(), 1);
    }

    #[test]
    fn an_extended_commit_is_known_by_its_statement() {
        let faults = CommitFaults::default();
        let mut session = started(&faults);
        let prepare = [message(b'P', b"s1\0COMMIT\0\0\0"), message(b'S', b"")].concat();
        assert!(!session.read_client(&prepare).then_break);
        faults.fail_next(1);
        let bind = message(b'B', b"\0s1\0\0\0\0\0\0\0");
        let run = [&bind[..], &message(b'E', b"\0\0\0\0\0")].concat();
        let passed = session.read_client(&run);
        assert_eq!((passed.bytes.as_ref(), passed.then_break), (&bind[..], true));
        assert_eq!(faults.commits_failed(), 1);
    }

    #[test]
    fn a_closed_statement_is_forgotten() {
        let faults = CommitFaults::default();
        faults.fail_next(1);
        let mut session = started(&faults);
        let stream = [
            message(b'P', b"s1\0COMMIT\0\0\0"),
            message(b'C', b"Ss1\0"),
            message(b'B', b"\0s1\0\0\0\0\0\0\0"),
            message(b'E', b"\0\0\0\0\0"),
        ];
        assert!(!session.read_client(&stream.concat()).then_break);
    }

    #[test]
    fn a_commit_that_did_not_commit_leaves_the_fault_to_the_next_one() {
        let faults = CommitFaults::default();
        faults.drop_next(1);
        let mut session = started(&faults);
        session.read_client(&message(b'Q', b"COMMIT\0"));
        let rolled_back = [message(b'C', b"ROLLBACK\0"), message(b'Z', b"I")].concat();
        let passed = session.read_server(&rolled_back);
        assert_eq!((passed.bytes.as_ref(), passed.then_break), (&rolled_back[..], false));
        session.read_client(&message(b'Q', b"COMMIT\0"));
        assert!(session.read_server(&message(b'C', b"COMMIT\0")).then_break);
        assert_eq!(faults.answers_dropped(), 1);
    }

    #[test]
    fn of_two_commits_under_way_the_right_one_loses_its_answer() {
        let faults = CommitFaults::default();
        let mut session = started(&faults);
        session.read_client(&message(b'Q', b"COMMIT\0"));
        faults.drop_next(1);
        session.read_client(&message(b'Q', b"COMMIT\0"));
        let answer = [message(b'C', b"COMMIT\0"), message(b'Z', b"I")].concat();
        assert!(!session.read_server(&answer).then_break);
        assert!(session.read_server(&answer).then_break);
    }

    #[test]
    fn a_forgotten_fault_is_not_given_back() {
        let faults = CommitFaults::default();
        faults.drop_next(1);
        let mut session = started(&faults);
        session.read_client(&message(b'Q', b"COMMIT\0"));
        faults.forget();
        drop(session);
        assert_eq!(faults.decide(), Fate::Pass);
    }

    #[test]
    fn a_refused_encryption_goes_on_in_the_clear_and_a_granted_one_passes_unread() {
        let faults = CommitFaults::default();
        let ask = [8_u32.to_be_bytes(), SSL_REQUEST.to_be_bytes()].concat();
        let mut refused = Session::new(&faults);
        refused.read_client(&ask);
        assert_eq!(refused.read_server(b"N").bytes, "N");
        assert!(!refused.opaque);
        let mut granted = Session::new(&faults);
        granted.read_client(&ask);
        assert_eq!(granted.read_server(b"S").bytes, "S");
        assert_eq!(granted.read_client(b"\x16\x03\x01").bytes, &b"\x16\x03\x01"[..]);
    }

    #[test]
    fn what_is_not_postgresql_passes_unread() {
        let faults = CommitFaults::default();
        let mut session = Session::new(&faults);
        assert_eq!(session.read_client(b"GET / HTTP/1.1\r\n").bytes, "GET / HTTP/1.1\r\n");
        let mut session = Session::new(&faults);
        assert_eq!(session.read_client(b"\x16\x03\x01\x02").bytes, &b"\x16\x03\x01\x02"[..]);
    }
}
