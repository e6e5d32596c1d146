//! `bowline doctor`: looks at an installation and says what is wrong with it, and what to do.

use std::os::unix::fs::PermissionsExt;
use std::process::ExitCode;

use bowline_cli::document;
use bowline_engine::fleet::check_stored_schema;
use bowline_model::fleet::CommandSpec;
use bowline_model::resource::ResourceKind;
use bowline_store::{MaintenanceStore, ResourceStore};
use clap::Args;
use serde_json::json;

use crate::config::{Config, ConfigFlags};
use crate::{exposure, first_start, ledger, modes};

#[derive(Debug, Args)]
pub struct DoctorArgs {
    #[command(flatten)]
    pub config: ConfigFlags,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Ok,
    /// Works, but somebody should know.
    Warning,
    Bad,
}

impl Level {
    const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Bad => "bad",
        }
    }
}

impl From<bool> for Level {
    fn from(well: bool) -> Self {
        if well { Self::Ok } else { Self::Bad }
    }
}

/// One look, and what it found.
struct Finding {
    what: &'static str,
    level: Level,
    says: String,
}

pub async fn doctor(args: DoctorArgs, connection: &bowline_cli::Connection) -> anyhow::Result<ExitCode> {
    let mut findings = Vec::new();
    let mut warnings = Vec::new();
    let mut look = |what, well: bool, says: String| findings.push(Finding { what, level: well.into(), says });
    match Config::load(&args.config) {
        Err(error) => look("configuration", false, format!("{error:#}")),
        Ok(config) => {
            look("configuration", true, "every option is known and fits".to_owned());
            modes(&config, &mut look);
            warnings = exposure::of(&config);
            token(&config, &mut look).await;
            server(&config, connection, &mut look).await;
        }
    }
    #[cfg(target_os = "linux")]
    look(
        "isolation",
        true,
        format!("for commands of an agent here: {}", bowline_execute::Machine::look(None).describe()),
    );
    let warned = warnings.into_iter().map(|it| Finding { what: it.what, level: Level::Warning, says: it.says });
    findings.extend(warned);
    let well = findings.iter().all(|f| f.level != Level::Bad);
    let show =
        |f: &Finding| json!({"check": f.what, "ok": f.level != Level::Bad, "level": f.level.name(), "message": f.says});
    let list: Vec<_> = findings.iter().map(show).collect();
    if let Some(text) = document(&json!({"ok": well, "findings": list}), connection.output()) {
        print!("{text}");
    } else {
        for finding in &findings {
            let mark = match finding.level {
                Level::Ok => "ok  ",
                Level::Warning => "WARN",
                Level::Bad => "BAD ",
            };
            println!("{mark} {:14} {}", finding.what, finding.says);
        }
    }
    Ok(if well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn modes(config: &Config, look: &mut impl FnMut(&'static str, bool, String)) {
    let open = modes::open_to_others(config);
    if open.is_empty() {
        return look("modes", true, "what is kept here is readable by its owner only".to_owned());
    }
    let list: Vec<_> = open.iter().map(|(path, mode)| format!("{} ({mode:04o})", path.display())).collect();
    let text = format!("other users of this machine can read {}; a start of the server closes them", list.join(", "));
    look("modes", false, text);
}

async fn token(config: &Config, look: &mut impl FnMut(&'static str, bool, String)) {
    let path = first_start::token_path(&config.server.data_dir);
    match std::fs::metadata(&path) {
        Err(_) if has_administrator(config).await => {
            let text = "the ledger has an administrator; another server wrote the token into its own data directory";
            look("token", true, format!("{} is not there: {text}", path.display()));
        }
        Err(_) => look("token", true, format!("{} is not there yet; the first start makes it", path.display())),
        Ok(meta) if meta.permissions().mode() & 0o077 != 0 => {
            look("token", false, format!("{} can be read by others; chmod 600 it", path.display()));
        }
        Ok(_) => look("token", true, format!("{} is readable by its owner only", path.display())),
    }
}

/// Whether a ledger that several servers share knows an administrator already. The embedded one has its token beside it.
async fn has_administrator(config: &Config) -> bool {
    if config.database.url.is_none() {
        return false;
    }
    let Ok(opened) = ledger::open_as_it_is(config).await else { return false };
    first_start::has_administrator(&*opened.ledger, &*opened.clock).await.unwrap_or(false)
}

/// Asks a running server; opens the ledger itself where none runs.
async fn server(
    config: &Config,
    connection: &bowline_cli::Connection,
    look: &mut impl FnMut(&'static str, bool, String),
) {
    let url = format!("{}/health", connection.server().trim_end_matches('/'));
    let client = bowline_http::client().timeout(std::time::Duration::from_secs(3)).no_proxy().build();
    let answer = match client {
        Ok(client) => client.get(&url).send().await,
        Err(error) => return look("server", false, error.to_string()),
    };
    match answer {
        Ok(answer) if answer.status().is_success() => {
            look("server", true, format!("{} answers and its ledger takes writes", connection.server()));
            let health: serde_json::Value = answer.json().await.unwrap_or_default();
            let held = health["clock"] == "held";
            let says =
                if held { health["reason"].as_str().unwrap_or("held") } else { "the server's clock is believed" };
            return look("clock", !held, says.to_owned());
        }
        Ok(answer) => {
            let text = format!("{} answers {}: its ledger is away", connection.server(), answer.status());
            return look("server", false, text);
        }
        Err(_) => look("server", true, format!("none is running at {}", connection.server())),
    }
    match ledger::open_as_it_is(config).await {
        Err(error) => look("ledger", false, format!("{error:#}")),
        Ok(opened) => {
            // Asked for once, so that it is compared with the ledger's last known time.
            opened.clock.now();
            let clock = opened.ledger.clock_status();
            look("clock", !clock.is_held(), bowline_engine::explain_clock(&clock));
            verify(&opened, look).await;
            schemas(&*opened.ledger, look).await;
        }
    }
}

/// Whether the schemas of stored command types are within the bounds that hold for new ones.
async fn schemas(ledger: &impl ResourceStore, look: &mut impl FnMut(&'static str, bool, String)) {
    let (mut seen, mut too_large, mut after) = (0, Vec::new(), 0);
    loop {
        let page = match ledger.list_active(ResourceKind::Command, after, 500).await {
            Ok(page) => page,
            Err(error) => return look("schemas", false, error.to_string()),
        };
        for (tenant, record) in &page.items {
            let spec: Option<CommandSpec> = serde_json::from_str(&record.version.spec).ok();
            let Some(schema) = spec.and_then(|spec| spec.params) else { continue };
            seen += 1;
            if let Err(what) = check_stored_schema(&schema) {
                let (name, version) = (&record.name, record.version.version);
                too_large.push(format!("command {name} version {version} of tenant {tenant}: params: {what}"));
            }
        }
        match page.next {
            Some(next) => after = next,
            None => break,
        }
    }
    if too_large.is_empty() {
        look("schemas", true, format!("{seen} schemas of parameters are within their bounds"));
    } else {
        look("schemas", false, format!("{}; store a version with a simpler schema", too_large.join("; ")));
    }
}

async fn verify(opened: &ledger::Opened, look: &mut impl FnMut(&'static str, bool, String)) {
    match opened.ledger.verify(20).await {
        Err(error) => look("ledger", false, error.to_string()),
        Ok(verified) if verified.faults.is_empty() => {
            look("ledger", true, format!("{} jobs and {} events agree", verified.jobs, verified.events));
        }
        Ok(verified) => look("ledger", false, verified.faults.join("; ")),
    }
}
