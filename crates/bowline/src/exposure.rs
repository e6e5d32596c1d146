//! What of a server's traffic others on the network can read, for the log at the start and for `doctor`.

use bowline_store_sql::SslMode;

use crate::config::Config;

/// One way in which something travels unprotected, and what to do about it.
pub struct Exposure {
    pub what: &'static str,
    pub says: String,
}

pub fn of(config: &Config) -> Vec<Exposure> {
    [listener(config), database(config)].into_iter().flatten().collect()
}

fn listener(config: &Config) -> Option<Exposure> {
    let address = config.server.listen;
    if address.ip().is_loopback() || config.tls.files().is_some() {
        return None;
    }
    let says = format!(
        "listening on {address} without TLS: unless a proxy in front of it encrypts, others on the network can read tokens, \
         payloads and results; set tls.cert and tls.key, see docs/guide/encryption.md"
    );
    Some(Exposure { what: "listener", says })
}

fn database(config: &Config) -> Option<Exposure> {
    let target = config.database.target()?.ok()?;
    if target.is_local() || target.mode >= SslMode::VerifyCa {
        return None;
    }
    let (mode, hosts) = (target.mode, target.hosts());
    let says = if mode < SslMode::Require {
        format!(
            "the way to PostgreSQL at {hosts} may be plain text (sslmode={mode}); add sslmode=verify-full and sslrootcert to \
             the database URL"
        )
    } else {
        format!(
            "the way to PostgreSQL at {hosts} is encrypted, but who answers there is not checked (sslmode={mode}); add \
             sslmode=verify-full and sslrootcert to the database URL"
        )
    };
    Some(Exposure { what: "database", says })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(listen: &str, tls: bool, url: Option<&str>) -> Vec<&'static str> {
        let mut config = Config::default();
        config.server.listen = listen.parse().unwrap();
        if tls {
            config.tls.cert = Some("/c".into());
            config.tls.key = Some("/k".into());
        }
        config.database.url = url.map(str::to_owned);
        of(&config).into_iter().map(|exposure| exposure.what).collect()
    }

    #[test]
    fn what_leaves_the_machine_in_plain_text_is_named() {
        assert_eq!(said("127.0.0.1:1", false, None), [""; 0]);
        assert_eq!(said("0.0.0.0:1", false, None), ["listener"]);
        assert_eq!(said("0.0.0.0:1", true, None), [""; 0]);
        assert_eq!(said("[::1]:1", false, Some("postgres://localhost/x?sslmode=disable")), [""; 0]);
        assert_eq!(said("127.0.0.1:1", false, Some("postgres://db/x")), ["database"]);
        assert_eq!(said("127.0.0.1:1", false, Some("postgres://db/x?sslmode=require")), ["database"]);
        assert_eq!(said("10.0.0.5:1", false, Some("postgres://db/x?sslmode=verify-full")), ["listener"]);
    }
}
