//! A command on a thousand hosts that do not exist, played by an agent of its own over a bad network: some hosts are slow,
//! some fail, some take too long, some go silent for a while and tell the truth late.

use std::io::IsTerminal;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use bowline_auth::{Audiences, TokenKind, TokenText};
use bowline_engine::fleet::{CommandChoice, CommandRequest, HostChoice};
use bowline_model::admission::{Admission, Reach};
use bowline_model::fleet::{CommandSpec, Rollout, Template};
use bowline_model::host::{Connection, Host, Inventory, Vars};
use bowline_model::{HostName, InventoryName, JobId, JobStatus, Labels, Lane, RetryPolicy, WorkerName};
use bowline_store::{FleetRecord, InventoryPut, Origin, Submitted, TokenRecord, Unmentioned};
use indicatif::{ProgressBar, ProgressStyle};
use rand::RngExt;
use tokio_util::sync::CancellationToken;

use super::Stage;

const HOSTS: usize = 1_000;
const AGENT: &str = "demo-agent";
const LOOK: Duration = Duration::from_millis(100);
/// The agent has this long to join.
const PATIENCE: Duration = Duration::from_secs(20);

/// The agent goes when the demonstration goes.
struct Player(Child);

impl Drop for Player {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

pub async fn run(stage: &Stage, stop: &CancellationToken) -> anyhow::Result<()> {
    println!();
    println!("Now a command on {HOSTS} hosts over a bad network: a few fail, time out, or go silent and come back.");
    let inventory = put_hosts(stage).await?;
    let mut player = start_agent(stage).await?;
    wait_for_agent(stage, &mut player, stop).await?;
    let job = ask(stage, inventory).await?;
    let Some((fleet, status, took)) = watch(stage, job, stop).await? else { return Ok(()) };
    let count = |status| fleet.tally.of(status);
    println!(
        "{HOSTS} hosts in {took:.1} s: {} succeeded, {} failed, {} timed out, {} lost ({status}).",
        count(JobStatus::Succeeded),
        count(JobStatus::Failed),
        count(JobStatus::TimedOut),
        count(JobStatus::Error),
    );
    let bowline = &stage.bowline;
    println!(
        "See who with `{bowline} job hosts {job} --status failed`; try those again with `{bowline} job retry {job}`."
    );
    println!("The hosts stay as the inventory `demo`: `{bowline} run uptime --inventory demo --on 'site=ams'`.");
    println!("Still serving; stop with Ctrl-C.");
    // The agent stays with the server, so that these commands have somebody to run them.
    stop.cancelled().await;
    Ok(())
}

async fn put_hosts(stage: &Stage) -> anyhow::Result<InventoryName> {
    let inventory = InventoryName::new("demo")?;
    let sites = ["ams", "fra", "lon", "nyc"];
    let hosts = (0..HOSTS).map(|n| {
        let labels = Labels::from_canonical(&format!("role=web site={}", sites[n % sites.len()]))?;
        let connection = Connection::Simulate { through: Labels::default() };
        Ok(Host { labels, connection, ..Host::named(HostName::new(&format!("web-{n:04}"))?) })
    });
    let hosts: anyhow::Result<Vec<Host>> = hosts.collect();
    let content = Arc::new(Inventory { hosts: hosts?, groups: Vec::new() });
    let put = InventoryPut {
        tenant: stage.tenant,
        inventory: inventory.clone(),
        content,
        unmentioned: Unmentioned::Remove,
        by: "demonstration".into(),
        reason: None,
    };
    stage.engine.ledger.put_inventory(put).await?;
    Ok(inventory)
}

/// The agent is a process of its own, as agents are; it comes to the server through the network.
async fn start_agent(stage: &Stage) -> anyhow::Result<Player> {
    let program = std::env::current_exe().context("this program cannot be found")?;
    let data = stage.data_dir.join(AGENT);
    let mut command = Command::new(program);
    command
        .args(["agent", "--server", &format!("http://{}", stage.address), "--name", AGENT, "--data"])
        .arg(&data)
        .args(["--reach", "simulate", "--seed", "7", "--latency", "20:1500", "--slots", "2000", "--share-user"])
        .args(["--failure", "0.02", "--timeout", "0.005", "--disconnect", "0.02"])
        .env("LOG_LEVEL", "error")
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let joined = stage.engine.ledger.find_agent(stage.tenant, WorkerName::new(AGENT)?).await?.is_some();
    if !joined {
        command.args(["--join", &join_token(stage).await?]);
    }
    Ok(Player(command.spawn().context("the agent cannot be started")?))
}

async fn join_token(stage: &Stage) -> anyhow::Result<String> {
    let mut entropy = [0u8; bowline_auth::token::ENTROPY_BYTES];
    rand::rng().fill(&mut entropy);
    let token = TokenText::mint(TokenKind::Join, entropy);
    let now = stage.engine.clock.now();
    let record = TokenRecord {
        id: token.id().to_string(),
        kind: TokenKind::Join.to_string(),
        tenant: Some(stage.tenant),
        name: AGENT.to_owned(),
        secret_hash: token.secret_hash(),
        scopes: String::new(),
        audiences: Audiences::ALL.to_string(),
        labels: Labels::default(),
        admission: Admission { reach: [Reach::Simulate].into(), ..Admission::default() },
        email: None,
        made_by: None,
        person: None,
        created_at: now,
        expires_at: Some(now.plus_millis(60_000)),
        revoked_at: None,
        used_at: None,
    };
    stage.engine.ledger.create_token(record, "demonstration".into()).await?;
    Ok(token.expose().to_owned())
}

async fn wait_for_agent(stage: &Stage, player: &mut Player, stop: &CancellationToken) -> anyhow::Result<()> {
    let begun = tokio::time::Instant::now();
    let started_at = stage.engine.clock.now();
    let name = WorkerName::new(AGENT)?;
    while !stop.is_cancelled() {
        let found = stage.engine.ledger.find_worker(stage.tenant, name.clone()).await?;
        if found.is_some_and(|worker| worker.seen_at >= started_at) {
            return Ok(());
        }
        if let Some(status) = player.0.try_wait()? {
            bail!("the demonstration's agent ended at once: {status}");
        }
        if begun.elapsed() > PATIENCE {
            bail!("the demonstration's agent has not joined");
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

async fn ask(stage: &Stage, inventory: InventoryName) -> anyhow::Result<JobId> {
    let argv = ["systemctl", "restart", "nginx"].iter().map(|text| Template::parse(text));
    let retry = RetryPolicy { max_attempts: 2, base_ms: 200, max_backoff_ms: 1_000, ..RetryPolicy::default() };
    let spec = CommandSpec {
        argv: argv.collect::<Result<_, _>>()?,
        timeout_ms: 5_000,
        retry: Some(retry),
        idempotent: true,
        ..CommandSpec::default()
    };
    let request = CommandRequest {
        command: CommandChoice::Inline(Box::new(spec)),
        params: Vars::new(),
        inventory,
        hosts: HostChoice::Selector("role=web".to_owned()),
        rollout: Rollout { canary: "2".parse().ok(), ..Rollout::default() },
        deadline_ms: None,
        lane: Lane::Default,
        priority: 0,
        run_at: None,
        idempotency_key: None,
        external_id: None,
    };
    let origin = Origin { actor: "demonstration".into(), request_id: "demonstration".into(), ..Origin::default() };
    let engine = &stage.engine;
    let stored = engine.commands.submit(&engine.intake, &engine.inventories, stage.tenant, &origin, request);
    match stored.await? {
        Submitted::Accepted { id, .. } | Submitted::Replayed { id, .. } | Submitted::Pruned { id, .. } => Ok(id),
        Submitted::Conflict { .. } => bail!("the demonstration has no key that could conflict"),
    }
}

/// Draws until the job is over; `None` if the house closes before.
async fn watch(
    stage: &Stage,
    job: JobId,
    stop: &CancellationToken,
) -> anyhow::Result<Option<(FleetRecord, JobStatus, f64)>> {
    let terminal = std::io::stdout().is_terminal();
    let bar = if terminal { ProgressBar::new(HOSTS as u64) } else { ProgressBar::hidden() };
    let template = "  hosts     {bar:40.green/dim} {pos:>5}/{len} {msg}";
    bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
    let started = tokio::time::Instant::now();
    let mut last_line = started;
    loop {
        let found = stage.engine.ledger.find_job(stage.tenant, job).await?;
        let fleet = stage.engine.ledger.find_fleet(stage.tenant, job).await?;
        let (Some((record, _)), Some(fleet)) = (found, fleet) else { bail!("the demonstration's job is gone") };
        let ended = fleet.tally.all() - fleet.tally.live();
        let failed = fleet.tally.failures();
        let running = fleet.tally.of(JobStatus::Running);
        bar.set_position(ended);
        bar.set_message(format!("{running} running, {failed} failed"));
        if record.state.status.is_terminal() {
            bar.finish_and_clear();
            return Ok(Some((fleet, record.state.status, started.elapsed().as_secs_f64())));
        }
        if !terminal && last_line.elapsed() > Duration::from_secs(1) {
            last_line = tokio::time::Instant::now();
            println!("demonstration: {ended} of {HOSTS} hosts done, {running} running, {failed} failed");
        }
        tokio::select! {
            () = stop.cancelled() => {
                bar.finish_and_clear();
                return Ok(None);
            }
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}
