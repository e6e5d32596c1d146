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

#[cfg(test)]
mod tests {
    #[test]
    fn a_client_can_be_built_more_than_once() {
        assert!(super::client().build().is_ok());
        assert!(super::client().build().is_ok());
    }
}
