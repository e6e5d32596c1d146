//! How to reach the server, and who is asking.
//!
//! The command line wins over the environment: `--server` over BOWLINE_CONTEXT, and `--context` over BOWLINE_URL and
//! BOWLINE_TOKEN. A context that was named brings its server and its token, because a token belongs to one server.
//!
//! A token is looked for in this order: `--token`, `--token-file`, a context that was named (`--context` or
//! BOWLINE_CONTEXT), BOWLINE_TOKEN, the context in use, and then the administrator's token that a server on this machine
//! wrote to `./bowline-data/admin.token`. That last one is never sent to another machine.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use bowline_http::is_loopback;
use reqwest::Url;

use crate::duration::Span;
use crate::failure::Failure;
use crate::output::Output;

/// Where a server listens unless it is told otherwise.
pub const DEFAULT_SERVER: &str = "http://127.0.0.1:7420";
/// Where a server started here leaves the administrator's token.
pub const DEFAULT_TOKEN_FILE: &str = "./bowline-data/admin.token";
const TOKEN_VARIABLE: &str = "BOWLINE_TOKEN";
const TOKEN_BYTES_MAX: u64 = 64 * 1024;

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: &str) -> Self {
        Self(text.trim().to_owned())
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

impl FromStr for Secret {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self::new(text))
    }
}

// The options that every client command takes. (Not a doc comment: flattened into the binary's options, it would become
// the description of the whole program.)
#[derive(Debug, Clone, PartialEq, Eq, clap::Args, Default)]
pub struct Connection {
    // The environment is read apart (`read_environment`): clap would put what it found there into every usage line.
    /// Where the server listens [default: the context in use, or http://127.0.0.1:7420] [env: BOWLINE_URL]
    #[arg(long, global = true, value_name = "URL", help_heading = "Connection and output")]
    pub server: Option<String>,

    /// The saved context to use, with its server and its token, whatever BOWLINE_URL and BOWLINE_TOKEN say
    /// [env: BOWLINE_CONTEXT]
    #[arg(long, global = true, value_name = "NAME", conflicts_with = "server", help_heading = "Connection and output")]
    pub context: Option<String>,

    /// The token of the context, and what that is called.
    #[arg(skip)]
    pub(crate) context_token: Option<(String, Secret)>,

    /// The token to authenticate with; other users of this machine can see it, BOWLINE_TOKEN and files they cannot
    #[arg(long, global = true, value_name = "TOKEN", help_heading = "Connection and output")]
    pub token: Option<Secret>,

    /// A file with the token [default: ./bowline-data/admin.token if it exists, for a server on this machine]
    #[arg(long, global = true, value_name = "PATH", conflicts_with = "token", help_heading = "Connection and output")]
    pub token_file: Option<PathBuf>,

    /// Allow plain HTTP to another machine, where others on the way can read the token and change requests
    /// [env: BOWLINE_INSECURE_HTTP]
    #[arg(long, global = true, help_heading = "Connection and output")]
    pub insecure_http: bool,

    /// How results are printed [default: table; of one resource, yaml]
    #[arg(long, short, global = true, value_enum, value_name = "FORMAT", help_heading = "Connection and output")]
    pub output: Option<Output>,

    /// The same as -o json
    #[arg(long, global = true, conflicts_with = "output", help_heading = "Connection and output")]
    pub json: bool,

    /// Repeat a list every two seconds, or this often, until Ctrl-C
    #[arg(
        long,
        short,
        global = true,
        value_name = "DURATION",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "2s",
        help_heading = "Connection and output"
    )]
    pub watch: Option<Span>,

    /// No colours; NO_COLOR does the same
    #[arg(long, global = true, help_heading = "Connection and output")]
    pub no_color: bool,
}

/// A token, and where it was found.
#[derive(Debug, Clone)]
pub(crate) struct Credentials {
    pub token: Option<Secret>,
    /// The end of the sentence "the token …", for hints.
    found: String,
}

impl Credentials {
    /// What to say to somebody whose credentials were not accepted.
    pub fn hint(&self) -> String {
        match &self.token {
            Some(_) => {
                format!("the token {} was not accepted; it may be revoked, expired, or of another server", self.found)
            }
            None => format!("no token was sent: pass --token or --token-file, or set {TOKEN_VARIABLE}; {}", self.found),
        }
    }
}

impl Connection {
    /// Takes from the environment what the command line did not say.
    pub fn read_environment(&mut self) {
        self.read_variables(|name| std::env::var(name).ok());
    }

    fn read_variables(&mut self, variable: impl Fn(&str) -> Option<String>) {
        let set = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        // A server on the command line is not the one that the context of the environment means.
        if self.server.is_none() {
            self.context = self.context.take().or_else(|| set("BOWLINE_CONTEXT"));
            self.server = set("BOWLINE_URL");
        }
        let off =
            |value: &String| matches!(value.to_ascii_lowercase().as_str(), "0" | "n" | "no" | "f" | "false" | "off");
        self.insecure_http |= set("BOWLINE_INSECURE_HTTP").is_some_and(|value| !off(&value));
    }

    /// Where the server listens.
    pub fn server(&self) -> &str {
        self.server.as_deref().unwrap_or(DEFAULT_SERVER)
    }

    /// How results are to be printed, where it was said.
    pub fn output(&self) -> Option<Output> {
        if self.json { Some(Output::Json) } else { self.output }
    }

    /// Whether results are for programs.
    pub fn wants_json(&self) -> bool {
        matches!(self.output(), Some(Output::Json | Output::Yaml))
    }

    /// The server's address, checked.
    pub(crate) fn url(&self) -> Result<Url, Failure> {
        let wrong = |why: &str| Failure::Usage(format!("--server (or BOWLINE_URL) {:?} {why}", self.server()));
        let text = self.server().trim();
        // `localhost:7420` would be read as the scheme `localhost`.
        let text = match text.contains("://") || text.is_empty() {
            true => text.to_owned(),
            false => match Url::parse(&format!("http://{text}")) {
                Ok(url) if is_loopback(&url) => format!("http://{text}"),
                _ => format!("https://{text}"),
            },
        };
        let url = Url::parse(&text).map_err(|_| wrong("is not an address such as http://127.0.0.1:7420"))?;
        if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
            return Err(wrong("must begin with http:// or https:// and name a host"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Failure::Usage("--server must not carry a password; use --token-file or BOWLINE_TOKEN".into()));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(wrong("must end with its host or path"));
        }
        if !self.insecure_http && bowline_http::check_encrypted(url.as_str()).is_err() {
            return Err(wrong(
                "is another machine over plain HTTP, where others can read the token; use https://, or --insecure-http \
                 (BOWLINE_INSECURE_HTTP=true) if the way there is protected by other means",
            ));
        }
        Ok(url)
    }

    /// The token to show to the server at `url`.
    pub(crate) fn credentials(&self, url: &Url) -> Result<Credentials, Failure> {
        self.find_token(is_loopback(url), std::env::var(TOKEN_VARIABLE).ok(), Path::new(DEFAULT_TOKEN_FILE))
    }

    pub(crate) fn find_token(
        &self,
        local: bool,
        variable: Option<String>,
        default: &Path,
    ) -> Result<Credentials, Failure> {
        let found = |token: Secret, found: String| Ok(Credentials { token: Some(token), found });
        if let Some(token) = &self.token {
            return found(token.clone(), "given with --token".to_owned());
        }
        if let Some(path) = &self.token_file {
            let token = read_token(path)
                .map_err(|why| Failure::Usage(format!("cannot read the token file {}: {why}", path.display())))?;
            return found(token, format!("in {}", path.display()));
        }
        let of_context = self.context_token.as_ref();
        let of_context = of_context.map(|(name, token)| (token.clone(), format!("of the context {name}")));
        if let (Some(_), Some((token, place))) = (&self.context, &of_context) {
            return found(token.clone(), place.clone());
        }
        if let Some(token) = variable.map(|text| Secret::new(&text)).filter(|token| !token.0.is_empty()) {
            return found(token, format!("in {TOKEN_VARIABLE}"));
        }
        if let Some((token, place)) = of_context {
            return found(token, place);
        }
        let path = default.display();
        if !local {
            return Ok(Credentials { token: None, found: format!("{path} is only used for a server on this machine") });
        }
        match read_token(default) {
            Ok(token) => found(token, format!("in {path}")),
            Err(TokenFileError::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => {
                Ok(Credentials { token: None, found: format!("there is no {path} in this directory") })
            }
            Err(why) => Ok(Credentials { token: None, found: format!("{path} cannot be used: {why}") }),
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum TokenFileError {
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("it is empty")]
    Empty,
    #[error("it holds more than a token")]
    TooLong,
}

fn read_token(path: &Path) -> Result<Secret, TokenFileError> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(TOKEN_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > TOKEN_BYTES_MAX {
        return Err(TokenFileError::TooLong);
    }
    let token = Secret::new(&text);
    if token.0.is_empty() { Err(TokenFileError::Empty) } else { Ok(token) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(server: &str) -> Connection {
        Connection { server: Some(server.to_owned()), ..Connection::default() }
    }

    #[test]
    fn only_plain_addresses_are_accepted() {
        for good in ["http://127.0.0.1:7420", "https://bowline.example/prefix/", "http://[::1]:1", " http://localhost "]
        {
            assert!(with(good).url().is_ok(), "{good}");
        }
        // Without a scheme, this machine is asked plainly and others are not.
        for (bare, whole) in [
            ("127.0.0.1:7420", "http://127.0.0.1:7420/"),
            ("localhost:7420", "http://localhost:7420/"),
            ("bowline.example.org", "https://bowline.example.org/"),
            ("10.0.0.7:7420", "https://10.0.0.7:7420/"),
        ] {
            assert_eq!(with(bare).url().unwrap().as_str(), whole);
        }
        for bad in ["", "ftp://x", "http://a:b@x", "http://x/?q=1", "file:///etc", "mailto:x@y", "a b"] {
            assert!(matches!(with(bad).url(), Err(Failure::Usage(_))), "{bad}");
        }
    }

    #[test]
    fn the_nearest_token_wins() {
        let directory = tempfile::tempdir().unwrap();
        let (default, other) = (directory.path().join("admin.token"), directory.path().join("other"));
        let token = |connection: &Connection, local, variable: Option<&str>| {
            let found = connection.find_token(local, variable.map(str::to_owned), &default).unwrap();
            found.token.map(|token| token.0)
        };
        let mut connection = Connection::default();
        assert_eq!(token(&connection, true, None), None);
        std::fs::write(&default, "from-default\n").unwrap();
        std::fs::write(&other, " from-file \n").unwrap();
        assert_eq!(token(&connection, true, None).as_deref(), Some("from-default"));
        assert_eq!(token(&connection, false, None), None, "a local token stays local");
        assert_eq!(token(&connection, true, Some("")).as_deref(), Some("from-default"));
        assert_eq!(token(&connection, false, Some("from-env")).as_deref(), Some("from-env"));
        connection.token_file = Some(other);
        assert_eq!(token(&connection, true, Some("from-env")).as_deref(), Some("from-file"));
        connection.token = Some(Secret::new("from-flag"));
        assert_eq!(token(&connection, true, Some("from-env")).as_deref(), Some("from-flag"));
        let of_context = Some(("prod".to_owned(), Secret::new("from-context")));
        let in_use = Connection { context_token: of_context, ..Connection::default() };
        assert_eq!(token(&in_use, false, Some("from-env")).as_deref(), Some("from-env"));
        assert_eq!(token(&in_use, false, None).as_deref(), Some("from-context"));
        let mut named = Connection { context: Some("prod".to_owned()), ..in_use };
        assert_eq!(token(&named, false, Some("from-env")).as_deref(), Some("from-context"));
        named.token = Some(Secret::new("from-flag"));
        assert_eq!(token(&named, false, Some("from-env")).as_deref(), Some("from-flag"));
        connection = Connection { token_file: Some(directory.path().join("absent")), ..Connection::default() };
        assert!(matches!(connection.find_token(true, None, &default), Err(Failure::Usage(_))));
    }

    #[test]
    fn the_environment_says_what_the_command_line_does_not() {
        const ALL: &[(&str, &str)] =
            &[("BOWLINE_URL", "http://a"), ("BOWLINE_CONTEXT", "b"), ("BOWLINE_INSECURE_HTTP", "true")];
        let said = |variables: &[(&str, &str)], mut connection: Connection| {
            connection.read_variables(|name| {
                variables.iter().find(|(found, _)| *found == name).map(|(_, value)| (*value).to_owned())
            });
            connection
        };
        let plain = said(ALL, Connection::default());
        let found = (plain.server.as_deref(), plain.context.as_deref(), plain.insecure_http);
        assert_eq!(found, (Some("http://a"), Some("b"), true));
        assert_eq!(said(ALL, with("http://c")).server.as_deref(), Some("http://c"));
        assert_eq!(said(ALL, with("http://c")).context, None, "the environment's context is another server");
        let named = Connection { context: Some("d".to_owned()), ..Connection::default() };
        assert_eq!(said(ALL, named).context.as_deref(), Some("d"));
        let off = said(&[("BOWLINE_URL", ""), ("BOWLINE_INSECURE_HTTP", "false")], Connection::default());
        assert_eq!(off, Connection::default());
    }

    #[test]
    fn hints_say_where_a_token_was_looked_for() {
        let absent = Path::new("./nowhere/admin.token");
        let hint = |local| Connection::default().find_token(local, None, absent).unwrap().hint();
        assert!(hint(true).ends_with("set BOWLINE_TOKEN; there is no ./nowhere/admin.token in this directory"));
        assert!(hint(false).ends_with("./nowhere/admin.token is only used for a server on this machine"));
    }

    #[test]
    fn a_secret_does_not_show_itself() {
        let connection = Connection { token: Some(Secret::new("hush")), ..Connection::default() };
        assert!(!format!("{connection:?}").contains("hush"));
    }

    #[test]
    fn plain_http_to_another_machine_must_be_asked_for() {
        let mut far = with("http://bowline.example:7420");
        let Err(Failure::Usage(why)) = far.url() else { panic!("it is refused") };
        assert!(why.contains("--insecure-http") && why.contains("https://"), "{why}");
        far.insecure_http = true;
        assert!(far.url().is_ok());
        assert!(with("https://bowline.example").url().is_ok() && with("http://127.0.0.1:1").url().is_ok());
    }
}
