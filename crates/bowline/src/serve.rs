//! `bowline serve`: opens the house, and closes it well.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bowline_api::{ApiSettings, App, Gate, GateSettings};
use bowline_backbone::FileBlobs;
use bowline_engine::builtin::{Handlers, NAME_PREFIX};
use bowline_engine::secrets::Secrets;
use bowline_engine::{Engine, EngineSettings, Figures};
use bowline_model::EventKind;
use bowline_model::event::EventData;
use bowline_store::{Ledger, Notice, Retention};
use bowline_supervise::{Meters, Supervisor, TaskKind};
use clap::Args;
use rand::RngExt;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::config::{Config, ConfigFlags};
use crate::{closed, demo, first_start, jwks, ledger, log, secrets};

/// Flags of `serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    #[command(flatten)]
    pub config: ConfigFlags,
    /// Listen on this address
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
    /// Submit some thousands of demonstration jobs and show how they go
    #[arg(long)]
    pub demo: bool,
}

const DAY_MS: f64 = 86_400_000.0;

pub async fn serve(args: ServeArgs) -> anyhow::Result<ExitCode> {
    let mut config = Config::load(&args.config)?;
    if let Some(listen) = args.listen {
        config.server.listen = listen;
    }
    // The demonstration draws on the terminal; log lines below warnings would tear it.
    let quiet = args.demo && std::io::stderr().is_terminal() && config.log.level == "info";
    log::start(if quiet { "warn" } else { &config.log.level })?;

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
        server_name: format!("{seed:016x}"),
        seed,
    };
    let objects = config.server.data_dir.join("objects");
    let blobs = FileBlobs::open(&objects).with_context(|| format!("output cannot be kept in {}", objects.display()))?;
    let places = secrets::sources(&config.server.data_dir);
    let secrets = Secrets::new(Arc::clone(&shared), Arc::clone(&clock), config.secrets.rules(), places);
    let engine = Engine::new(
        Arc::clone(&shared),
        Arc::clone(&clock),
        meters,
        settings,
        Handlers::standard(),
        Arc::new(blobs),
        secrets,
    )?;
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
    let listener = TcpListener::bind(config.server.listen)
        .await
        .with_context(|| format!("cannot listen on {} (server.listen, PORT, --listen)", config.server.listen))?;
    let address = listener.local_addr()?;

    engine.start(&supervisor);
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
    wait_and_close(&config, &supervisor, &app, &*shared).await
}

fn greet(config: &Config, address: SocketAddr, first: bool) {
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
    supervisor: &Supervisor,
    app: &App,
    ledger: &dyn Ledger,
) -> anyhow::Result<ExitCode> {
    let mut term = signal(SignalKind::terminate())?;
    let mut int = signal(SignalKind::interrupt())?;
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
        _ = term.recv() => vec!["everybody: a second signal insisted"],
        _ = int.recv() => vec!["everybody: a second signal insisted"],
    };
    if left.is_empty() {
        ledger.close().await;
        tracing::info!("closed");
        return Ok(if fell { ExitCode::FAILURE } else { ExitCode::SUCCESS });
    }
    tracing::warn!("closed, leaving behind: {}", left.join(", "));
    Ok(ExitCode::FAILURE)
}
