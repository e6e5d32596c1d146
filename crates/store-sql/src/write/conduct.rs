//! The conductor's hand: moves each command on by one bite. What the move is, the model says.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bowline_model::event::EventData;
use bowline_model::fleet::{
    CommandFact, End, HostLock, Move, PinnedCommand, Progress, Rollout, SCOPE_STEPS_MAX, Sweep, Tally, Turn, grant,
    read_targets,
};
use bowline_model::host::{GroupVars, Host, Steps, Vars};
use bowline_model::idempotency::RequestHash;
use bowline_model::job::Fact;
use bowline_model::{ErrorClass, EventKind, JobId, JobState, JobStatus, Lane, RunError, TaskType};
use bowline_store::{Conducted, StoreError, StoreResult};
use serde_json::json;

use super::Desk;
use super::approved::{digests_of, keep_digests};
use super::tally::read_tallies;
use super::turns::{know_hosts, turns_at};
use crate::changes::{Changes, Heard, Telling};
use crate::channels::ChannelKey;
use crate::db::{Col, Db, Row, Sql, Val};
use crate::host_row::{group_with, host, host_columns_without_vars, vars_named};
use crate::job_row::{JOB_COLUMNS, JobRow, job_columns};

/// Commands that are read in one go, and that are moved on in one transaction.
const FLEETS: i64 = 32;
/// Units that a sweep looks at in one go.
const SWEPT: i64 = 1_000;
/// What all commands of one transaction may spend on the variables of their hosts; what is left waits for the next one.
const SCOPE_STEPS: u64 = 10_000_000;
/// Hosts whose variables are read in one go, and bytes of them that are read for one step.
const SCOPED: usize = 50;
const BYTES_PER_STEP: usize = 16;

/// A command on hosts, loaded to be moved on.
struct Fleet {
    job: JobRow,
    lane: Lane,
    inventory: i64,
    lock: HostLock,
    rollout: Rollout,
    progress: Progress,
    swept: i64,
    /// It had to be approved.
    approved: bool,
}

fn read(row: &dyn Row) -> StoreResult<Fleet> {
    let at = JOB_COLUMNS;
    let job = JobRow::read(row)?;
    let lane = row.int(at)?;
    let whole = |n: usize| -> StoreResult<u64> { Ok(u64::try_from(row.int(n)?).unwrap_or(0)) };
    Ok(Fleet {
        lane: Lane::from_code(lane).ok_or_else(|| StoreError::Broken(format!("unknown lane {lane}")))?,
        inventory: row.int(at + 1)?,
        lock: if row.bool(at + 2)? { HostLock::Shared } else { HostLock::Exclusive },
        rollout: serde_json::from_str(&row.text(at + 3)?).map_err(|e| StoreError::Broken(e.to_string()))?,
        progress: Progress {
            status: job.state.status,
            total: whole(at + 4)?,
            planned: whole(at + 5)?,
            batch_end: whole(at + 6)?,
            stopped: row.opt_text(at + 7)?,
            sweep: Sweep::from_code(row.int(at + 8)?),
            superseded: row.opt_text(at + 11)?,
        },
        swept: row.int(at + 9)?,
        approved: row.opt_int(at + 10)?.is_some(),
        job,
    })
}

/// Moves every command on that can be moved. `lines` are channels that were made on the way, to be remembered once they
/// are stored.
pub async fn conduct(
    db: &mut impl Db,
    desk: &mut Desk<'_>,
    lines: &mut Vec<(i64, ChannelKey)>,
) -> StoreResult<(Conducted, Vec<Heard>)> {
    let mut heard = Vec::new();
    let mut moved = 0;
    // Those that wait are passed over, however many they are: nobody stands in the way of the next one by running long.
    let mut after = 0;
    let mut steps = Steps::up_to(SCOPE_STEPS);
    while moved < FLEETS.unsigned_abs() && steps.left() > 0 {
        let fleets = db.query(LIVING, &[Val::Int(after), Val::Int(FLEETS)], read).await?;
        let Some(last) = fleets.last() else { break };
        after = last.job.number;
        moved += conduct_some(db, desk, fleets, lines, (&mut heard, &mut steps)).await?;
    }
    Ok((Conducted { moved }, heard))
}

/// Moves these commands on, and says how many could be.
async fn conduct_some(
    db: &mut impl Db,
    desk: &mut Desk<'_>,
    fleets: Vec<Fleet>,
    lines: &mut Vec<(i64, ChannelKey)>,
    (heard, steps): (&mut Vec<Heard>, &mut Steps),
) -> StoreResult<u64> {
    let mut moved = 0;
    let mut tallies = read_tallies(db, fleets.iter().map(|fleet| fleet.job.number).collect()).await?;
    for fleet in fleets {
        if steps.left() == 0 {
            break;
        }
        let tally = tallies.remove(&fleet.job.number).unwrap_or_default();
        match fleet.progress.next(&fleet.rollout, &tally) {
            Move::Wait => {
                if fleet.job.state.status.is_terminal() {
                    db.execute(REST, &[Val::Int(fleet.job.number)]).await?;
                }
                continue;
            }
            Move::Plan { hosts, batch_end } => {
                heard.push(plan(db, desk, &fleet, (hosts, batch_end), lines, steps).await?);
            }
            Move::Stop(why) => heard.push(stop(db, desk, &fleet, why).await?),
            Move::Sweep(sweep) => heard.push(go_through(db, desk, &fleet, sweep, steps).await?),
            Move::End(end, why) => heard.push(finish(db, desk, &fleet, CommandFact::Ended(end), why, &tally).await?),
            Move::Correct => heard.push(finish(db, desk, &fleet, CommandFact::Corrected, None, &tally).await?),
        }
        moved += 1;
    }
    Ok(moved)
}

/// Begins more hosts.
async fn plan(
    db: &mut impl Db,
    desk: &mut Desk<'_>,
    fleet: &Fleet,
    (hosts, batch_end): (u64, u64),
    lines: &mut Vec<(i64, ChannelKey)>,
    steps: &mut Steps,
) -> StoreResult<Heard> {
    let number = fleet.job.number;
    let planned = fleet.progress.planned;
    let (targets, payload) = db
        .query(TARGETS, &[Val::Int(number)], |row| Ok((row.bytes(0)?, row.text(1)?)))
        .await?
        .into_iter()
        .next()
        .ok_or_else(|| StoreError::Broken(format!("job #{number} has no hosts")))?;
    let broken = |e: String| StoreError::Broken(format!("job #{number}: {e}"));
    let targets = read_targets(&targets).map_err(|e| broken(e.to_string()))?;
    let command: PinnedCommand = serde_json::from_str(&payload).map_err(|e| broken(e.to_string()))?;
    let from = usize::try_from(planned).unwrap_or(usize::MAX).min(targets.len());
    let to = from.saturating_add(usize::try_from(hosts).unwrap_or(0)).min(targets.len());
    let mut wanted = &targets[from..to];

    let found: HashMap<i64, Host> =
        db.query_many(HOSTS, &[Col::Int(wanted.to_vec())], host).await?.into_iter().map(|r| (r.id, r.host)).collect();
    let scopes = Scopes::load(db, fleet, &command, steps).await?;
    let scopes = scopes.of(db, wanted, &found, steps).await?;
    // Those for which there was no time left begin the next time.
    wanted = &wanted[..scopes.hosts];
    let to = from + wanted.len();
    let mut in_order: Vec<i64> = wanted.iter().copied().filter(|id| found.contains_key(id)).collect();
    in_order.sort_unstable();
    know_hosts(db, &in_order).await?;
    let mut turns = turns_at(db, &in_order).await?;

    let policy = serde_json::to_string(&command.spec.policy()).map_err(|e| broken(e.to_string()))?;
    let numbers = db.job_numbers(wanted.len()).await?;
    let mut units: Vec<(JobRow, EventKind, Option<String>)> = Vec::with_capacity(wanted.len());
    let mut keys: Vec<ChannelKey> = Vec::with_capacity(wanted.len());
    for (id, unit) in wanted.iter().zip(&numbers) {
        let Some(host) = found.get(id) else { continue };
        keys.push(ChannelKey {
            tenant: fleet.job.tenant,
            lane: fleet.lane,
            task_type: TaskType::command(),
            requires: command.spec.requires(host),
        });
        let (state, kind) = JobState::planned(fleet.lock, ask(&mut turns, *id, *unit, fleet.lock));
        let row = JobRow {
            number: *unit,
            id: unit_id(&fleet.job, *id),
            tenant: fleet.job.tenant,
            channel: 0,
            priority: fleet.job.priority,
            state,
            policy: std::sync::Arc::default(),
            created_at: desk.now,
            parent: Some(number),
            host: Some(*id),
            flow: None,
        };
        units.push((row, kind, scopes.texts.get(id).cloned()));
    }
    let channels = desk.channels.ensure_within(db, &keys, lines).await?;
    for ((unit, ..), key) in units.iter_mut().zip(&keys) {
        unit.channel = channels[key];
    }
    insert(db, desk, &units, &policy).await?;
    if fleet.approved
        && let Some(digests) = digests_of(db, number).await?
    {
        let units = units.iter().filter_map(|(unit, ..)| Some((unit.number, unit.host?)));
        keep_digests(db, &digests, units).await?;
    }
    let params = [Val::Int(number), Val::Int(to as i64), Val::Int(i64::try_from(batch_end).unwrap_or(i64::MAX))];
    db.execute(PLANNED, &params).await?;

    let mut changes = Changes::at(desk.now);
    for (unit, kind, _) in &units {
        let name = unit.host.and_then(|id| found.get(&id)).map(|host| host.name.clone());
        let shared = fleet.lock == HostLock::Shared;
        changes.accepted(unit, *kind, EventData { host: name, shared, ..EventData::default() });
    }
    let hosts = u32::try_from(units.len()).ok();
    let data = EventData { hosts, ..EventData::default() };
    changes.tell(fleet.job.tenant, Some(number), None, EventKind::HostsPlanned, data);
    changes.write(db).await
}

/// The id of a command's unit on a host. It follows from both, so that a ledger restored from a copy made before the unit was
/// planned plans the same one, and the agent that executed it knows it again.
fn unit_id(command: &JobRow, host: i64) -> JobId {
    let hash = RequestHash::of_parts(&[command.id.as_uuid().as_bytes(), &host.to_be_bytes()]);
    let mut entropy = [0; 10];
    entropy.copy_from_slice(&hash.as_bytes()[..10]);
    JobId::mint(command.created_at, entropy)
}

/// Whether the host is free for one more; from now on that one is in its line.
fn ask(turns: &mut BTreeMap<i64, Vec<Turn>>, host: i64, unit: i64, lock: HostLock) -> bool {
    let line = turns.entry(host).or_default();
    line.push(Turn { unit, lock, held: false });
    let granted = grant(line).contains(&unit);
    if let Some(last) = line.last_mut() {
        last.held = granted;
    }
    granted
}

/// What a command wants to know about its hosts.
struct Scopes<'a> {
    command: &'a PinnedCommand,
    names: BTreeSet<&'a str>,
    groups: GroupVars,
}

/// What it found out about the first of them, as texts.
struct Found {
    hosts: usize,
    texts: HashMap<i64, String>,
}

impl<'a> Scopes<'a> {
    async fn load(db: &mut impl Db, fleet: &Fleet, command: &'a PinnedCommand, steps: &mut Steps) -> StoreResult<Self> {
        let names = command.spec.wants_vars();
        let mut groups = GroupVars::default();
        if !names.is_empty() {
            let all = db.query(GROUPS, &[Val::Int(fleet.inventory)], |row| group_with(row, &names)).await?;
            spend(steps, all.iter().map(|(_, bytes)| bytes / BYTES_PER_STEP).sum());
            groups = GroupVars::new(all.into_iter().map(|(group, _)| group));
        }
        Ok(Self { command, names, groups })
    }

    /// For as many of these hosts as there are steps for, and for some in any case. Where a host has more to say than a
    /// command may take, it is told nothing, and says so when it starts.
    async fn of(
        &self,
        db: &mut impl Db,
        wanted: &[i64],
        hosts: &HashMap<i64, Host>,
        steps: &mut Steps,
    ) -> StoreResult<Found> {
        let mut found = Found { hosts: 0, texts: HashMap::new() };
        if self.command.spec.wants_of_host().is_empty() {
            found.hosts = wanted.len();
            return Ok(found);
        }
        for some in wanted.chunks(SCOPED) {
            if found.hosts > 0 && steps.left() == 0 {
                break;
            }
            let vars = self.vars_of(db, some, steps).await?;
            let nothing = Vars::new();
            for id in some {
                let Some(host) = hosts.get(id) else { continue };
                let vars = self.groups.of_host(&host.groups, vars.get(id).unwrap_or(&nothing));
                let mut own = Steps::up_to(SCOPE_STEPS_MAX);
                let scope = self.command.spec.scope_of(&host.labels, &vars, &mut own).unwrap_or_default();
                spend(steps, usize::try_from(SCOPE_STEPS_MAX - own.left()).unwrap_or(usize::MAX));
                if let Ok(text) = serde_json::to_string(&scope) {
                    found.texts.insert(*id, text);
                }
            }
            found.hosts += some.len();
        }
        Ok(found)
    }

    async fn vars_of(&self, db: &mut impl Db, hosts: &[i64], steps: &mut Steps) -> StoreResult<HashMap<i64, Vars>> {
        if self.names.is_empty() {
            return Ok(HashMap::new());
        }
        let read = |row: &dyn Row| {
            let text = row.opt_text(1)?.unwrap_or_default();
            Ok((row.int(0)?, vars_named(&text, &self.names)?, text.len()))
        };
        let all = db.query_many(HOST_VARS, &[Col::Int(hosts.to_vec())], read).await?;
        spend(steps, all.iter().map(|(_, _, bytes)| bytes / BYTES_PER_STEP).sum());
        Ok(all.into_iter().map(|(id, vars, _)| (id, vars)).collect())
    }
}

fn spend(steps: &mut Steps, used: usize) {
    // None left is all there is to know.
    let _ = steps.take(used);
}

async fn insert(
    db: &mut impl Db,
    desk: &Desk<'_>,
    units: &[(JobRow, EventKind, Option<String>)],
    policy: &str,
) -> StoreResult<()> {
    let rows = || units.iter().map(|(row, ..)| row);
    let cols = [
        Col::Int(rows().map(|r| r.number).collect()),
        Col::Id(rows().map(|r| *r.id.as_uuid()).collect()),
        Col::Id(rows().map(|r| *r.tenant.as_uuid()).collect()),
        Col::Int(rows().map(|r| r.channel).collect()),
        Col::Int(rows().map(|r| r.priority).collect()),
        Col::Int(rows().map(|r| r.state.status.code()).collect()),
        Col::At(vec![desk.now; units.len()]),
        Col::Text(vec![policy; units.len()]),
        Col::OptText(units.iter().map(|(.., scope)| scope.as_deref()).collect()),
        Col::Int(rows().map(|r| r.state.kind.code()).collect()),
        Col::OptInt(rows().map(|r| r.parent).collect()),
        Col::OptInt(rows().map(|r| r.host).collect()),
    ];
    let added = db.execute_many(UNIT_ADD, &cols).await?;
    if added == units.len() as u64 {
        Ok(())
    } else {
        Err(StoreError::Conflict("somebody else began the same hosts".to_owned()))
    }
}

/// Begins no more hosts.
async fn stop(db: &mut impl Db, desk: &Desk<'_>, fleet: &Fleet, why: String) -> StoreResult<Heard> {
    let number = fleet.job.number;
    let params = [Val::Int(number), Val::Int(Sweep::TakeBack.code()), Val::Text(&why)];
    db.execute(STOP, &params).await?;
    let mut changes = Changes::at(desk.now);
    let data = EventData { reason: Some(why), ..EventData::default() };
    let superseded = fleet.progress.superseded.is_some();
    let kind = if superseded { EventKind::ApprovalSuperseded } else { EventKind::JobStopped };
    changes.tell(fleet.job.tenant, Some(number), None, kind, data);
    changes.write(db).await
}

/// Goes through one bite of the units.
async fn go_through(
    db: &mut impl Db,
    desk: &mut Desk<'_>,
    fleet: &Fleet,
    sweep: Sweep,
    steps: &mut Steps,
) -> StoreResult<Heard> {
    let number = fleet.job.number;
    let params = [Val::Int(number), Val::Int(fleet.swept), Val::Int(SWEPT)];
    let mut units = db.query(UNITS, &params, JobRow::read).await?;
    let mut more = units.len() as i64 == SWEPT;
    if sweep == Sweep::Retry
        && fleet.approved
        && let Some(digests) = digests_of(db, number).await?
    {
        // What is tried again was approved again, as its hosts are now.
        let renewed = renew_scopes(db, fleet, &units, steps).await?;
        more |= renewed < units.len();
        units.truncate(renewed);
        keep_digests(db, &digests, units.iter().filter_map(|unit| Some((unit.number, unit.host?)))).await?;
    }
    let mut changes = Changes::at(desk.now);
    for unit in &units {
        let fact = match (sweep, unit.state.status) {
            (Sweep::Cancel, _) | (Sweep::TakeBack, JobStatus::Pending | JobStatus::Queued) => Fact::CancelRequested,
            (Sweep::Retry, status) if status.is_terminal() && status != JobStatus::Succeeded => Fact::Retried,
            _ => continue,
        };
        // Whoever is over, or is being stopped already, stays as it is.
        if let Ok(step) = unit.state.on(&fact, &unit.policy, desk.now, 0.0) {
            let reason = fleet.progress.stopped.clone();
            let data = EventData { reason, ..EventData::default() };
            changes.advance(unit, fleet.lane, step, Telling { data, ..Telling::default() });
        }
    }
    let swept = units.last().and_then(|unit| unit.host).unwrap_or(fleet.swept);
    let left = if more { sweep } else { Sweep::None };
    db.execute(SWEEP_ON, &[Val::Int(number), Val::Int(left.code()), Val::Int(swept)]).await?;
    changes.write(db).await
}

/// What these units want to know about their hosts, as it is now. For how many of them there was time.
async fn renew_scopes(db: &mut impl Db, fleet: &Fleet, units: &[JobRow], steps: &mut Steps) -> StoreResult<usize> {
    let number = fleet.job.number;
    let payload = db.query(TARGETS, &[Val::Int(number)], |row| row.text(1)).await?.into_iter().next();
    let command: PinnedCommand = serde_json::from_str(&payload.unwrap_or_default())
        .map_err(|e| StoreError::Broken(format!("job #{number}: {e}")))?;
    if command.spec.wants_of_host().is_empty() {
        return Ok(units.len());
    }
    let scopes = Scopes::load(db, fleet, &command, steps).await?;
    // One that has no host has no scope either.
    let hosts: Vec<i64> = units.iter().map(|unit| unit.host.unwrap_or(0)).collect();
    let found = db.query_many(HOSTS, &[Col::Int(hosts.clone())], host).await?;
    let found: HashMap<i64, Host> = found.into_iter().map(|record| (record.id, record.host)).collect();
    let scopes = scopes.of(db, &hosts, &found, steps).await?;
    let renewed: Vec<(i64, &str)> = units[..scopes.hosts]
        .iter()
        .filter_map(|unit| Some((unit.number, scopes.texts.get(&unit.host?)?.as_str())))
        .collect();
    let cols =
        [Col::Int(renewed.iter().map(|unit| unit.0).collect()), Col::Text(renewed.iter().map(|unit| unit.1).collect())];
    db.execute_many(SCOPES, &cols).await?;
    Ok(scopes.hosts)
}

/// It is over, or was over in another way than we thought.
async fn finish(
    db: &mut impl Db,
    desk: &Desk<'_>,
    fleet: &Fleet,
    fact: CommandFact,
    why: Option<String>,
    tally: &Tally,
) -> StoreResult<Heard> {
    let step = match fleet.job.state.on_command(fact, desk.now) {
        Ok(step) => step,
        Err(refused) => return Err(StoreError::Broken(format!("job #{}: {refused}", fleet.job.number))),
    };
    let class = match (fact, fleet.job.state.status) {
        (CommandFact::Ended(End::Failed), JobStatus::Canceling) => ErrorClass::Deadline,
        _ if fleet.progress.superseded.is_some() => ErrorClass::Superseded,
        _ => ErrorClass::Permanent,
    };
    let error = why.map(|why| RunError::new(class, why));
    let counts: serde_json::Map<String, serde_json::Value> =
        tally.counts().map(|(status, units)| (status.as_str().to_owned(), json!(units))).collect();
    let result = json!({"hosts": fleet.progress.total, "begun": fleet.progress.planned, "ended": counts});
    let mut changes = Changes::at(desk.now);
    let telling = Telling { error, result: Some(result.to_string().into()), ..Telling::default() };
    changes.advance(&fleet.job, fleet.lane, step, telling);
    changes.write(db).await
}

const LIVING: Sql = Sql::Each {
    sqlite: concat!(
        "select ",
        job_columns!(),
        ", c.lane, f.inventory, f.shared, f.rollout, f.total, f.planned, f.batch_end, f.stopped, f.sweep, f.swept, a.state, a.superseded
         from fleet f join job j on j.number = f.number join channel c on c.id = j.channel
         left join approval a on a.number = f.number
         where f.live = 1 and f.number > ?1 order by f.number limit ?2"
    ),
    postgres: concat!(
        "select ",
        job_columns!(),
        ", c.lane, f.inventory, f.shared, f.rollout, f.total, f.planned, f.batch_end, f.stopped, f.sweep, f.swept, a.state, a.superseded
         from fleet f join job j on j.number = f.number join channel c on c.id = j.channel
         left join approval a on a.number = f.number
         where f.live and f.number > $1 order by f.number limit $2 for update of j, f skip locked"
    ),
};
const REST: Sql = Sql::Each {
    sqlite: "update fleet set live = 0 where number = ?1",
    postgres: "update fleet set live = false where number = $1",
};
const TARGETS: Sql =
    Sql::Same("select f.targets, j.payload from fleet f join job j on j.number = f.number where f.number = $1");
pub(super) const HOST_VARS: Sql = Sql::Each {
    sqlite: "select id, vars from host where id = ?1",
    postgres: "select id, vars from host where id = any ($1::bigint[])",
};
/// Also those that were taken out meanwhile: they are told apart when they are about to start.
const HOSTS: Sql = Sql::Each {
    sqlite: concat!("select ", host_columns_without_vars!(), " from host h where h.id = ?1"),
    postgres: concat!("select ", host_columns_without_vars!(), " from host h where h.id = any ($1::bigint[])"),
};
pub(super) const GROUPS: Sql =
    Sql::Same("select name, groups, vars from host_group where inventory = $1 order by name");
const SCOPES: Sql = Sql::Each {
    sqlite: "update job set payload = ?2 where number = ?1",
    postgres: "update job j set payload = k.payload::json
               from unnest($1::bigint[], $2::text[]) as k (number, payload) where j.number = k.number",
};
const PLANNED: Sql = Sql::Same("update fleet set planned = $2, batch_end = $3 where number = $1");
const STOP: Sql = Sql::Same("update fleet set sweep = $2, swept = 0, stopped = $3 where number = $1");
const SWEEP_ON: Sql = Sql::Same("update fleet set sweep = $2, swept = $3 where number = $1");
const UNITS: Sql = Sql::Each {
    sqlite: concat!(
        "select ",
        job_columns!(),
        " from job j where j.parent = ?1 and j.host > ?2 order by j.host limit ?3"
    ),
    postgres: concat!(
        "select ",
        job_columns!(),
        " from job j where j.parent = $1 and j.host > $2 order by j.host limit $3 for update"
    ),
};
const UNIT_ADD: Sql = Sql::Each {
    sqlite: "insert into job (number, id, tenant, channel, priority, status, created_at, updated_at, policy, payload,
                              kind, parent, host, actor, request_id, attempts, failures, losses, fence)
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, ?8, ?9, ?10, ?11, ?12, '', '', 0, 0, 0, 0)
             on conflict do nothing",
    postgres: "insert into job (number, id, tenant, channel, priority, status, created_at, updated_at, policy, payload,
                                kind, parent, host, actor, request_id, attempts, failures, losses, fence)
               select number, id, tenant, channel, priority, status, at, at, policy, payload::json, kind, parent, host,
                      '', '', 0, 0, 0, 0
               from unnest($1::bigint[], $2::uuid[], $3::uuid[], $4::bigint[], $5::bigint[], $6::bigint[],
                           $7::timestamptz[], $8::text[], $9::text[], $10::bigint[], $11::bigint[], $12::bigint[])
                 as k (number, id, tenant, channel, priority, status, at, policy, payload, kind, parent, host)
               on conflict do nothing",
};
