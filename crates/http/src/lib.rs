//! The client side of our own HTTP. Everybody who speaks to a Bowline server, or fetches keys for one, begins here, so
//! that the choice of TLS is made once.
//!
//! Never here: egress on behalf of tenants. That goes through `bowline-connect`, with checks on where it leads.

pub use reqwest;

/// A client in the making. TLS by rustls with ring: it builds in seconds with nothing but a C compiler.
#[expect(clippy::disallowed_methods, reason = "the one builder for calls to our own server")]
pub fn client() -> reqwest::ClientBuilder {
    // The second one to install it finds it there; that is all right.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
}

/// Why an address is not good enough for credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotEncrypted {
    NotAnAddress(String),
    PlainText(String),
}

impl std::fmt::Display for NotEncrypted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotAnAddress(text) => write!(f, "`{text}` is not an http or https address"),
            Self::PlainText(text) => write!(f, "`{text}` is another machine over plain HTTP; use https://"),
        }
    }
}

impl std::error::Error for NotEncrypted {}

/// Whether what is sent to this address stays between the two of us: https, or this machine.
///
/// # Errors
/// If it does not, or is no address.
pub fn check_encrypted(address: &str) -> Result<(), NotEncrypted> {
    let url = reqwest::Url::parse(address.trim()).map_err(|_| NotEncrypted::NotAnAddress(address.to_owned()))?;
    match url.scheme() {
        "https" => Ok(()),
        "http" if is_loopback(&url) => Ok(()),
        "http" => Err(NotEncrypted::PlainText(address.to_owned())),
        _ => Err(NotEncrypted::NotAnAddress(address.to_owned())),
    }
}

/// Whether a server at this address runs on this machine.
#[must_use]
pub fn is_loopback(url: &reqwest::Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || bare.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_is_for_this_machine() {
        for good in [
            "https://bowline.example",
            "http://127.0.0.1:7420",
            "http://127.9.9.9",
            "http://[::1]:1",
            " http://LOCALHOST ",
        ] {
            assert_eq!(check_encrypted(good), Ok(()), "{good}");
        }
        for bad in ["http://bowline.example", "http://10.0.0.1:7420", "http://127.0.0.1.example.com", "http://[::2]"] {
            assert!(matches!(check_encrypted(bad), Err(NotEncrypted::PlainText(_))), "{bad}");
        }
        for none in ["", "bowline.example", "ftp://bowline.example"] {
            assert!(matches!(check_encrypted(none), Err(NotEncrypted::NotAnAddress(_))), "{none}");
        }
    }

    #[test]
    fn a_client_can_be_built_more_than_once() {
        assert!(super::client().build().is_ok());
        assert!(super::client().build().is_ok());
    }
}
