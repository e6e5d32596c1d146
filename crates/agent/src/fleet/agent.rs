//! An agent's day: find out who it is, register, find its runs again, work, and leave in good order.
//!
//! Leaving: take nothing more, let what lives in this process finish for a while, tell what has ended, go. Runs on this
//! host go on under their keepers, and the next agent finds them. A server that asks us to drain wants all of it to be
//! finished; it is waited for without a limit, until somebody asks us to leave.

use std::sync::Arc;

use bowline_execute::{Runs, Settings, Standing};
use bowline_model::host::Connection;
use bowline_model::{Labels, TaskType, WorkerName};
use bowline_protocol::RegisterRequest;
use bowline_seal::OpeningKey;
use bowline_ssh::SshPool;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::fleet::error::FleetError;
use crate::fleet::evidence::evidence_loop;
use crate::fleet::guard::Guard;
use crate::fleet::identity::{Credential, address, identify};
use crate::fleet::intake::{Desk, TASK_TYPE, accept_loop};
use crate::fleet::local::cancel_loop;
use crate::fleet::outbox::Outbox;
use crate::fleet::recovery::recover;
use crate::fleet::remote::Remotes;
use crate::fleet::renew::renew_loop;
use crate::fleet::roster::{Executor, InHand, Roster};
use crate::fleet::sealing::sealing;
use crate::fleet::secrets::SecretStore;
use crate::fleet::settings::{FleetSettings, Reach};
use crate::fleet::shared::Fleet;
use crate::fleet::ship::{disk_loop, memory_loop};
use crate::fleet::simulate::stage_loop;
use crate::server::backoff::Backoff;
use crate::server::client::Client;
use crate::server::lease_loop::lease_loop;
use crate::server::link::{Link, LinkSettings};
use crate::server::poll_loop::poll_loop;
use crate::server::registration::{Registration, register};

/// Answers of polls that wait to be accepted. Enough to poll while one heartbeat is under way, and not more than can be
/// accepted in time.
const ARRIVED_MAX: usize = 16;

/// An agent that has its data directory to itself and knows who it is.
pub struct FleetAgent {
    settings: FleetSettings,
    runs: Arc<Runs>,
    secrets: SecretStore,
    guard: Guard,
    opening: Option<OpeningKey>,
    credential: Credential,
    remotes: Option<Arc<Remotes>>,
    client: Client,
    request: RegisterRequest,
}

impl FleetAgent {
    /// Takes the data directory, and enrolls if that has not been done. Waits for a server that is away.
    pub async fn open(settings: FleetSettings) -> Result<Self, FleetError> {
        if !(1..=100_000).contains(&settings.slots) {
            return Err(FleetError::Slots);
        }
        if !settings.insecure_http {
            bowline_http::check_encrypted(&settings.server)
                .map_err(|why| FleetError::Address(format!("{why}, or --insecure-http if you accept that")))?;
        }
        let mut labels = settings.labels.clone();
        if let Some(reach) = &settings.reach {
            labels.insert(Connection::REACH_LABEL.to_owned(), reach.name().to_owned());
        }
        let labels = Labels::new(labels)?;
        let secrets = SecretStore::open(settings.secrets.as_deref())?;
        let remotes = match &settings.reach {
            Some(Reach::Ssh(ssh)) => Some(Arc::new(Remotes::new(SshPool::new(ssh.clone())?))),
            Some(Reach::Simulate(_)) | None => None,
        };
        let mut closed = vec![settings.data.clone()];
        closed.extend(settings.secrets.clone());
        if let Some(Reach::Ssh(ssh)) = &settings.reach {
            closed.extend(ssh.key_files.iter().cloned());
        }
        let guard = Guard::open(&settings.isolation, settings.allow_new_privileges, closed)?;
        let mut execute = Settings::new(settings.keeper.clone(), Arc::clone(&settings.clock));
        execute.cgroup_parent.clone_from(&settings.isolation.cgroup_parent);
        execute.other_users = guard.has_other_users();
        execute.private.extend(settings.secrets.clone());
        let runs = Runs::open(&settings.data, execute)
            .map_err(|source| FleetError::Data { path: settings.data.clone(), source })?;
        guard.can_work_in(&settings.data)?;
        let (name, join) = (settings.name.as_deref(), settings.join.as_deref());
        let credential = identify(&settings.data, &settings.server, name, join, &settings.backoff).await?;
        let client = Client::new(&settings.server, &credential.token).map_err(address)?;
        if let Some(before) = &credential.before {
            client.keep_before(before).map_err(address)?;
        }
        let (opening, offer) = sealing(&settings.data, &credential.name)?.unzip();
        if offer.is_none() {
            warn!(agent.id = %credential.name, "the key this agent enrolled with is gone, so it is given no secrets");
        }
        let request = RegisterRequest {
            worker_id: credential.name.clone(),
            worker_type: Some("agent".to_owned()),
            task_types: vec![TaskType::new(TASK_TYPE)?],
            labels,
            slots: settings.slots,
            resources: Some(json!({"version": env!("CARGO_PKG_VERSION"), "os": std::env::consts::OS,
                                   "arch": std::env::consts::ARCH, "isolation": guard.tell()})),
            sealing: offer,
            shares_agent_user: Some(guard.shares_agent_user()),
        };
        Ok(Self { settings, runs: Arc::new(runs), secrets, guard, opening, credential, remotes, client, request })
    }

    pub fn name(&self) -> &WorkerName {
        &self.credential.name
    }

    /// What keeps commands from this host, in one line.
    pub fn isolation(&self) -> String {
        self.guard.describe()
    }

    /// The labels it has besides those it says about itself.
    pub fn given_labels(&self) -> &Labels {
        &self.credential.labels
    }

    /// Works until `stop` is canceled or the server asks to drain; both end in `Ok`.
    ///
    /// Dropping the future ends this agent where it stands. Runs on this host go on.
    pub async fn run(self, stop: CancellationToken) -> Result<(), FleetError> {
        let Self { settings, runs, secrets, guard, opening, credential, remotes, client, request } = self;
        let patience = Backoff::new(&settings.backoff);
        let terms = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            registered = register(&client, &request, patience, false) => registered?,
        };
        let slots = usize::try_from(settings.slots).unwrap_or(usize::MAX);
        let link =
            LinkSettings { registration: request, poll_wait: settings.poll_wait, backoff: settings.backoff.clone() };
        let (cancels, canceled) = mpsc::unbounded_channel();
        let (stage, orders) = mpsc::unbounded_channel();
        let fleet = Arc::new(Fleet {
            link: Link::new(client, link, Registration::new(terms)),
            roster: Roster::new(slots),
            outbox: Outbox::default(),
            runs,
            secrets,
            opening,
            clock: Arc::clone(&settings.clock),
            remotes,
            plays: matches!(settings.reach, Some(Reach::Simulate(_))),
            allow_new_privileges: settings.allow_new_privileges,
            guard,
            cancels,
            stage,
        });
        let recovered = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = fleet.link.failed.cancelled() => None,
            recovered = recover(&fleet) => recovered?,
        };
        let Some(books) = recovered else { return failure(&fleet) };

        let mut loops = JoinSet::new();
        let (arrived, arriving) = mpsc::channel(ARRIVED_MAX);
        let holder = Arc::clone(&fleet);
        loops.spawn(async move { lease_loop(&holder.link, &*holder).await });
        let desk = Desk { fleet: Arc::clone(&fleet), arrived };
        loops.spawn(async move { poll_loop(&desk.fleet.link, &desk).await });
        loops.spawn(accept_loop(Arc::clone(&fleet), arriving));
        loops.spawn(cancel_loop(Arc::clone(&fleet), canceled));
        loops.spawn(memory_loop(Arc::clone(&fleet)));
        loops.spawn(disk_loop(Arc::clone(&fleet), books));
        loops.spawn(renew_loop(Arc::clone(&fleet), settings.data.clone().into(), credential, terms.renew_after));
        loops.spawn(evidence_loop(Arc::clone(&fleet)));
        if let Some(Reach::Simulate(world)) = &settings.reach {
            loops.spawn(stage_loop(Arc::clone(&fleet), world.clone(), orders));
        }
        let day = Day { fleet, settings, loops };
        day.work(&stop).await
    }
}

struct Day {
    fleet: Arc<Fleet>,
    settings: FleetSettings,
    loops: JoinSet<()>,
}

impl Day {
    async fn work(mut self, stop: &CancellationToken) -> Result<(), FleetError> {
        let fleet = Arc::clone(&self.fleet);
        let name = fleet.name();
        let leave = async {
            tokio::select! {
                () = stop.cancelled() => {}
                () = fleet.link.draining.cancelled() => {}
            }
        };
        if self.go_on(leave).await {
            fleet.link.no_more.cancel();
            let left = fleet.roster.held().len();
            info!(agent.id = %name, "agent {name} takes nothing more and has {left} runs in hand");
            let finished = stop.is_cancelled() || {
                let finished = async {
                    tokio::select! {
                        () = stop.cancelled() => {}
                        () = until(&fleet, all_is_told) => {}
                    }
                };
                self.go_on(finished).await
            };
            if finished {
                let patience = async {
                    tokio::select! {
                        () = sleep(self.settings.grace) => {}
                        () = until(&fleet, only_keepers_are_left) => {}
                    }
                };
                let fleet = Arc::clone(&self.fleet);
                let failed = fleet.link.failed.clone();
                tokio::select! {
                    () = patience => {}
                    () = failed.cancelled() => {}
                }
            }
        }
        fleet.link.no_more.cancel();
        fleet.link.end.cancel();
        self.loops.shutdown().await;
        let left = fleet.roster.held();
        let keepers = left.iter().filter(|held| held.executor == Some(Executor::Local)).count();
        if keepers > 0 {
            info!(agent.id = %name, "agent {name} leaves {keepers} runs to their keepers; the next agent goes on with them");
        }
        if *fleet.runs.removed().borrow() {
            return Err(FleetError::Removed { path: self.settings.data });
        }
        if left.len() > keepers {
            warn!(agent.id = %name, "agent {name} leaves {} runs behind that end with it", left.len() - keepers);
        }
        failure(&fleet)
    }

    /// Waits for `until`. `false` if something happened after which going on makes no sense.
    async fn go_on(&mut self, until: impl Future<Output = ()>) -> bool {
        let failed = self.fleet.link.failed.clone();
        let mut removed = self.fleet.runs.removed();
        tokio::pin!(until);
        loop {
            tokio::select! {
                biased;
                () = failed.cancelled() => return false,
                Ok(_) = removed.wait_for(|removed| *removed) => return false,
                () = &mut until => return true,
                // Loops end by themselves when their time has come, and otherwise only by a mistake of ours.
                Some(ended) = self.loops.join_next() => match ended.map_err(JoinError::try_into_panic) {
                    Ok(()) => {}
                    Err(Ok(panic)) => std::panic::resume_unwind(panic),
                    Err(Err(_)) => return false,
                },
            }
        }
    }
}

fn failure(fleet: &Fleet) -> Result<(), FleetError> {
    fleet.link.take_failure().map_or(Ok(()), |error| Err(error.into()))
}

/// Waits until something is true of what is in hand. It is looked at whenever a run goes out of hand or changes.
async fn until(fleet: &Fleet, is_true: fn(&Fleet) -> bool) {
    let (mut freed, mut changed) = (fleet.roster.freed(), fleet.runs.changed());
    while !is_true(fleet) {
        tokio::select! {
            _ = freed.changed() => {}
            _ = changed.changed() => {}
        }
    }
}

fn all_is_told(fleet: &Fleet) -> bool {
    fleet.roster.held().is_empty()
}

fn only_keepers_are_left(fleet: &Fleet) -> bool {
    let is_kept = |run| matches!(fleet.runs.find(run).map(|found| found.standing), Some(Standing::Running));
    let stays = |held: &InHand| held.executor == Some(Executor::Local) && !held.ending && is_kept(held.run);
    fleet.roster.held().iter().all(stays)
}
