//! A database of one's own, on a server that may be shared.
//!
//! Starting a server for every test would cost more than most tests do. So `make test` starts one for all of them
//! (`with-postgres`) and names it in the environment; a test that is run alone starts its own and does not notice.

use super::client;
use super::server::Postgres;
use crate::url::Url;

/// The environment variable that names a running server: a URL whose user may create databases.
pub const SERVER_VARIABLE: &str = "BOWLINE_TEST_POSTGRES";

/// A database that exists until this guard is dropped. Then it is dropped too, whoever is still connected to it.
pub struct TestDatabase {
    url: String,
    home: Home,
}

enum Home {
    /// On a shared server. The URL is that of a database to drop ours from.
    Guest { name: String, server: String },
    /// On a server of its own, which takes the database with it.
    #[expect(dead_code, reason = "held for its Drop")]
    Owner(Box<Postgres>),
}

impl TestDatabase {
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let Home::Guest { name, server } = &self.home else { return };
        if let Err(error) = client::execute(server, &format!("drop database if exists {name} with (force)")) {
            // Not a reason to fail a test that has said all it had to say.
            eprintln!("test database {name} was left behind: {error:#}");
        }
    }
}

/// An empty database: on the server that `BOWLINE_TEST_POSTGRES` names, otherwise on a private one.
///
/// # Panics
/// If there is no server and none can be started. A test that silently skips is a test that never ran.
#[must_use]
pub fn fresh_database() -> TestDatabase {
    let Some(server) = std::env::var(SERVER_VARIABLE).ok().filter(|url| !url.is_empty()) else {
        let server = Postgres::start();
        return TestDatabase { url: server.create_database(), home: Home::Owner(Box::new(server)) };
    };
    let name = client::unique_name();
    let parsed = Url::parse(&server).unwrap_or_else(|error| panic!("{SERVER_VARIABLE} is not usable: {error:#}"));
    client::execute(&server, &format!("create database {name}"))
        .unwrap_or_else(|error| panic!("cannot create a database on the server in {SERVER_VARIABLE}: {error:#}"));
    TestDatabase { url: parsed.with_database(&name).to_string(), home: Home::Guest { name, server } }
}
