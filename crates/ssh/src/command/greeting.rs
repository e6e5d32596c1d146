//! The line on standard error by which the preamble says that it runs, and as whom.
//!
//! It is `<nonce> <process id>`, and the nonce is known to nobody but us and the preamble. Before it there may be whatever
//! the user's shell says on its start; that belongs to the output. After it there is only the program.

use bytes::{Bytes, BytesMut};

/// A user's shell that says more than this before the preamble runs is believed to have swallowed it.
const BYTES_MAX: usize = 64 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hello {
    /// The process that becomes the program.
    Process(u32),
    /// The working directory could not be entered, so there is no program.
    NoDirectory,
}

/// Looks for the greeting in standard error, and takes it out.
pub(crate) struct Greeting {
    nonce: String,
    seen: BytesMut,
    /// Where it begins in what was seen, once that is known.
    start: Option<usize>,
    done: bool,
}

impl Greeting {
    pub fn new(nonce: String) -> Self {
        Self { nonce, seen: BytesMut::new(), start: None, done: false }
    }

    /// Takes a piece of standard error; gives what of it is output, and the greeting if this completed it. While it is
    /// looked for, output that may still be part of it is held back.
    pub fn sift(&mut self, data: Bytes) -> (Bytes, Option<Hello>) {
        if self.done {
            return (data, None);
        }
        // What was looked through before can only hold the beginning of it.
        let from = self.seen.len().saturating_sub(self.nonce.len());
        self.seen.extend_from_slice(&data);
        let found = self.start.or_else(|| find(&self.seen[from..], self.nonce.as_bytes()).map(|at| from + at));
        self.start = found;
        let Some(start) = found else {
            return (if self.seen.len() > BYTES_MAX { self.give_up() } else { Bytes::new() }, None);
        };
        let Some(length) = self.seen[start..].iter().position(|byte| *byte == b'\n') else {
            return (if self.seen.len() > BYTES_MAX { self.give_up() } else { Bytes::new() }, None);
        };
        let word = String::from_utf8_lossy(&self.seen[start + self.nonce.len()..start + length]).trim().to_owned();
        let hello = match word.as_str() {
            "cd" => Some(Hello::NoDirectory),
            // No group has the numbers 0 and 1; to signal those would be to signal others.
            word => word.parse().ok().filter(|pid| *pid > 1).map(Hello::Process),
        };
        let mut output = self.seen.split_to(start);
        let _greeting = self.seen.split_to(length + 1);
        output.unsplit(self.seen.split());
        self.done = true;
        (output.freeze(), hello)
    }

    /// No greeting will come any more: gives what was held back.
    pub fn give_up(&mut self) -> Bytes {
        self.done = true;
        self.seen.split().freeze()
    }
}

fn find(text: &[u8], word: &[u8]) -> Option<usize> {
    text.windows(word.len()).position(|window| window == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All of the output and the greeting, with the input cut into pieces of one size.
    fn sifted(text: &str, size: usize) -> (String, Option<Hello>) {
        let mut greeting = Greeting::new("n0nce".to_owned());
        let (mut output, mut found) = (Vec::new(), None);
        for piece in text.as_bytes().chunks(size) {
            let (piece, hello) = greeting.sift(Bytes::copy_from_slice(piece));
            output.extend_from_slice(&piece);
            found = found.or(hello);
        }
        output.extend_from_slice(&greeting.give_up());
        (String::from_utf8(output).unwrap(), found)
    }

    #[test]
    fn it_is_found_however_the_output_is_cut() {
        for size in 1..40 {
            assert_eq!(sifted("n0nce 77\nout\n", size), ("out\n".to_owned(), Some(Hello::Process(77))));
            assert_eq!(sifted("motd\nn0nce 77\nout", size), ("motd\nout".to_owned(), Some(Hello::Process(77))));
            assert_eq!(sifted("n0nce cd\n", size), (String::new(), Some(Hello::NoDirectory)));
            assert_eq!(sifted("n0nc no greeting n0nce", size), ("n0nc no greeting n0nce".to_owned(), None));
        }
    }

    #[test]
    fn a_second_one_is_output() {
        assert_eq!(sifted("n0nce 77\nn0nce 78\n", 3), ("n0nce 78\n".to_owned(), Some(Hello::Process(77))));
    }

    #[test]
    fn a_number_that_would_hit_others_is_not_believed() {
        assert_eq!(sifted("n0nce 1\n", 99).1, None);
        assert_eq!(sifted("n0nce -5\n", 99).1, None);
    }

    #[test]
    fn it_is_not_looked_for_without_end() {
        let noise = "x".repeat(BYTES_MAX + 1);
        let mut greeting = Greeting::new("n0nce".to_owned());
        let (output, _) = greeting.sift(Bytes::from(noise.clone()));
        assert_eq!(output.len(), noise.len());
        assert_eq!(greeting.sift("n0nce 77\n".into()), ("n0nce 77\n".into(), None));
    }
}
