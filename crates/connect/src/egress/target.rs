//! A URL as somebody wrote it, and what it must be before anything is done with it.
//!
//! The text is read by one parser, and the same reading is connected to; there is no second one that could disagree.

use reqwest::Url;

/// Why a text is no target. The text is not repeated: people put tokens into URLs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadTarget {
    #[error("the url must begin with http:// or https://")]
    Scheme,
    #[error("the url has a space, a line break, a backslash or another character that must be percent-encoded")]
    Characters,
    #[error("the url has more than {CHARS_MAX} characters")]
    TooLong,
    #[error("the url cannot be read as one")]
    Unreadable,
    #[error("the url has no host, or one that is not a name")]
    Host,
    #[error("the url has a login in it; send a header instead")]
    Login,
    #[error("the url has a fragment (#…), which is never sent")]
    Fragment,
}

const CHARS_MAX: usize = 8_192;

/// A URL in its normal form: the name in lower case and ASCII, without a dot at its end; numbers that mean an IPv4 address
/// as that address.
pub fn target(text: &str) -> Result<Url, BadTarget> {
    if text.len() > CHARS_MAX {
        return Err(BadTarget::TooLong);
    }
    let begins = |scheme: &str| text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    if !begins("http://") && !begins("https://") {
        return Err(BadTarget::Scheme);
    }
    // The parser would drop some of these and turn others into something else. Whoever wrote them meant neither.
    if text.chars().any(|c| c.is_control() || c.is_whitespace() || c == '\\') {
        return Err(BadTarget::Characters);
    }
    let url = Url::parse(text).map_err(|_| BadTarget::Unreadable)?;
    if url.fragment().is_some() {
        return Err(BadTarget::Fragment);
    }
    normal(url)
}

/// Where a redirect leads, from the page that said so. A fragment is for browsers, and goes.
pub(super) fn next_target(from: &Url, location: &str) -> Result<Url, BadTarget> {
    let mut url = from.join(location).map_err(|_| BadTarget::Unreadable)?;
    url.set_fragment(None);
    if url.as_str().len() > CHARS_MAX {
        return Err(BadTarget::TooLong);
    }
    normal(url)
}

fn normal(mut url: Url) -> Result<Url, BadTarget> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(BadTarget::Scheme);
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(BadTarget::Login);
    }
    let host = url.host_str().ok_or(BadTarget::Host)?;
    if let Some(bare) = host.strip_suffix('.') {
        let bare = bare.to_owned();
        url.set_host(Some(&bare)).map_err(|_| BadTarget::Host)?;
    }
    let host = url.host_str().ok_or(BadTarget::Host)?;
    if host.is_empty() || host.starts_with('.') || host.ends_with('.') || host.contains("..") {
        return Err(BadTarget::Host);
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::egress::EgressRules;

    #[test]
    fn a_target_has_one_form() {
        for (text, normal) in [
            ("http://Example.ORG", "http://example.org/"),
            ("HTTPS://example.org.:443/a?b=c", "https://example.org/a?b=c"),
            ("http://bücher.example/", "http://xn--bcher-kva.example/"),
            ("http://ｅｘａｍｐｌｅ.org/", "http://example.org/"),
            ("http://127.1/", "http://127.0.0.1/"),
            ("http://2130706433/", "http://127.0.0.1/"),
            ("http://0x7f.1/", "http://127.0.0.1/"),
            ("http://0177.0.0.1./", "http://127.0.0.1/"),
            ("http://①②⑦.0.0.1/", "http://127.0.0.1/"),
        ] {
            assert_eq!(target(text).map(String::from).as_deref(), Ok(normal), "{text}");
        }
    }

    /// B089, and what parsers are known to disagree about.
    #[test]
    fn what_is_no_target_is_refused_by_its_reason() {
        for (text, why) in [
            ("gopher://example.org", BadTarget::Scheme),
            ("file:///etc/passwd", BadTarget::Scheme),
            ("ftp://example.org", BadTarget::Scheme),
            ("unix:/run/docker.sock", BadTarget::Scheme),
            ("http:example.org", BadTarget::Scheme),
            ("http:/example.org", BadTarget::Scheme),
            ("//example.org", BadTarget::Scheme),
            ("", BadTarget::Scheme),
            (" http://example.org", BadTarget::Scheme),
            ("http://user:pw@example.org", BadTarget::Login),
            ("http://user@example.org", BadTarget::Login),
            ("http://example.org#@evil.example", BadTarget::Fragment),
            ("http://example.org\\@evil.example", BadTarget::Characters),
            ("http://example.org/a b", BadTarget::Characters),
            ("http://exa\nmple.org/", BadTarget::Characters),
            ("http://example.org/\r\nhost: x", BadTarget::Characters),
            ("http://example.org..", BadTarget::Host),
            ("http://", BadTarget::Unreadable),
            ("http://[fe80::1%lo]/", BadTarget::Unreadable),
            ("http://example.org:99999/", BadTarget::Unreadable),
            ("http://256.256.256.256/", BadTarget::Unreadable),
        ] {
            assert_eq!(target(text).map(String::from), Err(why), "{text}");
        }
        assert_eq!(target(&format!("http://a/{}", "x".repeat(CHARS_MAX))), Err(BadTarget::TooLong));
    }

    /// B083, B084, B085: every spelling of an address that is not public.
    #[test]
    fn an_address_is_denied_however_it_is_spelt() {
        let rules = EgressRules::default();
        for host in [
            "127.0.0.1:8080",
            "localhost",
            "LocalHost.",
            "[::1]",
            "0.0.0.0",
            "127.1",
            "2130706433",
            "0x7f.1",
            "0177.0.0.1",
            "127.0.0.1.",
            "[::ffff:127.0.0.1]",
            "[::ffff:a9fe:a9fe]",
            "[64:ff9b::7f00:1]",
            "[2002:7f00:1::]",
            "[::127.0.0.1]",
            "169.254.169.254",
            "100.100.100.200",
            "[fd00:ec2::254]",
            "8.8.8.8:22",
            "example.org:25",
        ] {
            let url = target(&format!("http://{host}/")).unwrap_or_else(|e| panic!("{host}: {e}"));
            assert!(rules.check_target(&url).is_err(), "{host}");
        }
        for host in ["8.8.8.8", "[2606:4700:4700::1111]:8443", "localhost.example", "example.org"] {
            let url = target(&format!("http://{host}/")).unwrap();
            assert!(rules.check_target(&url).is_ok(), "{host}: names are judged when they are resolved");
        }
    }
}
