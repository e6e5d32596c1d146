//! `bowline serve`: opens the house, and closes it well.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bowline_api::{ApiSettings, App, Gate, GateSettings};
use bowline_connect::egress::Doors;
use bowline_engine::builtin::{Handlers, HttpRequest, NAME_PREFIX, RabbitmqPublish};
use bowline_engine::secrets::Secrets;
use bowline_engine::{Engine, EngineSettings, Figures};
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
use crate::reload::Reload;
use crate::{closed, demo, first_start, jwks, ledger, log, objects, secrets};

const STOPPING: &str = "\
The first SIGTERM or Ctrl-C asks: nothing new is taken, what runs may finish, up to server.close_ms. The second one insists: \
the server leaves at once. What it has answered is in the ledger, and workers and agents go on without it. SIGHUP reads the \
configuration again: log.level counts at once, the log says what needs a restart.";

/// Flags of `serve`.
#[derive(Debug, Args)]
#[command(after_help = STOPPING)]
pub struct ServeArgs {
    #[command(flatten)]
    pub config: ConfigFlags,
    /// Listen on this address
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
    /// Keep output in this server's objects directory from now on, although the ledger knows another one. What is only in
    /// the other one is lost
    #[arg(long)]
    pub adopt_objects: bool,
    /// Submit some thousands of demonstration jobs and show how they go
    #[arg(long)]
    pub demo: bool,
}

/// How long a ledger may take to say where its audit trail ends, when the house closes.
const LAST_HEADS: Duration = Duration::from_secs(5);
const DAY_MS: f64 = 86_400_000.0;

pub async fn serve(args: ServeArgs) -> anyhow::Result<ExitCode> {
    let mut config = Config::load(&args.config)?;
    if let Some(listen) = args.listen {
        config.server.listen = listen;
    }
    // The demonstration draws on the terminal; log lines below warnings would tear it.
    let quiet = args.demo && std::io::stderr().is_terminal() && config.log.level == "info";
    let log_level = log::start(if quiet { "warn" } else { &config.log.level })?;
    // From the first moment: a terminal that closes, or somebody's `reload`, does not end the server.
    let hangup = signal(SignalKind::hangup())?;
    ensure_port_is_free(config.server.listen)?;

    closed::close_memory();
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
    let cursor_secret = ledger.cursor_secret();
    let shared: Arc<dyn Ledger> = ledger;
    let (tenant, first) = first_start::welcome(&*shared, &*clock, &config.server.data_dir).await?;

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
        builtin_slots: config.builtin.slots,
        egress: config.egress.rules(),
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
        streams_max: config.limits.streams,
        ..ApiSettings::default()
    };
    let app = App::new(Arc::clone(&engine), Arc::clone(&gate), api, cursor_secret, supervisor.stop().clone());
    // Before anybody can see that we are here: whoever asks a server to leave that has just come is heard, too.
    let goodbye = Goodbye { term: signal(SignalKind::terminate())?, int: signal(SignalKind::interrupt())? };
    let listener =
        TcpListener::bind(config.server.listen).await.with_context(|| cannot_listen(config.server.listen))?;
    let address = listener.local_addr()?;

    engine.start(&supervisor);
    let (flags, listen) = (args.config.clone(), args.listen);
    let reload = Arc::new(Reload { flags, listen, level: log_level, hangup: Mutex::new(hangup) });
    supervisor.start(TaskKind::ConfigReload, {
        let stop = supervisor.stop().clone();
        let running = Arc::new(config.clone());
        move || Arc::clone(&reload).run(Arc::clone(&running), stop.clone())
    });
    let mut listener = Some(listener);
    let (door, stop) = (app.clone(), supervisor.stop().clone());
    supervisor.start(TaskKind::HttpServer, move || {
        let listener = listener.take();
        let (door, stop) = (door.clone(), stop.clone());
        async move { bowline_api::serve(listener.context("the socket was already used")?, door, stop).await }
    });
    if gate.jwt().is_some() {
        let (clock, stop) = (Arc::clone(&clock), supervisor.stop().clone());
        supervisor.start(TaskKind::KeyRefresh, move || {
            jwks::refresh_forever(Arc::clone(&gate), Arc::clone(&clock), stop.clone())
        });
    }
    let (keeper, stop) = (Arc::clone(&heads), supervisor.stop().clone());
    supervisor.start(TaskKind::AuditHeads, move || Arc::clone(&keeper).keep_forever(stop.clone()));
    let notice = Notice { tenant, kind: EventKind::ServerStarted, data: EventData::default() };
    if let Err(error) = shared.note(notice).await {
        // The door is open already; a missing note is no reason to close it.
        tracing::warn!("the start was not noted in the ledger: {error}");
    }
    greet(&config, address, first);
    if args.demo {
        let stage = demo::Stage {
            engine: Arc::clone(&engine),
            tenant,
            bowline: how_to_call(&first_start::token_path(&config.server.data_dir), address),
            address,
            data_dir: config.server.data_dir.clone(),
        };
        let stop = supervisor.stop().clone();
        supervisor.start(TaskKind::Demonstration, move || demo::run(stage.clone(), stop.clone()));
    }
    wait_and_close(&config, goodbye, &supervisor, &app, &*shared, &heads).await
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

fn greet(config: &Config, address: SocketAddr, first: bool) {
    if !std::io::stdout().is_terminal() {
        // A banner among the lines of a log helps neither people nor machines.
        let token = first_start::token_path(&config.server.data_dir);
        let (version, token) = (env!("CARGO_PKG_VERSION"), token.display());
        tracing::info!(server.address = %address, server.version = version, token.file = %token, "listening");
        return;
    }
    let token = first_start::token_path(&config.server.data_dir);
    let store = config
        .database
        .url
        .as_ref()
        .map_or_else(|| format!("embedded, in {}", config.server.data_dir.display()), |_| "PostgreSQL".to_owned());
    let made = if first { " (made just now)" } else { "" };
    println!("Bowline {} is listening on http://{address}", env!("CARGO_PKG_VERSION"));
    println!("  ledger   {store}");
    println!("  token    {}{made}", token.display());
    println!();
    let bowline = how_to_call(&token, address);
    println!("Try:");
    println!("  {bowline} job submit echo --payload '{{\"hello\":\"world\"}}' --wait");
    println!("  {bowline} job list --limit 10");
    println!("  curl -s -H \"authorization: Bearer $(cat {})\" http://{address}/lanes", token.display());
    println!();
}

/// The program as it was called just now, with what it must be told to find this server and its token.
fn how_to_call(token: &Path, address: SocketAddr) -> String {
    let mut words = vec![std::env::args().next().unwrap_or_else(|| "bowline".to_owned())];
    let server = format!("http://{address}");
    if server != bowline_cli::DEFAULT_SERVER {
        words.extend(["--server".to_owned(), server]);
    }
    let default = Path::new(bowline_cli::DEFAULT_TOKEN_FILE);
    if token != default && Path::new(".").join(token) != default {
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
) -> anyhow::Result<ExitCode> {
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
    let patience = Duration::from_millis(config.server.close_ms);
    let closing = async {
        tokio::time::sleep(Duration::from_millis(config.server.farewell_ms)).await;
        supervisor.close(patience).await
    };
    let left = tokio::select! {
        left = closing => left,
        () = insisted(&mut term, &mut int) => {
            tracing::warn!("left at once, because a second signal insisted");
            // Not by returning: that would wait for threads that wait for a disk. The ledger holds what was answered.
            std::process::exit(1);
        }
    };
    // Nothing moves any more, so these are the last ones.
    match tokio::time::timeout(LAST_HEADS, heads.keep()).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => tracing::warn!("the last heads of the audit trail were not signed: {error:#}"),
        Err(_) => tracing::warn!("the last heads of the audit trail were not signed: the ledger does not answer"),
    }
    if left.is_empty() {
        ledger.close().await;
        tracing::info!("closed");
        return Ok(if fell { ExitCode::FAILURE } else { ExitCode::SUCCESS });
    }
    tracing::warn!("closed, leaving behind: {}", left.join(", "));
    Ok(ExitCode::FAILURE)
}

async fn insisted(term: &mut Signal, int: &mut Signal) {
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
}
