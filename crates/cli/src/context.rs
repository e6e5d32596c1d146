//! Saved contexts: servers with their tokens, under names, in a file that only its owner can read.
//!
//! A context that is named (`--context`, BOWLINE_CONTEXT) wins over BOWLINE_URL and BOWLINE_TOKEN. The one in use counts where
//! neither `--server` nor BOWLINE_URL says which server is meant. Its token goes to its own server only. The file is `~/.config/bowline/contexts.toml`, or below XDG_CONFIG_HOME.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};

use crate::client::{Client, Request};
use crate::connection::{Connection, Secret};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Cell, Column, Paint, Screen, Text};
use crate::source;

#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  bowline login https://bowline.example.org
  bowline --token-file ops.token login https://bowline.example.org --name prod
  bowline context use prod

The token is taken from --token, --token-file or BOWLINE_TOKEN, or asked for. The server is asked whether it accepts it, and \
both are saved in ~/.config/bowline/contexts.toml, readable by you only.")]
pub struct LoginArgs {
    /// Where the server listens [default: --server]
    #[arg(value_name = "URL")]
    url: Option<String>,
    /// The name of the context [default: the server's host]
    #[arg(long)]
    name: Option<String>,
}

#[derive(Debug, Clone, Subcommand)]
pub enum ContextCommand {
    /// List the saved contexts; the one in use has a star
    List,
    /// Switch to another context
    Use {
        /// Its name
        name: String,
    },
    /// Remove a context and its token
    Remove {
        /// Its name
        name: String,
    },
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Contexts {
    #[serde(skip_serializing_if = "Option::is_none")]
    current: Option<String>,
    contexts: BTreeMap<String, Saved>,
}

#[derive(Serialize, Deserialize)]
struct Saved {
    server: String,
    token: String,
}

impl std::fmt::Debug for Saved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Saved").field("server", &self.server).finish_non_exhaustive()
    }
}

fn path() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = variable("XDG_CONFIG_HOME").or_else(|| variable("HOME").map(|home| home.join(".config")))?;
    Some(home.join("bowline").join("contexts.toml"))
}

fn load(path: &Path) -> Result<Contexts, Failure> {
    let about = match std::fs::metadata(path) {
        Ok(about) => about,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Contexts::default()),
        Err(error) => return Err(source::cannot(path, &error)),
    };
    if about.permissions().mode() & 0o077 != 0 {
        let path = path.display();
        return Err(Failure::Usage(format!("{path} holds tokens and others can read it; `chmod 600 {path}` first")));
    }
    let text = source::read(path)?;
    toml::from_str(&text).map_err(|error| Failure::Usage(format!("{} cannot be understood: {error}", path.display())))
}

/// Replaces the file at once, so that nobody ever reads half of it.
fn save(path: &Path, contexts: &Contexts) -> Result<(), Failure> {
    let cannot = |error: std::io::Error| Failure::Usage(format!("cannot write {}: {error}", path.display()));
    let text = toml::to_string(contexts).map_err(|error| Failure::Usage(error.to_string()))?;
    let directory = path.parent().unwrap_or(Path::new("."));
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(cannot)?;
    let fresh = directory.join(format!(".contexts.{}", std::process::id()));
    let mut file =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh).map_err(cannot)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(cannot)?;
    std::fs::rename(&fresh, path).map_err(cannot)
}

fn unknown(name: &str, contexts: &Contexts) -> Failure {
    let names: Vec<&str> = contexts.contexts.keys().map(String::as_str).collect();
    let there = if names.is_empty() { "none is saved".to_owned() } else { format!("there are {}", names.join(", ")) };
    Failure::Usage(format!("there is no context {name:?}; {there}. `bowline login URL` saves one"))
}

/// The connection with what the chosen context says about it.
pub fn apply(connection: &Connection) -> Result<Connection, Failure> {
    let Some(path) = path() else { return Ok(connection.clone()) };
    apply_from(&path, connection)
}

fn apply_from(path: &Path, connection: &Connection) -> Result<Connection, Failure> {
    if connection.server.is_some() && connection.context.is_none() {
        return Ok(connection.clone());
    }
    let contexts = load(path)?;
    let Some(name) = connection.context.as_ref().or(contexts.current.as_ref()) else { return Ok(connection.clone()) };
    let Some(saved) = contexts.contexts.get(name) else { return Err(unknown(name, &contexts)) };
    Ok(Connection {
        server: Some(saved.server.clone()),
        context_token: Some((name.clone(), Secret::new(&saved.token))),
        ..connection.clone()
    })
}

fn file() -> Result<PathBuf, Failure> {
    path().ok_or_else(|| Failure::Usage("contexts are saved below HOME or XDG_CONFIG_HOME; neither is set".to_owned()))
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct CallerView {
    actor: Text,
    name: Text,
}

pub async fn login(connection: &Connection, screen: &mut Screen, args: &LoginArgs) -> Result<Exit, Failure> {
    let path = file()?;
    let mut contexts = load(&path)?;
    let server = args.url.clone().or_else(|| connection.server.clone());
    let mut connection = Connection { server, context: None, context_token: None, ..connection.clone() };
    let url = connection.url()?;
    let token = match connection.credentials(&url)?.token {
        Some(token) => token,
        None if std::io::stdin().is_terminal() => {
            let term = console::Term::stderr();
            term.write_str(&format!("Token for {url}: ")).map_err(Failure::Output)?;
            Secret::new(&term.read_secure_line().map_err(Failure::Output)?)
        }
        None => {
            let how = "no token: give one with --token-file or BOWLINE_TOKEN, or log in on a terminal";
            return Err(Failure::Usage(how.to_owned()));
        }
    };
    connection.token = Some(token.clone());
    connection.token_file = None;
    let client = Client::new(&connection, screen.notes())?;
    let caller: CallerView = client.call(&Request::get(["whoami"])).await?.read()?;
    let name = args.name.clone().unwrap_or_else(|| url.host_str().unwrap_or("default").to_owned());
    let saved = Saved { server: url.as_str().trim_end_matches('/').to_owned(), token: token.expose().to_owned() };
    contexts.contexts.insert(name.clone(), saved);
    contexts.current = Some(name.clone());
    save(&path, &contexts)?;
    let who = if caller.name.is_empty() { caller.actor } else { caller.name };
    if screen.json() {
        let said = serde_json::json!({"name": name, "server": url.as_str(), "as": who.as_str(), "current": true});
        screen.json_line(&said.to_string())?;
    } else {
        screen.line(&format!("logged in to {url} as {who}; context {} is in use", Text::new(&name)))?;
    }
    Ok(Exit::Success)
}

pub fn run(screen: &mut Screen, command: ContextCommand) -> Result<Exit, Failure> {
    let path = file()?;
    let mut contexts = load(&path)?;
    match command {
        ContextCommand::List => return list(screen, &contexts),
        ContextCommand::Use { name } => {
            let Some(saved) = contexts.contexts.get(&name) else { return Err(unknown(&name, &contexts)) };
            if screen.json() {
                let said = serde_json::json!({"name": name, "server": saved.server, "current": true});
                screen.json_line(&said.to_string())?;
            } else {
                screen.line(&format!("context {} is in use: {}", Text::new(&name), Text::new(&saved.server)))?;
            }
            contexts.current = Some(name);
        }
        ContextCommand::Remove { name } => {
            if contexts.contexts.remove(&name).is_none() {
                return Err(unknown(&name, &contexts));
            }
            if contexts.current.as_ref() == Some(&name) {
                contexts.current = None;
            }
            if screen.json() {
                screen.json_line(&serde_json::json!({"name": name, "removed": true}).to_string())?;
            } else {
                let name = Text::new(&name);
                screen.line(&format!("context {name} is removed; its token is still good until it is revoked"))?;
            }
        }
    }
    save(&path, &contexts)?;
    Ok(Exit::Success)
}

const COLUMNS: [Column; 3] = [Column::left(""), Column::left("NAME").whole(), Column::left("SERVER")];

fn list(screen: &mut Screen, contexts: &Contexts) -> Result<Exit, Failure> {
    let current = |name: &String| contexts.current.as_ref() == Some(name);
    if screen.json() {
        let all: Vec<_> = contexts
            .contexts
            .iter()
            .map(|(name, saved)| serde_json::json!({"name": name, "server": saved.server, "current": current(name)}))
            .collect();
        screen.json_line(&serde_json::json!({ "contexts": all }).to_string())?;
        return Ok(Exit::Success);
    }
    if contexts.contexts.is_empty() {
        screen.line("No contexts yet. Save one with `bowline login URL`.")?;
        return Ok(Exit::Success);
    }
    let rows: Vec<Vec<Cell>> = contexts
        .contexts
        .iter()
        .map(|(name, saved)| {
            let star = if current(name) { Cell::painted("*", Paint::Good) } else { Cell::new("") };
            vec![star, Cell::new(name), Cell::new(&saved.server)]
        })
        .collect();
    screen.table(&COLUMNS, &rows)?;
    Ok(Exit::Success)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_is_used_where_nothing_else_was_said() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("bowline").join("contexts.toml");
        let plain = Connection::default();
        assert_eq!(apply_from(&path, &plain).unwrap(), plain);
        let saved = |server: &str| Saved { server: server.to_owned(), token: format!("token of {server}") };
        let contexts = BTreeMap::from([("a".to_owned(), saved("http://a")), ("b".to_owned(), saved("http://b"))]);
        save(&path, &Contexts { current: Some("b".to_owned()), contexts }).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let used = apply_from(&path, &plain).unwrap();
        assert_eq!(used.server.as_deref(), Some("http://b"));
        assert!(!format!("{used:?}").contains("token of"), "a token does not show itself");
        let named = Connection { context: Some("a".to_owned()), ..Connection::default() };
        assert_eq!(apply_from(&path, &named).unwrap().server.as_deref(), Some("http://a"));
        let both = Connection { server: Some("http://c".to_owned()), ..named };
        let used = apply_from(&path, &both).unwrap();
        let variable = Some("token of http://c".to_owned());
        assert_eq!(used.server.as_deref(), Some("http://a"), "the context wins over BOWLINE_URL");
        let token = used.find_token(false, variable, Path::new("absent")).unwrap().token.unwrap();
        assert_eq!(token.expose(), "token of http://a", "and over BOWLINE_TOKEN");
        let given = Connection { server: Some("http://c".to_owned()), ..Connection::default() };
        assert_eq!(apply_from(&path, &given).unwrap(), given, "a token goes to its own server only");
        let absent = Connection { context: Some("z".to_owned()), ..Connection::default() };
        let error = apply_from(&path, &absent).unwrap_err().to_string();
        assert!(error.contains("there are a, b"), "{error}");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(apply_from(&path, &plain).unwrap_err().to_string().contains("chmod 600"));
    }
}
