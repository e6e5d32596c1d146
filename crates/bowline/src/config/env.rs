//! The environment. The names are those operators know from the systems we replace.

use bowline_auth::SecretText;

use super::Config;
use super::errors::ConfigErrors;

/// Ours, but read elsewhere: by the command line or the tests.
const ELSEWHERE: [&str; 8] = [
    "BOWLINE_CONFIG",
    "BOWLINE_CONTEXT",
    "BOWLINE_URL",
    "BOWLINE_TOKEN",
    "BOWLINE_INSECURE_HTTP",
    "BOWLINE_TEST_POSTGRES",
    "BOWLINE_TEST_RABBITMQ",
    "BOWLINE_BENCH_DIR",
];

/// Lays the environment over what the file said.
pub fn apply(config: &mut Config, vars: Vec<(String, String)>, errors: &mut ConfigErrors) {
    for (name, value) in vars {
        if value.is_empty() {
            continue;
        }
        match name.as_str() {
            "DATABASE_URL" => config.database.url = Some(value),
            "PGSSLMODE" => config.database.ssl_environment.push(("sslmode", value)),
            "PGSSLROOTCERT" => config.database.ssl_environment.push(("sslrootcert", value)),
            "PGSSLCERT" => config.database.ssl_environment.push(("sslcert", value)),
            "PGSSLKEY" => config.database.ssl_environment.push(("sslkey", value)),
            "BOWLINE_TLS_CERT" => config.tls.cert = Some(value.into()),
            "BOWLINE_TLS_KEY" => config.tls.key = Some(value.into()),
            "PORT" => match value.parse() {
                Ok(port) => config.server.listen.set_port(port),
                Err(_) => errors.add("server", format!("PORT must be a port number, not `{value}`")),
            },
            "EXEC_MAX_RETRIES" => match value.parse() {
                Ok(retries) => config.commands.max_retries = retries,
                Err(_) => errors.add("commands", format!("EXEC_MAX_RETRIES must be a whole number, not `{value}`")),
            },
            "BASE_BACKOFF" => config.commands.base_backoff = value,
            "MAX_BACKOFF" => config.commands.max_backoff = value,
            "JOB_TIMEOUT" => config.jobs.timeout = Some(value),
            "LOG_LEVEL" => config.log.level = value,
            "LOG_ACCESS" => match value.parse() {
                Ok(access) => config.log.access = access,
                Err(error) => errors.add("log", format!("LOG_ACCESS is `{value}`: {error}")),
            },
            "ORCH_JWT_ISSUER" => config.auth.jwt_issuer = Some(value),
            "ORCH_JWT_AUDIENCE_CONTROL" => config.auth.jwt_audience_control = value,
            "ORCH_JWT_AUDIENCE_EXEC" => config.auth.jwt_audience_exec = value,
            "ORCH_JWT_JWKS_URL" => config.auth.jwt_jwks_url = Some(value),
            "ORCH_JWT_SHARED_SECRET" => config.auth.jwt_shared_secret = Some(SecretText::new(value)),
            // The agent has its own; a machine may have both.
            other if ELSEWHERE.contains(&other) || other.starts_with("BOWLINE_AGENT_") => {}
            // Dying on purpose is for tests. A build for use does not start with such an order.
            "BOWLINE_FAILPOINT" if cfg!(debug_assertions) => {}
            other if other.starts_with("BOWLINE_") || other.starts_with("ORCH_") => {
                let what =
                    format!("the environment sets {other}, which is no option; see docs/guide for those there are");
                errors.add("", what);
            }
            _ => {}
        }
    }
}
