//! Headers that callers set: which they may, and which go along when a redirect leads to somebody else.

use reqwest::header::{self as names, HeaderMap, HeaderName, HeaderValue};

/// Why a header cannot be sent. The value is not repeated: it may be a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadHeader {
    #[error("{0:?} is not the name of a header")]
    Name(String),
    #[error("header {0} is set by Bowline itself")]
    Ours(String),
    #[error("the value of header {0} has a line break or another character that no header may have")]
    Value(String),
}

/// They say where a message ends, to whom it goes, or what becomes of the connection. Compression is among them because an
/// answer is never unpacked: what a small answer becomes when it is unpacked is somebody else's choice.
const OURS: [HeaderName; 11] = [
    names::HOST,
    names::CONTENT_LENGTH,
    names::TRANSFER_ENCODING,
    names::CONNECTION,
    names::UPGRADE,
    names::TE,
    names::TRAILER,
    names::EXPECT,
    names::ACCEPT_ENCODING,
    names::PROXY_AUTHORIZATION,
    names::PROXY_AUTHENTICATE,
];
const OURS_TOO: [&str; 3] = ["keep-alive", "proxy-connection", "http2-settings"];

/// A header that may be sent.
pub fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), BadHeader> {
    let shown = || name.chars().take(64).collect::<String>();
    let known = HeaderName::from_bytes(name.as_bytes()).map_err(|_| BadHeader::Name(shown()))?;
    if OURS.contains(&known) || OURS_TOO.contains(&known.as_str()) {
        return Err(BadHeader::Ours(known.to_string()));
    }
    let value = HeaderValue::from_str(value).map_err(|_| BadHeader::Value(known.to_string()))?;
    Ok((known, value))
}

/// What a stranger may see. Everything else was meant for whoever was called first, `x-api-key` no less than
/// `authorization`; nobody can list the names that people give to their keys.
pub(super) fn for_strangers(headers: &HeaderMap) -> HeaderMap {
    let kept = ["accept", "accept-language", "user-agent", "idempotency-key", "bowline-fence"];
    let harmless = headers.iter().filter(|(name, value)| kept.contains(&name.as_str()) && !value.is_sensitive());
    harmless.map(|(name, value)| (name.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// B090.
    #[test]
    fn a_header_cannot_break_the_message() {
        for (name, value) in
            [("x-a", "b"), ("Authorization", "Bearer x"), ("x-a", ""), ("x-a", "größe"), ("cookie", "a=b")]
        {
            assert!(header(name, value).is_ok(), "{name}: {value}");
        }
        for name in ["", "a b", "a\r\nhost", "a:b", "größe"] {
            assert_eq!(header(name, "x"), Err(BadHeader::Name(name.to_owned())), "{name:?}");
        }
        for value in ["a\r\nx-evil: 1", "a\nb", "a\rb", "a\0b", "a\u{7f}b"] {
            assert_eq!(header("X-A", value), Err(BadHeader::Value("x-a".to_owned())), "{value:?}");
        }
        for name in ["Host", "Content-Length", "TRANSFER-ENCODING", "connection", "Keep-Alive", "accept-encoding"] {
            assert_eq!(header(name, "x"), Err(BadHeader::Ours(name.to_lowercase())), "{name}");
        }
    }
}
