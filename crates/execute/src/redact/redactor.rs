//! Replaces secrets in a stream, however it is cut into pieces.
//!
//! Enters: bytes, as a command wrote them. Leaves: the same bytes, each run of bytes that belong to a form of a secret
//! replaced by [`MARK`]. One pass, one automaton for all forms. Held back is only an end that may still become a form: as
//! little as nothing, never more than the longest form less one byte.

use std::collections::HashMap;
use std::sync::Arc;

use aho_corasick::automaton::{Automaton, StateID};
use aho_corasick::nfa::contiguous;
use aho_corasick::{Anchored, MatchKind, StartKind, dfa};

use super::forms::forms;

pub const MARK: &[u8] = b"***";

/// Up to this many bytes of forms the fast automaton takes less than a megabyte.
const FAST_MAX_BYTES: usize = 2_048;

/// One for each stream. A clone has its own place in its own stream, and shares the automaton.
#[derive(Clone)]
pub struct Redactor {
    machine: Option<Arc<Machine>>,
    /// Where the automaton is.
    state: StateID,
    /// What may still become a form. Its first byte is the stream's byte number `held_from`.
    held: Vec<u8>,
    held_from: u64,
    /// Stretches that belong to forms and were not written yet, in order.
    covered: Vec<(u64, u64)>,
    /// Where the stretch ended that was marked last. What begins there or before belongs to it.
    marked_to: Option<u64>,
}

struct Machine {
    automaton: Automata,
    learned: Learned,
}

/// What an automaton does not tell of itself.
struct Learned {
    start: StateID,
    /// Bytes that lead away from the start. All others can be skipped there.
    leaves_start: [bool; 256],
    /// How many of the last bytes a state remembers. Whatever is older is decided.
    depth: HashMap<StateID, usize>,
}

enum Automata {
    Fast(dfa::DFA),
    Small(contiguous::NFA),
}

impl Redactor {
    /// A redactor for these values. Values shorter than [`VALUE_MIN_BYTES`](super::VALUE_MIN_BYTES) are ignored.
    pub fn new<'a>(values: impl IntoIterator<Item = &'a str>) -> Self {
        let mut needles: Vec<_> = values.into_iter().flat_map(forms).collect();
        needles.sort();
        needles.dedup();
        let machine = (!needles.is_empty()).then(|| Arc::new(Machine::new(&needles)));
        let state = machine.as_ref().map_or(StateID::ZERO, |machine| machine.learned.start);
        Self { machine, state, held: Vec::new(), held_from: 0, covered: Vec::new(), marked_to: None }
    }

    /// True if there is nothing to look for. Bytes may then pass by.
    pub fn is_idle(&self) -> bool {
        self.machine.is_none()
    }

    /// Takes the next bytes, and appends to `clean` what is decided by now.
    pub fn push(&mut self, bytes: &[u8], clean: &mut Vec<u8>) {
        let Some(machine) = &self.machine else {
            clean.extend_from_slice(bytes);
            return;
        };
        let from = self.held_from + self.held.len() as u64;
        self.state = machine.walk(self.state, bytes, from, &mut self.covered);
        let undecided = machine.learned.depth.get(&self.state).copied().unwrap_or(0);
        self.held.extend_from_slice(bytes);
        self.release(from + bytes.len() as u64 - undecided as u64, clean);
    }

    /// The stream is at its end: nothing can become a form any more.
    pub fn finish(&mut self, clean: &mut Vec<u8>) {
        self.release(self.held_from + self.held.len() as u64, clean);
        if let Some(machine) = &self.machine {
            self.state = machine.learned.start;
        }
    }

    /// Writes everything before `until`, with marks for what is covered.
    fn release(&mut self, until: u64, clean: &mut Vec<u8>) {
        let held = &self.held;
        let held_from = self.held_from;
        let part = |from: u64, to: u64| {
            let index = |at: u64| usize::try_from(at - held_from).expect("what is held fits into memory");
            &held[index(from)..index(to)]
        };
        let mut at = held_from;
        let mut waiting = Vec::new();
        for (start, end) in self.covered.drain(..) {
            if start >= until {
                waiting.push((start, end));
                continue;
            }
            if start > at {
                clean.extend_from_slice(part(at, start));
            }
            if self.marked_to.is_none_or(|marked| start > marked) {
                clean.extend_from_slice(MARK);
            }
            self.marked_to = Some(end.max(self.marked_to.unwrap_or(0)));
            at = at.max(end.min(until));
            if end > until {
                waiting.push((until, end));
            }
        }
        if until > at {
            clean.extend_from_slice(part(at, until));
        }
        let decided = usize::try_from(until - held_from).expect("what is held fits into memory");
        self.held.drain(..decided);
        self.held_from = until;
        self.covered = waiting;
    }
}

impl Learned {
    fn of(automaton: &impl Automaton, needles: &[Vec<u8>]) -> Self {
        let start = automaton.start_state(Anchored::No).expect("built for searches that may begin anywhere");
        let mut leaves_start = [false; 256];
        for byte in 0..=255u8 {
            leaves_start[usize::from(byte)] = automaton.next_state(Anchored::No, start, byte) != start;
        }
        // A beginning of a form leads to the state that stands for just this beginning, so its length is the depth.
        let mut depth = HashMap::new();
        for needle in needles {
            let mut state = start;
            for (index, byte) in needle.iter().enumerate() {
                state = automaton.next_state(Anchored::No, state, *byte);
                depth.insert(state, index + 1);
            }
        }
        Self { start, leaves_start, depth }
    }
}

impl Machine {
    fn new(needles: &[Vec<u8>]) -> Self {
        // Built from our own forms: few, short, never empty. The limits of the automata are gigabytes away.
        const BUILT: &str = "forms of secrets fit into an automaton";
        if needles.iter().map(Vec::len).sum::<usize>() <= FAST_MAX_BYTES {
            let mut builder = dfa::DFA::builder();
            builder.match_kind(MatchKind::Standard).start_kind(StartKind::Unanchored).prefilter(false);
            let automaton = builder.build(needles).expect(BUILT);
            let learned = Learned::of(&automaton, needles);
            Self { automaton: Automata::Fast(automaton), learned }
        } else {
            let mut builder = contiguous::NFA::builder();
            builder.match_kind(MatchKind::Standard).prefilter(false);
            let automaton = builder.build(needles).expect(BUILT);
            let learned = Learned::of(&automaton, needles);
            Self { automaton: Automata::Small(automaton), learned }
        }
    }

    fn walk(&self, state: StateID, bytes: &[u8], from: u64, covered: &mut Vec<(u64, u64)>) -> StateID {
        match &self.automaton {
            Automata::Fast(automaton) => self.walk_with(automaton, state, bytes, from, covered),
            Automata::Small(automaton) => self.walk_with(automaton, state, bytes, from, covered),
        }
    }

    fn walk_with(
        &self,
        automaton: &impl Automaton,
        mut state: StateID,
        bytes: &[u8],
        from: u64,
        covered: &mut Vec<(u64, u64)>,
    ) -> StateID {
        let mut index = 0;
        while index < bytes.len() {
            if state == self.learned.start {
                match bytes[index..].iter().position(|byte| self.learned.leaves_start[usize::from(*byte)]) {
                    Some(skipped) => index += skipped,
                    None => return state,
                }
            }
            state = automaton.next_state(Anchored::No, state, bytes[index]);
            index += 1;
            if automaton.is_special(state) && automaton.is_match(state) {
                let matches = (0..automaton.match_len(state)).map(|which| automaton.match_pattern(state, which));
                let longest = matches.map(|pattern| automaton.pattern_len(pattern)).max().unwrap_or(0);
                let end = from + index as u64;
                cover(covered, end - longest as u64, end);
            }
        }
        state
    }
}

/// Adds a stretch, which ends behind all others but may begin before them.
fn cover(covered: &mut Vec<(u64, u64)>, mut start: u64, end: u64) {
    while let Some((last_start, _)) = covered.pop_if(|(_, last_end)| *last_end >= start) {
        start = start.min(last_start);
    }
    covered.push((start, end));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn redact(values: &[&str], pieces: &[&[u8]]) -> Vec<u8> {
        let mut redactor = Redactor::new(values.iter().copied());
        let mut clean = Vec::new();
        for piece in pieces {
            redactor.push(piece, &mut clean);
        }
        redactor.finish(&mut clean);
        clean
    }

    fn text(values: &[&str], pieces: &[&str]) -> String {
        let pieces: Vec<_> = pieces.iter().map(|piece| piece.as_bytes()).collect();
        String::from_utf8(redact(values, &pieces)).unwrap()
    }

    #[test]
    fn secrets_are_replaced_also_across_writes() {
        assert_eq!(text(&["hunter22"], &["pass hunter22!"]), "pass ***!");
        assert_eq!(text(&["hunter22"], &["pass hun", "ter", "22!"]), "pass ***!");
        assert_eq!(text(&["hunter22"], &["pass hunter2"]), "pass hunter2");
        assert_eq!(text(&["hunter22"], &["aHVudGVyMjI="]), "***");
        assert_eq!(text(&[], &["pass hunter22!"]), "pass hunter22!");
        assert_eq!(text(&["abc"], &["abc"]), "abc");
    }

    #[test]
    fn overlapping_and_touching_secrets_leave_nothing_between_them() {
        assert_eq!(text(&["abcd", "cdef"], &["<abc", "def>"]), "<***>");
        assert_eq!(text(&["bcde", "abcdef"], &["xabcdefx"]), "x***x");
        assert_eq!(text(&["bcde", "abcdef"], &["xabcd", "exx"]), "xa***xx");
        assert_eq!(text(&["abcd"], &["abcd", "abcd"]), "***");
        assert_eq!(text(&["aaaa"], &["aaaaa", "aa"]), "***");
    }

    #[test]
    fn what_cannot_become_a_secret_is_not_held_back() {
        let mut redactor = Redactor::new(["a rather long secret that nobody would ever guess"]);
        let mut clean = Vec::new();
        redactor.push(b"step 1 done\n", &mut clean);
        assert_eq!(clean, b"step 1 done\n");
        redactor.push(b"step 2: a rather long", &mut clean);
        assert_eq!(clean, b"step 1 done\nstep 2: ");
        redactor.push(b" time\n", &mut clean);
        assert_eq!(clean, b"step 1 done\nstep 2: a rather long time\n");
    }

    fn find(haystack: &[u8], needle: &[u8]) -> bool {
        haystack.windows(needle.len()).any(|part| part == needle)
    }

    /// The same rule, said naively: every byte that belongs to any form is covered.
    fn expected(values: &[String], bytes: &[u8]) -> Vec<u8> {
        let mut covered = vec![false; bytes.len()];
        for form in values.iter().flat_map(|value| forms(value)) {
            for at in 0..(bytes.len() + 1).saturating_sub(form.len()) {
                if bytes[at..].starts_with(&form) {
                    covered[at..at + form.len()].fill(true);
                }
            }
        }
        let mut clean = Vec::new();
        for (at, byte) in bytes.iter().enumerate() {
            match covered[at] {
                false => clean.push(*byte),
                true if at == 0 || !covered[at - 1] => clean.extend_from_slice(MARK),
                true => {}
            }
        }
        clean
    }

    /// Values from a small alphabet overlap themselves and each other; values from a large one do not.
    fn value() -> impl Strategy<Value = String> {
        prop_oneof!["[ab]{4,9}", "[a-zA-Z0-9/+@ %&\"\\\\\n<ö]{4,40}", "[a-z]{300,400}"]
    }

    fn splits(bytes: &[u8], cuts: &[prop::sample::Index]) -> Vec<Vec<u8>> {
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        cuts.windows(2).map(|pair| bytes[pair[0]..pair[1]].to_vec()).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        #[test]
        fn no_form_survives_and_all_else_is_unchanged(
            values in prop::collection::vec(value(), 1..4),
            noise in prop::collection::vec("[abcx \n=%]{0,12}", 8),
            picks in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 8),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let mut bytes = Vec::new();
            for (noise, (which, form)) in noise.iter().zip(&picks) {
                bytes.extend_from_slice(noise.as_bytes());
                let forms = forms(&values[which.index(values.len())]);
                if !forms.is_empty() {
                    bytes.extend_from_slice(&forms[form.index(forms.len())]);
                }
            }
            let pieces = splits(&bytes, &cuts);
            let values_ref: Vec<_> = values.iter().map(String::as_str).collect();
            let pieces_ref: Vec<_> = pieces.iter().map(Vec::as_slice).collect();
            let clean = redact(&values_ref, &pieces_ref);
            prop_assert_eq!(&clean, &expected(&values, &bytes));
            for form in values.iter().flat_map(|value| forms(value)) {
                prop_assert!(!find(&clean, &form));
            }
        }
    }
}
