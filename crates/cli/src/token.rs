//! `token create|list|revoke`: credentials for programs and workers.

use std::collections::BTreeMap;

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};

use crate::actor::ActorView;
use crate::client::{Client, Request};
use crate::duration::Span;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::job::label;
use crate::listing::Listing;
use crate::output::{Cell, Column, Facts, Paint, Screen, Text};
use crate::whoami::joined;

#[derive(Debug, Clone, Subcommand)]
pub enum TokenCommand {
    /// Create a token; its text is shown once
    Create(CreateArgs),
    /// List tokens, without their texts
    List {
        /// The tenant they belong to [default: yours]
        #[arg(long, value_name = "ID")]
        tenant: Option<String>,
    },
    /// Revoke a token, and the API tokens that were created with it
    Revoke {
        /// The token: its id, the start or the end of its id, or its name, if no other valid token has it
        #[arg(value_name = "TOKEN")]
        id: String,
        /// Also revoke workers, agents and join tokens that were created with it
        #[arg(long)]
        with_workers: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenKind {
    /// For programs that call the API
    Api,
    /// For programs that execute runs
    Worker,
    /// For one agent, which joins with it once
    Join,
}

/// Hosts without an agent of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// Hosts without an agent
    Ssh,
    /// Hosts that do not exist
    Simulate,
}

#[derive(Debug, Clone, Args)]
pub struct CreateArgs {
    /// What it is for
    #[arg(long, value_enum, default_value_t = TokenKind::Api)]
    kind: TokenKind,
    /// A name to recognise it by; for a worker its id, for a join token the agent's name or a pattern such as 'web-*'
    #[arg(long)]
    name: String,
    /// What it may do, such as jobs.write; repeat for several [default: the server's, by kind]
    #[arg(long = "scope", value_name = "SCOPE")]
    scopes: Vec<String>,
    /// The address of the person it is for, if not your own (administrators only); workflows know it as user.email
    #[arg(long, value_name = "ADDRESS")]
    email: Option<String>,
    /// A label for the worker, or for the agent that joins with it; repeat for several
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    /// Accept labels that the worker states itself, besides those of --label
    #[arg(long)]
    own_labels: bool,
    /// Hosts besides its own that the joining agent may reach; repeat for several
    #[arg(long, value_enum, value_name = "HOW")]
    reach: Vec<Reach>,
    /// Give the agent sealed secrets even if its commands share its user
    #[arg(long)]
    secrets_for_shared_user: bool,
    /// A task type that the worker may take, or a pattern such as 'gpu.*'; repeat for several [default: all but built-in ones]
    #[arg(long = "task-type", value_name = "TYPE")]
    task_types: Vec<String>,
    /// How long it is valid, such as 30d [default: the server's, by kind]
    #[arg(long, value_name = "DURATION")]
    expires: Option<Span>,
    /// The tenant it belongs to [default: yours]
    #[arg(long, value_name = "ID")]
    tenant: Option<String>,
    /// Write the token to this new file, which only you can read, instead of showing it
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
}

/// A new file that only its owner can read.
fn new_file(path: &Path) -> Result<File, Failure> {
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    made.map_err(|error| Failure::Usage(format!("cannot make the file {}: {error}", path.display())))
}

#[derive(Serialize)]
struct NewToken<'a> {
    kind: TokenKind,
    name: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    scopes: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    email: Option<&'a str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<&'a str, &'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    own_labels: bool,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    reach: &'a [Reach],
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    secrets_for_shared_user: bool,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    task_types: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_in_s: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant_id: Option<&'a str>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RevokedView {
    also_revoked: Vec<MadeView>,
    remaining: Vec<MadeView>,
    stopped: Vec<StoppedView>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct StoppedView {
    kind: Text,
    name: Text,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct MadeView {
    id: Text,
    kind: Text,
    name: Text,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct TokenView {
    id: Text,
    kind: Text,
    name: Text,
    scopes: Vec<Text>,
    email: Text,
    tenant_id: Text,
    created_at: Text,
    expires_at: Text,
    revoked_at: Text,
    revoked: Option<bool>,
    status: Text,
    maker: ActorView,
    token: Text,
}

const COLUMNS: [Column; 8] = [
    Column::left("ID").whole(),
    Column::left("NAME"),
    Column::left("KIND"),
    Column::left("STATE"),
    Column::left("CREATED"),
    Column::left("EXPIRES"),
    Column::left("MADE BY").spare(),
    Column::left("SCOPES").spare(),
];

fn row(screen: &Screen, token: &TokenView) -> Vec<Cell> {
    let revoked = token.revoked == Some(true) || !token.revoked_at.is_empty();
    let expired = token.expires_at.as_str().parse().is_ok_and(|at: bowline_model::Timestamp| at <= screen.now());
    let state = match (revoked, expired) {
        _ if token.status.as_str() == "used" => Cell::painted("used", Paint::Quiet),
        (true, _) => Cell::painted("revoked", Paint::Quiet),
        (false, true) => Cell::painted("expired", Paint::Quiet),
        (false, false) => Cell::painted("valid", Paint::Good),
    };
    let expires = if token.expires_at.is_empty() { "never".to_owned() } else { screen.ago(&token.expires_at) };
    vec![
        (&token.id).into(),
        (&token.name).into(),
        (&token.kind).into(),
        state,
        screen.ago(&token.created_at).into(),
        expires.into(),
        (&token.maker.name).into(),
        joined(&token.scopes).into(),
    ]
}

pub async fn run(client: &Client, screen: &mut Screen, command: TokenCommand) -> Result<Exit, Failure> {
    match command {
        TokenCommand::Create(args) => create(client, screen, &args).await?,
        TokenCommand::List { tenant } => {
            let mut listing = Listing::new(screen, "tokens", None, &COLUMNS, row);
            listing.read(client, Request::get(["tokens"]).query_if("tenant_id", tenant)).await?;
            listing.finish("No tokens. Make one with `bowline token create --kind api --name NAME`.")?;
        }
        TokenCommand::Revoke { id, with_workers } => revoke(client, screen, &id, with_workers).await?,
    }
    Ok(Exit::Success)
}

async fn revoke(client: &Client, screen: &mut Screen, id: &str, with_workers: bool) -> Result<(), Failure> {
    let with_workers = with_workers.then(|| "true".to_owned());
    let send = async |id: &str| {
        let request = Request::post(["tokens", id, "revoke"]).query_if("with_workers", with_workers.clone());
        client.call(&request).await
    };
    let found;
    let (answer, id) = match send(id).await {
        Err(Failure::Refused(refusal)) if refusal.code.as_str() == "TOKEN_NOT_FOUND" => match find(client, id).await? {
            Some(whole) => {
                found = whole;
                (send(&found).await?, found.as_str())
            }
            None => return Err(Failure::Refused(refusal)),
        },
        answer => (answer?, id),
    };
    if screen.json() {
        return screen.json_line(answer.text());
    }
    let revoked: RevokedView = answer.read()?;
    screen.line(&format!("token {} is revoked", Text::new(id)))?;
    for made in &revoked.also_revoked {
        screen.line(&format!("  and {} token {} ({}), made with it", made.kind, made.id, made.name))?;
    }
    if !revoked.remaining.is_empty() {
        screen.line("Made with it, and still good; --with-workers ends them:")?;
        for made in &revoked.remaining {
            screen.line(&format!("  {} token {} ({})", made.kind, made.id, made.name))?;
        }
    }
    if !revoked.stopped.is_empty() {
        screen.line("These act with its rights and start nothing from now on; apply them again to take them over:")?;
        for stopped in &revoked.stopped {
            screen.line(&format!("  {} {}", stopped.kind, stopped.name))?;
        }
    }
    Ok(())
}

/// The shortest part of an id that names a token.
const PART_MIN: usize = 4;

/// The one token that is still valid and has this name, or an id that starts or ends like this.
async fn find(client: &Client, text: &str) -> Result<Option<String>, Failure> {
    #[derive(Deserialize)]
    struct Page {
        tokens: Vec<TokenView>,
        #[serde(default)]
        next_cursor: Option<String>,
    }
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let page: Page = client.call(&Request::get(["tokens"]).query_if("cursor", cursor.clone())).await?.read()?;
        let valid = page.tokens.into_iter().filter(|token| token.revoked != Some(true) && token.revoked_at.is_empty());
        found.extend(valid.filter(|token| {
            let (id, part) = (token.id.as_str(), text.len() >= PART_MIN);
            token.name.as_str() == text || (part && (id.starts_with(text) || id.ends_with(text)))
        }));
        if page.next_cursor.is_none() || page.next_cursor == cursor {
            break;
        }
        cursor = page.next_cursor;
    }
    if found.len() > 1 {
        let ids: Vec<_> = found.iter().map(|token| format!("{} ({})", token.id, token.name)).collect();
        return Err(Failure::Usage(format!("{text:?} may be one of several tokens: {}", ids.join(", "))));
    }
    Ok(found.pop().map(|token| token.id.to_string()))
}

async fn create(client: &Client, screen: &mut Screen, args: &CreateArgs) -> Result<(), Failure> {
    let body = NewToken {
        kind: args.kind,
        name: &args.name,
        scopes: &args.scopes,
        email: args.email.as_deref(),
        labels: args.labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect(),
        own_labels: args.own_labels,
        reach: &args.reach,
        secrets_for_shared_user: args.secrets_for_shared_user,
        task_types: &args.task_types,
        expires_in_s: args.expires.map(Span::as_secs),
        tenant_id: args.tenant.as_deref(),
    };
    let body = serde_json::to_string(&body).map_err(|error| Failure::Usage(error.to_string()))?;
    // Before the token is made: one that cannot be written down would be of no use.
    let file = args.save.as_deref().map(|path| new_file(path).map(|file| (path, file))).transpose()?;
    let answer = match client.call(&Request::post(["tokens"]).body(body)).await {
        Ok(answer) => answer,
        Err(failure) => {
            if let Some((path, _)) = &file {
                let _ = std::fs::remove_file(path);
            }
            return Err(failure);
        }
    };
    let token: TokenView = answer.read()?;
    if let Some((path, mut file)) = file {
        let written = writeln!(file, "{}", token.token).and_then(|()| file.sync_all());
        written.map_err(|error| Failure::Usage(format!("cannot write the token to {}: {error}", path.display())))?;
        if screen.json() {
            let mut view: serde_json::Value = answer.read()?;
            if let Some(fields) = view.as_object_mut() {
                fields.remove("token");
            }
            return screen.json_line(&view.to_string());
        }
        return screen.line(&format!(
            "{} token {} is in {}",
            token.kind,
            token.name,
            Text::new(&path.display().to_string())
        ));
    }
    if screen.json() {
        return screen.json_line(answer.text());
    }
    let expires = if token.expires_at.is_empty() { "never".to_owned() } else { screen.ago(&token.expires_at) };
    let mut facts = Facts::new().with("id", &token.id).with("name", &token.name).with("kind", &token.kind);
    if !token.email.is_empty() {
        facts = facts.with("email", &token.email);
    }
    screen.facts(
        &facts.with("scopes", joined(&token.scopes)).with("tenant", &token.tenant_id).with("expires", expires).painted(
            "token",
            &token.token,
            Paint::Strong,
        ),
    )?;
    screen.note("keep the token now: it is not shown again");
    Ok(())
}
