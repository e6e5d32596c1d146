//! Server-sent events: bytes in, whole events out.
//!
//! Bytes may be cut anywhere. What is kept between two of them is bounded: an event larger than [`EVENT_BYTES_MAX`] is
//! left out and said to be, whatever the server sends.

/// The largest event that is read.
pub const EVENT_BYTES_MAX: usize = 1024 * 1024;

/// What a stream of bytes turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    Event {
        id: Option<String>,
        kind: String,
        data: String,
    },
    /// An id without an event: the position moved on.
    Position(String),
    /// A sign of life.
    Comment,
    /// How long to wait before connecting again, in milliseconds.
    Retry(u64),
    /// An event was too large and was left out.
    TooLarge {
        id: Option<String>,
    },
}

#[derive(Debug, Default)]
pub struct Parser {
    line: Vec<u8>,
    /// The last byte was a carriage return, whose line feed may still come.
    after_return: bool,
    started: bool,
    id: Option<String>,
    kind: String,
    data: String,
    has_data: bool,
    too_large: bool,
}

impl Parser {
    /// Takes the next bytes and hands over what they complete.
    pub fn push(&mut self, bytes: &[u8], frames: &mut impl FnMut(Frame)) {
        for &byte in bytes {
            match byte {
                b'\n' if self.after_return => self.after_return = false,
                b'\n' | b'\r' => {
                    self.after_return = byte == b'\r';
                    self.end_of_line(frames);
                }
                byte => {
                    self.after_return = false;
                    if self.line.len() < EVENT_BYTES_MAX {
                        self.line.push(byte);
                    } else {
                        self.too_large = true;
                    }
                }
            }
        }
    }

    fn end_of_line(&mut self, frames: &mut impl FnMut(Frame)) {
        let line = std::mem::take(&mut self.line);
        let mut text = String::from_utf8_lossy(&line).into_owned();
        if !self.started {
            self.started = true;
            if let Some(rest) = text.strip_prefix('\u{feff}') {
                text = rest.to_owned();
            }
        }
        if text.is_empty() {
            return self.end_of_event(frames);
        }
        let (field, value) = text.split_once(':').unwrap_or((&text, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "" => frames(Frame::Comment),
            "event" => self.kind = value.to_owned(),
            "data" if self.data.len() + value.len() < EVENT_BYTES_MAX => {
                if self.has_data {
                    self.data.push('\n');
                }
                self.data.push_str(value);
                self.has_data = true;
            }
            "data" => self.too_large = true,
            "id" if !value.contains('\0') => self.id = Some(value.to_owned()),
            "retry" => {
                if let Ok(millis) = value.parse() {
                    frames(Frame::Retry(millis));
                }
            }
            _ => {}
        }
    }

    fn end_of_event(&mut self, frames: &mut impl FnMut(Frame)) {
        let (id, kind, data) = (self.id.take(), std::mem::take(&mut self.kind), std::mem::take(&mut self.data));
        let (has_data, too_large) = (std::mem::take(&mut self.has_data), std::mem::take(&mut self.too_large));
        if too_large {
            frames(Frame::TooLarge { id });
        } else if has_data || !kind.is_empty() {
            frames(Frame::Event { id, kind, data });
        } else if let Some(id) = id {
            frames(Frame::Position(id));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(chunks: &[&[u8]]) -> Vec<Frame> {
        let (mut parser, mut frames) = (Parser::default(), Vec::new());
        for chunk in chunks {
            parser.push(chunk, &mut |frame| frames.push(frame));
        }
        frames
    }

    fn event(id: Option<&str>, kind: &str, data: &str) -> Frame {
        Frame::Event { id: id.map(Into::into), kind: kind.into(), data: data.into() }
    }

    #[test]
    fn an_event_has_an_id_a_kind_and_data() {
        let text = b"id: 0-17\nevent: job_queued\ndata: {\"a\":1}\n\n";
        assert_eq!(parse(&[text]), [event(Some("0-17"), "job_queued", "{\"a\":1}")]);
    }

    #[test]
    fn all_three_line_ends_and_a_mark_at_the_start_are_understood() {
        assert_eq!(parse(&["\u{feff}data: a\r\ndata:b\r\r".as_bytes()]), [event(None, "", "a\nb")]);
        assert_eq!(parse(&[b"data: a\r", b"\n\r", b"\ndata: b\n\n"]), [event(None, "", "a"), event(None, "", "b")]);
    }

    #[test]
    fn comments_positions_and_waits_are_told_apart() {
        let text = b": heartbeat\n\nid: 5\n\nretry: 250\nretry: soon\nunknown: x\n\nevent: reset\n\n";
        assert_eq!(
            parse(&[text]),
            [Frame::Comment, Frame::Position("5".into()), Frame::Retry(250), event(None, "reset", "")]
        );
    }

    #[test]
    fn an_unfinished_event_is_no_event() {
        assert_eq!(parse(&[b"data: a\n"]), []);
    }

    #[test]
    fn what_is_too_large_is_left_out_and_the_rest_goes_on() {
        let (mut parser, mut frames) = (Parser::default(), Vec::new());
        let mut keep = |frame| frames.push(frame);
        parser.push(b"id: 1\ndata: ", &mut keep);
        for _ in 0..40 {
            parser.push(&[b'x'; 64 * 1024], &mut keep);
        }
        assert!(parser.line.capacity() <= 2 * EVENT_BYTES_MAX);
        parser.push(b"\n\ndata: y\n\n", &mut keep);
        for _ in 0..40 {
            parser.push(b"data: ", &mut keep);
            parser.push(&[b'x'; 64 * 1024], &mut keep);
            parser.push(b"\n", &mut keep);
        }
        assert!(parser.data.capacity() <= 2 * EVENT_BYTES_MAX);
        parser.push(b"\n", &mut keep);
        assert_eq!(
            frames,
            [Frame::TooLarge { id: Some("1".into()) }, event(None, "", "y"), Frame::TooLarge { id: None }]
        );
    }

    proptest! {
        #[test]
        fn where_the_bytes_are_cut_does_not_matter(
            text in "((id|event|data|retry|:)?:? ?[a-z0-9é]{0,6}(\n|\r|\r\n)){0,30}", cuts in prop::collection::vec(1usize..9, 0..40)
        ) {
            let whole = parse(&[text.as_bytes()]);
            let mut rest = text.as_bytes();
            let mut chunks = Vec::new();
            for cut in cuts {
                let (head, tail) = rest.split_at(cut.min(rest.len()));
                chunks.push(head);
                rest = tail;
            }
            chunks.push(rest);
            prop_assert_eq!(parse(&chunks), whole);
        }
    }
}
