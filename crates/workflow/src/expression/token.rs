//! An expression's text as tokens, one at a time.
//!
//! The end of a place is found here and not by searching for `}}`: braces within quotes and within objects do not end
//! one.

use serde_json::Number;

use super::{
    error::{ErrorCode, Fault},
    limits::EXPRESSION_BYTES_MAX,
};

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token<'s> {
    Name(&'s str),
    Text(String),
    Number(Number),
    Symbol(&'static str),
    /// The end of the expression, after its `}}` if it has one.
    End,
}

/// What ends an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Braces,
    Text,
}

/// Longer ones first: `==` is not two assignments.
const SYMBOLS: &[&str] = &[
    "==", "!=", "<=", ">=", "//", "**", "<", ">", "+", "-", "*", "/", "%", "~", "(", ")", "[", "]", "{", "}", ",", ":",
    ".", "|",
];

pub(super) struct Tokens<'s> {
    source: &'s str,
    start: usize,
    position: usize,
    ending: Ending,
    open_braces: u32,
}

impl<'s> Tokens<'s> {
    pub fn new(source: &'s str, start: usize, ending: Ending) -> Self {
        Self { source, start, position: start, ending, open_braces: 0 }
    }

    /// Just behind the token that was read last.
    pub fn position(&self) -> usize {
        self.position
    }

    /// The next token, and where it begins.
    pub fn next(&mut self) -> Result<(Token<'s>, u32), Fault> {
        let blank = self.rest().len() - self.rest().trim_start().len();
        self.forward(blank)?;
        let at = self.position;
        let rest = self.rest();
        let token = match rest.chars().next() {
            None if self.ending == Ending::Text => Token::End,
            None => return Err(self.unclosed()),
            Some('}') if self.ends_here() => {
                self.position += 2;
                Token::End
            }
            Some('\'' | '"') => self.text()?,
            Some(first) if first.is_ascii_digit() => self.number()?,
            Some(first) if is_name_start(first) => Token::Name(self.name()?),
            Some(first) => {
                let symbol = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)).ok_or_else(|| {
                    Fault::new(ErrorCode::Syntax, offset(at), format!("`{}` means nothing here", first.escape_debug()))
                })?;
                self.forward(symbol.len())?;
                match *symbol {
                    "{" => self.open_braces += 1,
                    "}" => self.open_braces = self.open_braces.saturating_sub(1),
                    _ => {}
                }
                Token::Symbol(symbol)
            }
        };
        Ok((token, offset(at)))
    }

    /// The part of a path behind a dot: a name, or the number of an element. `a.0.1` has two of them, and no fraction.
    pub fn segment(&mut self) -> Result<Token<'s>, Fault> {
        let rest = self.rest();
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if digits > 0 {
            let index = rest[..digits].parse::<u32>().map_err(|_| {
                Fault::new(ErrorCode::NumberOutOfRange, offset(self.position), "no list has that many elements")
            })?;
            self.forward(digits)?;
            return Ok(Token::Number(index.into()));
        }
        match rest.chars().next() {
            Some(first) if is_name_start(first) => Ok(Token::Name(self.name()?)),
            _ => Err(Fault::new(
                ErrorCode::Syntax,
                offset(self.position),
                "a name or the number of an element must follow the dot; other keys are written as `['…']`",
            )),
        }
    }

    fn rest(&self) -> &'s str {
        &self.source[self.position..]
    }

    fn ends_here(&self) -> bool {
        self.ending == Ending::Braces && self.open_braces == 0 && self.rest().starts_with("}}")
    }

    fn unclosed(&self) -> Fault {
        Fault::new(ErrorCode::UnclosedPlace, offset(self.start.saturating_sub(2)), "`{{` has no `}}`")
    }

    /// Moves on. Everything that grows with the text goes through here, so that a text without an end costs no more
    /// than the longest expression does.
    fn forward(&mut self, bytes: usize) -> Result<(), Fault> {
        self.position += bytes;
        if self.position - self.start > EXPRESSION_BYTES_MAX {
            return Err(Fault::new(
                ErrorCode::ExpressionTooLong,
                offset(self.start),
                format!("an expression has at most {EXPRESSION_BYTES_MAX} bytes"),
            ));
        }
        Ok(())
    }

    fn name(&mut self) -> Result<&'s str, Fault> {
        let rest = self.rest();
        let end = rest.find(|c: char| !is_name_part(c)).unwrap_or(rest.len());
        self.forward(end)?;
        Ok(&rest[..end])
    }

    fn number(&mut self) -> Result<Token<'s>, Fault> {
        let at = offset(self.position);
        let rest = self.rest().as_bytes();
        let digits = |from: usize| rest[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let mut end = digits(0);
        let mut fraction = false;
        if rest.get(end) == Some(&b'.') && digits(end + 1) > 0 {
            end += 1 + digits(end + 1);
            fraction = true;
        }
        if matches!(rest.get(end), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(rest.get(end + 1), Some(b'+' | b'-')));
            let exponent = digits((end + 1 + sign).min(rest.len()));
            if exponent > 0 {
                end += 1 + sign + exponent;
                fraction = true;
            }
        }
        let written = &self.rest()[..end];
        self.forward(end)?;
        if self.rest().starts_with(is_name_start) {
            return Err(Fault::new(ErrorCode::Syntax, at, "a name cannot begin with a digit"));
        }
        let out_of_range = || Fault::new(ErrorCode::NumberOutOfRange, at, "this number is too large");
        let number = if fraction {
            written.parse().ok().and_then(Number::from_f64).ok_or_else(out_of_range)?
        } else {
            written.parse::<u64>().map_err(|_| out_of_range())?.into()
        };
        Ok(Token::Number(number))
    }

    fn text(&mut self) -> Result<Token<'s>, Fault> {
        let at = self.position;
        let quote = self.rest().chars().next().unwrap_or('\'');
        self.forward(1)?;
        let mut text = String::new();
        loop {
            let Some(next) = self.rest().chars().next() else {
                return Err(Fault::new(ErrorCode::Syntax, offset(at), "this text has no closing quote"));
            };
            self.forward(next.len_utf8())?;
            match next {
                c if c == quote => return Ok(Token::Text(text)),
                '\\' => text.push(self.escaped()?),
                c => text.push(c),
            }
        }
    }

    fn escaped(&mut self) -> Result<char, Fault> {
        let at = offset(self.position.saturating_sub(1));
        let unknown = || {
            Fault::new(ErrorCode::Syntax, at, r#"after `\` comes one of `\`, `'`, `"`, `/`, `n`, `r`, `t` or `uXXXX`"#)
        };
        let next = self.rest().chars().next().ok_or_else(unknown)?;
        self.forward(next.len_utf8())?;
        Ok(match next {
            '\\' | '\'' | '"' | '/' => next,
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => {
                let digits = self.rest().get(..4).ok_or_else(unknown)?;
                let all_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
                let code = u32::from_str_radix(digits, 16).ok().filter(|_| all_hex).ok_or_else(unknown)?;
                self.forward(4)?;
                char::from_u32(code).ok_or_else(unknown)?
            }
            _ => return Err(unknown()),
        })
    }
}

/// Letters of all languages: people name their variables in their own.
pub(crate) fn is_name_start(c: char) -> bool {
    c == '_' || c.is_alphabetic()
}

pub(crate) fn is_name_part(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// Offsets are kept small. Whoever compiles a text has checked that it fits.
pub(super) fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
