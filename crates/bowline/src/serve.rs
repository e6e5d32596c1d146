//! `bowline serve`: opens the house, and closes it well.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use bowline_api::{ApiSettings, App, Gate, GateSettings, ServerTls};
use bowline_connect::egress::Doors;
use bowline_engine::builtin::{Handlers, HttpRequest, NAME_PREFIX, RabbitmqPublish};
use bowline_engine::evaluations::{self, Evaluations};
use bowline_engine::secrets::Secrets;
use bowline_engine::{Engine, EngineSettings, Figures, watch_clock};
use bowline_model::event::EventData;
use bowline_model::{EventKind, TaskType};
use bowline_store::{Ledger, Notice, Retention};
use bowline_supervise::{Meters, Supervisor, TaskKind};
use clap::Args;
use rand::RngExt;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Mutex;

use crate::config::{Config, ConfigFlags};
use crate::heads::HeadKeeper;
use crate::in_memory::Temporary;
use crate::reload::Reload;
use crate::role::Role;
use crate::{closed, demo, exposure, first_start, jwks, ledger, log, modes, objects, secrets};

const STOPPING: &str = "\
The first SIGTERM or Ctrl-C stops the server gracefully: it takes nothing new, and what runs may finish, up to \
server.close_ms. The second one stops it at once. What it has answered is in the ledger, and workers and agents continue \
without it. SIGHUP reads the configuration again: log.level and log.access apply at once, the log says what needs a restart.";

/// Flags of `serve`.
#[derive(Debug, Clone, Args)]
#[command(after_help = STOPPING)]
pub struct ServeArgs {
    #[command(flatten)]
    pub config: ConfigFlags,
    /// Listen on this address
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub listen: Option<SocketAddr>,
    /// Serve HTTPS with this certificate and those above it (PEM); read again when it changes
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The key to the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Which part of the work this server takes; several servers share one PostgreSQL ledger [default: all]
    #[arg(long, value_enum)]
    pub role: Option<Role>,
    /// For development: keep nothing. Ledger, token and output are in a temporary directory that is removed when the server
    /// ends
    #[arg(long, conflicts_with_all = ["data_dir", "database_url"])]
    pub in_memory: bool,
    /// Keep output in this server's objects directory from now on, although the ledger knows another one. What is only in
    /// the other one is lost
    #[arg(long)]
    pub adopt_objects: bool,
    /// Submit some thousands of demonstration jobs and show how they go
    #[arg(long)]
    pub demo: bool,
}

impl ServeArgs {
    /// What is in force: the configuration, overruled by these flags. At the start and at every SIGHUP.
    pub fn configuration(&self) -> anyhow::Result<Config> {
        let mut config = Config::load(&self.config)?;
        config.server.listen = self.listen.unwrap_or(config.server.listen);
        config.server.role = self.role.unwrap_or(config.server.role);
        if let (Some(cert), Some(key)) = (&self.tls_cert, &self.tls_key) {
            (config.tls.cert, config.tls.key) = (Some(cert.clone()), Some(key.clone()));
        }
        Ok(config)
    }
}

fn address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "an address with its port is expected, such as 127.0.0.1:7420 or [::]:7420")
}

/// What is kept of `close_ms` for the end: signing where the audit trail ends, and closing the ledger. A fifth of it at most.
const LAST_WORDS: Duration = Duration::from_secs(1);
const DAY_MS: f64 = 86_400_000.0;

pub async fn serve(args: ServeArgs) -> anyhow::Result<ExitCode> {
    let mut config = args.configuration()?;
    let role = config.server.role;
    let temporary = if args.in_memory { Some(Temporary::make(&mut config, &args.config)?) } else { None };
    role.check(&config)?;
    ensure!(!args.demo || role == Role::All, "--demo shows everything a server does, so it needs --role all");
    // The demonstration draws on the terminal; log lines below warnings would tear it.
    let quiet = args.demo && std::io::stderr().is_terminal() && config.log.level == "info";
    let log_level = log::start(if quiet { "warn" } else { &config.log.level }, config.log.access)?;
    // From the first moment: a terminal that closes, or somebody's `reload`, does not end the server.
    let hangup = signal(SignalKind::hangup())?;
    ensure_port_is_free(config.server.listen)?;

    closed::close_memory();
    let descriptors = closed::raise_descriptor_limit();
    modes::close_new_files();
    // Also where the ledger is elsewhere: marks, the key of the audit trail and output are kept here.
    modes::prepare_directory(&config.server.data_dir)?;
    for exposure in exposure::of(&config) {
        tracing::warn!("{}", exposure.says);
    }
    let tls = config.tls.files().map(ServerTls::open).transpose().context("HTTPS cannot be served")?;
    let jwt = jwks::verifier(&config.auth)?;
    let meters = Meters::new();
    let figures = Figures::of(Arc::clone(&meters));
    let opened = ledger::open(&config, Some(figures)).await?;
    let (ledger, clock) = (Arc::clone(&opened.ledger), Arc::clone(&opened.clock));
    if !ledger.migrated.applied.is_empty() {
        tracing::info!("the ledger was brought to version {}", ledger.migrated.version);
    }
    if opened.embedded {
        // We hold the directory alone, so whatever ran in the server before us is over.
        let over = ledger.reclaim(NAME_PREFIX).await?;
        if over > 0 {
            tracing::warn!("{over} runs were cut off when the server stopped; they go on with their next attempt");
        }
    }
    // Under the lock of the data directory, where there is one: nothing is evaluated before this.
    let (marks, twice) = Evaluations::open(&config.server.data_dir)
        .with_context(|| format!("cannot read the marks of evaluations in {}", config.server.data_dir.display()))?;
    evaluations::install(marks);
    let cursor_secret = ledger.cursor_secret();
    let shared: Arc<dyn Ledger> = ledger;
    let (tenant, first) = if role == Role::Worker {
        // Nobody can use a token here, so the first server with an API makes it.
        (first_start::first_tenant(&*shared, &*clock).await?, false)
    } else {
        first_start::welcome(&*shared, &*clock, &config.server.data_dir).await?
    };

    let heads = HeadKeeper::open(Arc::clone(&shared), &config.server.data_dir).await?;

    let seed: u64 = rand::rng().random();
    let settings = EngineSettings {
        weights: config.dispatch.weights,
        strategy: config.dispatch.strategy,
        lease: config.lease.times(),
        retention: Retention {
            finished_jobs_ms: (config.retention.finished_jobs_days * DAY_MS) as i64,
            events_ms: (config.retention.events_days * DAY_MS) as i64,
        },
        job_deadline_ms: config.jobs.deadline_ms(),
        command_retries: config.commands.retries(),
        builtin_slots: config.builtin.slots,
        egress: config.egress.rules(),
        quotas: config.quotas.limits(),
        server_name: format!("{seed:016x}"),
        seed,
    };
    let blobs = objects::open(&config, &*shared, args.adopt_objects).await?;
    let places = secrets::sources(&config.server.data_dir);
    let secrets = Secrets::new(Arc::clone(&shared), Arc::clone(&clock), config.secrets.rules(), places);
    let mut handlers = Handlers::standard();
    let publish = RabbitmqPublish::new(Arc::clone(&shared), Arc::clone(&secrets), settings.egress.clone());
    handlers.add(TaskType::new(RabbitmqPublish::TASK_TYPE)?, Arc::new(publish));
    let calls = HttpRequest::new(Doors::new(settings.egress.clone())?, Arc::clone(&secrets), Arc::clone(&clock));
    handlers.add(HttpRequest::task_type(), Arc::new(calls));
    let engine = Engine::new(Arc::clone(&shared), Arc::clone(&clock), meters, settings, handlers, blobs, secrets)?;
    let gate = Gate::new(Arc::clone(&shared), Arc::clone(&clock), jwt, GateSettings::default());
    let supervisor = Supervisor::new();
    let api = ApiSettings {
        body_max: config.limits.body_bytes,
        batch_body_max: config.limits.batch_body_bytes,
        inventory_body_max: config.limits.inventory_body_bytes,
        streams: config.limits.stream_shares(),
        polls: config.limits.poll_shares(),
        connections: config.limits.connection_limits(descriptors),
        health_only: role == Role::Worker,
        ..ApiSettings::default()
    };
    let app = App::new(Arc::clone(&engine), Arc::clone(&gate), api, cursor_secret, supervisor.stop().clone());
    // Before anybody can see that we are here: whoever asks a server to leave that has just come is heard, too.
    let goodbye = Goodbye { term: signal(SignalKind::terminate())?, int: signal(SignalKind::interrupt())? };
    let listener =
        TcpListener::bind(config.server.listen).await.with_context(|| cannot_listen(config.server.listen))?;
    let address = listener.local_addr()?;

    if !twice.is_empty() {
        for subject in &twice {
            tracing::error!(tenant = %subject.tenant, subject = %subject.name, "set aside an evaluation that ended the server twice");
        }
        shared.set_aside(twice.iter().map(|one| (one.tenant, one.name.clone())).collect()).await?;
        evaluations::current().forget(&twice);
    }
    engine.refresh_set_aside().await?;
    engine.start_services(role.services(), &supervisor);
    let reload = Arc::new(Reload {
        args: args.clone(),
        temporary: temporary.as_ref().map(|temporary| temporary.path().to_owned()),
        level: log_level,
        hangup: Mutex::new(hangup),
    });
    supervisor.start(TaskKind::ConfigReload, {
        let stop = supervisor.stop().clone();
        let running = Arc::new(config.clone());
        move || Arc::clone(&reload).run(Arc::clone(&running), stop.clone())
    });
    let mut listener = Some(listener);
    let (door, stop, secure) = (app.clone(), supervisor.stop().clone(), tls.clone());
    supervisor.start(TaskKind::HttpServer, move || {
        let listener = listener.take();
        let (door, stop, secure) = (door.clone(), stop.clone(), secure.clone());
        async move { bowline_api::serve(listener.context("the socket was already used")?, secure, door, stop).await }
    });
    if let Some(tls) = tls {
        let stop = supervisor.stop().clone();
        supervisor.start(TaskKind::CertificateReload, move || Arc::clone(&tls).reload_forever(stop.clone()));
    }
    if gate.jwt().is_some() {
        let (clock, stop) = (Arc::clone(&clock), supervisor.stop().clone());
        supervisor.start(TaskKind::KeyRefresh, move || {
            jwks::refresh_forever(Arc::clone(&gate), Arc::clone(&clock), stop.clone())
        });
    }
    let (keeper, stop) = (Arc::clone(&heads), supervisor.stop().clone());
    supervisor.start(TaskKind::AuditHeads, move || Arc::clone(&keeper).keep_forever(stop.clone()));
    let (refusals, stop) = (Arc::clone(&app.refusals), supervisor.stop().clone());
    supervisor.start(TaskKind::Refusals, move || Arc::clone(&refusals).run(stop.clone()));
    let (watched, stop) = (Arc::clone(&engine), supervisor.stop().clone());
    supervisor.start(TaskKind::ClockWatch, move || {
        watch_clock(Arc::clone(&watched.ledger), Arc::clone(&watched.meters), tenant, stop.clone())
    });
    let notice = Notice { tenant, kind: EventKind::ServerStarted, data: EventData::default() };
    if let Err(error) = shared.note(notice).await {
        // The door is open already; a missing note is no reason to close it.
        tracing::warn!("the start was not noted in the ledger: {error}");
    }
    greet(&config, address, first, temporary.is_some());
    if args.demo {
        let stage = demo::Stage {
            engine: Arc::clone(&engine),
            tenant,
            bowline: how_to_call(Some(&first_start::token_path(&config.server.data_dir)), &url_of(&config, address)),
            address,
            data_dir: config.server.data_dir.clone(),
        };
        let stop = supervisor.stop().clone();
        supervisor.start(TaskKind::Demonstration, move || demo::run(stage.clone(), stop.clone()));
    }
    wait_and_close(&config, goodbye, &supervisor, &app, &*shared, &heads, temporary.as_ref()).await
}

/// Says that a port is taken before anything is made in a new data directory.
fn ensure_port_is_free(listen: SocketAddr) -> anyhow::Result<()> {
    std::net::TcpListener::bind(listen).map(drop).with_context(|| cannot_listen(listen))
}

fn cannot_listen(listen: SocketAddr) -> String {
    format!("cannot listen on {listen} (server.listen, PORT, --listen)")
}

/// Those who ask us to leave.
struct Goodbye {
    term: Signal,
    int: Signal,
}

/// Where this server can be asked.
fn url_of(config: &Config, address: SocketAddr) -> String {
    let scheme = if config.tls.files().is_some() { "https" } else { "http" };
    format!("{scheme}://{address}")
}

fn greet(config: &Config, address: SocketAddr, first: bool, in_memory: bool) {
    let role = config.server.role;
    let token = first_start::token_path(&config.server.data_dir);
    // The first server of a ledger writes the token, into its own directory. The others have none to offer.
    let token = Some(token).filter(|token| token.exists());
    if !std::io::stdout().is_terminal() {
        // A banner among the lines of a log helps neither people nor machines.
        let version = env!("CARGO_PKG_VERSION");
        let file = token.as_ref().map(|token| tracing::field::display(token.display()));
        tracing::info!(server.url = url_of(config, address), server.address = %address, server.version = version, server.role = role.word(), server.in_memory = in_memory, token.file = file, "listening");
        return;
    }
    let data_dir = config.server.data_dir.display();
    let store = match &config.database.url {
        Some(_) => "PostgreSQL".to_owned(),
        None if in_memory => format!("in memory: nothing is kept when this server ends (until then in {data_dir})"),
        None => format!("embedded, in {data_dir}"),
    };
    let made = if first { " (made just now)" } else { "" };
    let url = url_of(config, address);
    println!("Bowline {} is listening on {url}", env!("CARGO_PKG_VERSION"));
    println!("  ledger   {store}");
    if role != Role::All {
        println!("  role     {}", role.word());
    }
    if role == Role::Worker {
        println!();
        println!("This server executes jobs and has no API: it answers {url}/health and {url}/metrics.");
        println!();
        return;
    }
    match &token {
        Some(token) => println!("  token    {}{made}", token.display()),
        None => println!(
            "  token    not here: the ledger has an administrator already; set BOWLINE_TOKEN to a token of yours"
        ),
    }
    println!();
    let bowline = how_to_call(token.as_deref(), &url);
    let shown = token.map_or_else(|| "$BOWLINE_TOKEN".to_owned(), |token| format!("$(cat {})", token.display()));
    println!("Try:");
    println!("  {bowline} job submit echo --payload '{{\"hello\":\"world\"}}' --wait");
    println!("  {bowline} job list --limit 10");
    println!("  curl -s -H \"authorization: Bearer {shown}\" {url}/lanes");
    println!();
}

/// The program as it was called just now, with what it must be told to find this server and its token.
fn how_to_call(token: Option<&Path>, server: &str) -> String {
    let mut words = vec![std::env::args().next().unwrap_or_else(|| "bowline".to_owned())];
    if server != bowline_cli::DEFAULT_SERVER {
        words.extend(["--server".to_owned(), server.to_owned()]);
    }
    let default = Path::new(bowline_cli::DEFAULT_TOKEN_FILE);
    if let Some(token) = token.filter(|token| *token != default && Path::new(".").join(token) != default) {
        words.extend(["--token-file".to_owned(), token.display().to_string()]);
    }
    words.join(" ")
}

async fn wait_and_close(
    config: &Config,
    Goodbye { mut term, mut int }: Goodbye,
    supervisor: &Supervisor,
    app: &App,
    ledger: &dyn Ledger,
    heads: &HeadKeeper,
    temporary: Option<&Temporary>,
) -> anyhow::Result<ExitCode> {
    let remove = || {
        if let Some(temporary) = temporary {
            temporary.remove();
        }
    };
    let fell = tokio::select! {
        _ = term.recv() => false,
        _ = int.recv() => false,
        () = supervisor.stop().cancelled() => true,
    };
    // Readiness first, so that nobody new is sent here.
    app.set_ready(false);
    if std::io::stderr().is_terminal() {
        eprintln!("\nClosing: running work may finish. Ctrl-C again to insist.");
    }
    tracing::info!("closing: no new work is taken, running work may finish");
    // The whole of it, last words included, takes no longer than was promised; what serves orchestrators counts on it.
    let (farewell, patience) =
        (Duration::from_millis(config.server.farewell_ms), Duration::from_millis(config.server.close_ms));
    let deadline = tokio::time::Instant::now() + farewell + patience;
    let closing = async {
        tokio::time::sleep(farewell).await;
        supervisor.close(patience.saturating_sub(LAST_WORDS.min(patience / 5))).await
    };
    let left = tokio::select! {
        left = closing => left,
        () = insisted(&mut term, &mut int) => {
            tracing::warn!("left at once, because a second signal insisted");
            // Not by returning: that would wait for threads that wait for a disk. The ledger holds what was answered.
            remove();
            std::process::exit(1);
        }
    };
    // Nothing moves any more, so these are the last ones.
    match tokio::time::timeout_at(deadline, heads.keep()).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => tracing::warn!("the last heads of the audit trail were not signed: {error:#}"),
        Err(_) => tracing::warn!("the last heads of the audit trail were not signed: the ledger does not answer"),
    }
    let closed = left.is_empty() && tokio::time::timeout_at(deadline, ledger.close()).await.is_ok();
    if closed {
        tracing::info!("closed");
        return Ok(if fell { ExitCode::FAILURE } else { ExitCode::SUCCESS });
    }
    if left.is_empty() {
        tracing::warn!("closed without the ledger, which does not answer");
    } else {
        tracing::warn!("closed, leaving behind: {}", left.join(", "));
    }
    // Not by returning: that would wait for threads that wait for the ledger. It holds what was answered.
    remove();
    std::process::exit(1)
}

async fn insisted(term: &mut Signal, int: &mut Signal) {
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        serve: ServeArgs,
    }

    /// Flags overrule the file at the start and at every reload, so what the file says there makes no difference.
    #[test]
    fn what_flags_overrule_never_differs_at_a_reload() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let path = file.path().to_str().expect("a text");
        let flags = ["--listen", "127.0.0.1:1", "--role", "api", "--tls-cert", "/a.pem", "--tls-key", "/a.key"];
        let args = Program::parse_from(["serve", "--config", path].iter().chain(&flags)).serve;
        let running = args.configuration().expect("a configuration");
        assert_eq!(running.tls.cert.as_deref(), Some(Path::new("/a.pem")));
        let text =
            "[server]\nlisten = \"127.0.0.1:2\"\nrole = \"worker\"\n[tls]\ncert = \"/b.pem\"\nkey = \"/b.key\"\n";
        std::fs::write(file.path(), text).expect("written");
        assert_eq!(running.differs(&args.configuration().expect("a configuration")), [""; 0]);
        let without = Program::parse_from(["serve", "--config", path]).serve;
        assert_eq!(running.differs(&without.configuration().expect("a configuration")), ["server", "tls"]);
    }
}
