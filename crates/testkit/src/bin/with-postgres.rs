//! Runs a command with a PostgreSQL server at its side: `with-postgres cargo nextest run`.
//!
//! The server is private, named to the command in `BOWLINE_TEST_POSTGRES`, and gone when the command is. If that
//! variable already names a server, it is used as it is and none is started.

use std::process::ExitCode;

use bowline_testkit::companion;
use bowline_testkit::postgres::{Postgres, SERVER_VARIABLE};

fn main() -> ExitCode {
    companion::run("with-postgres", SERVER_VARIABLE, || {
        // Every test may hold a pool or two, and many tests run at once.
        let server = Postgres::options().setting("max_connections", "300").try_start()?;
        let url = server.url();
        Ok((server, url))
    })
}
