//! Taking jobs in. The unique key decides who was first, never a read before it.

use std::collections::{BTreeMap, HashMap};

use bowline_model::event::EventData;
use bowline_model::fleet::{HostLock, write_targets};
use bowline_model::idempotency::{KeyScope, RequestHash, SecondAsk, second_ask};
use bowline_model::person::Person;
use bowline_model::planted::{self, Mistake};
use bowline_model::{EventKind, JobId, JobState, JobStatus, TenantId, Timestamp};
use bowline_store::{NewFleet, NewJob, StoreError, StoreResult, Submitted};

use super::Desk;
use super::approvals::{Asked, ask_for_approval};
use super::flows::{Opened, open_flows};
use crate::changes::{Changes, Heard};
use crate::channels::ChannelKey;
use crate::db::{Col, Db, Sql, Val};
use crate::job_row::{JobRow, status_of};

type KeyName = (TenantId, i64, String);
/// Who asked first under each key, and for what.
type Owners = BTreeMap<KeyName, (JobId, RequestHash)>;
/// The jobs of a batch that are second asks, by place, with the key that says so.
type Verdicts = BTreeMap<usize, (String, SecondAsk)>;

/// The lines these jobs will wait in.
pub fn channel_keys<'a>(jobs: impl IntoIterator<Item = &'a NewJob>) -> Vec<ChannelKey> {
    let mut keys: Vec<ChannelKey> = Vec::new();
    for job in jobs.into_iter().flat_map(NewJob::with_first_children) {
        let same = |key: &ChannelKey| {
            key.tenant == job.tenant
                && key.lane == job.lane
                && key.task_type == job.task_type
                && key.requires == job.requires
        };
        if !keys.iter().rev().take(8).any(same) && !keys.iter().any(same) {
            keys.push(ChannelKey {
                tenant: job.tenant,
                lane: job.lane,
                task_type: job.task_type.clone(),
                requires: job.requires.clone(),
            });
        }
    }
    keys
}

/// Stores each job once. The answers are in the order of the jobs.
pub async fn submit(
    db: &mut impl Db,
    desk: &mut Desk<'_>,
    jobs: &[&NewJob],
) -> StoreResult<(Vec<Submitted>, Vec<Heard>)> {
    let mut answers: Vec<Option<Submitted>> = vec![None; jobs.len()];
    // Jobs that turned out to be second asks, to be answered with how the first one stands.
    let mut same: Vec<(usize, JobId)> = Vec::new();
    let taken = take_keys(db, desk, jobs).await?;
    for (place, (key, verdict)) in taken {
        match verdict {
            SecondAsk::Same(id) => same.push((place, id)),
            SecondAsk::Conflict(id) => answers[place] = Some(Submitted::Conflict { key, id }),
        }
    }
    let fresh: Vec<usize> =
        (0..jobs.len()).filter(|place| answers[*place].is_none() && !same.iter().any(|(p, _)| p == place)).collect();
    let (stored, heard) = insert(db, desk, jobs, &[], &fresh).await?;
    for (place, answer) in stored {
        match answer {
            Some(answer) => answers[place] = Some(answer),
            // The id is there already: the answer to an earlier commit was lost.
            None => same.push((place, jobs[place].id)),
        }
    }
    let known = find(db, &same.iter().map(|(place, id)| (jobs[*place].tenant, *id)).collect::<Vec<_>>()).await?;
    for (place, id) in same {
        answers[place] = match known.get(&(jobs[place].tenant, id)) {
            Some(answer) => Some(answer.clone()),
            None => Some(pruned_job(db, desk.now, jobs[place].tenant, id).await?),
        };
    }
    let answers: Option<Vec<Submitted>> = answers.into_iter().collect();
    let answers = answers.ok_or_else(|| StoreError::Conflict("a key names a job that is gone".to_owned()))?;
    Ok((answers, heard))
}

/// Takes the keys of all jobs that have one, and says which jobs are second asks, and by which key. Of two keys one may be
/// known and the other free: then the free one belongs to the same job from now on.
async fn take_keys(db: &mut impl Db, desk: &mut Desk<'_>, jobs: &[&NewJob]) -> StoreResult<Verdicts> {
    // Sorted, so that two servers take the same keys in the same order and never wait for each other in a circle.
    let mut wanted: BTreeMap<KeyName, usize> = BTreeMap::new();
    let mut alone = true;
    for (place, job) in jobs.iter().enumerate() {
        for name in names_of(job) {
            alone &= *wanted.entry(name).or_insert(place) == place;
        }
    }
    if wanted.is_empty() {
        return Ok(Verdicts::new());
    }
    let wanted: Vec<(KeyName, usize)> = wanted.into_iter().collect();
    if !planted::on(Mistake::IdempotencyOutside) {
        expire(db, desk.now, &wanted).await?;
    }
    let expires = desk.now.plus_millis(desk.key_ttl_ms);
    let own = |(name, place): &'_ (KeyName, usize)| (name.clone(), jobs[*place].id, jobs[*place].hash);
    let added = add_keys(db, expires, &wanted.iter().map(own).collect::<Vec<_>>()).await?;
    let mut owners: Owners = BTreeMap::new();
    if added < wanted.len() as u64 {
        for (name, id, hash) in find_keys(db, &wanted).await? {
            // A key that names the very job we took it for is ours, now or since an answer that got lost.
            let ours = wanted.binary_search_by(|(n, _)| n.cmp(&name)).is_ok_and(|n| jobs[wanted[n].1].id == id);
            if !ours {
                owners.insert(name, (id, hash));
            }
        }
    } else if alone {
        return Ok(Verdicts::new());
    }
    // One after the other, as if each had come alone: whoever is refused owns nothing, and hides nobody behind it.
    let before: Vec<bool> = wanted.iter().map(|(name, _)| owners.contains_key(name)).collect();
    let mut verdicts = Verdicts::new();
    for (place, job) in jobs.iter().enumerate() {
        match judge(job, &owners) {
            Some(verdict) => {
                if let (_, SecondAsk::Same(id)) = verdict {
                    for name in names_of(job) {
                        owners.entry(name).or_insert((id, job.hash));
                    }
                }
                verdicts.insert(place, verdict);
            }
            None => owners.extend(names_of(job).map(|name| (name, (job.id, job.hash)))),
        }
    }
    // What was taken for a job that is refused goes to the next one that wants it, or is free again.
    let astray = wanted
        .iter()
        .zip(before)
        .filter(|((name, place), before)| !before && owners.get(name).map(|(id, _)| *id) != Some(jobs[*place].id));
    let astray: Vec<&(KeyName, usize)> = astray.map(|(key, _)| key).collect();
    if !astray.is_empty() {
        release(db, jobs, &astray).await?;
        let heirs = astray.iter().filter_map(|(name, _)| {
            let (id, hash) = owners.get(name)?;
            Some((name.clone(), *id, *hash))
        });
        add_keys(db, expires, &heirs.collect::<Vec<_>>()).await?;
    }
    Ok(verdicts)
}

fn names_of(job: &NewJob) -> impl Iterator<Item = KeyName> {
    job.keys.iter().map(|(scope, key)| (job.tenant, scope.code(), key.clone()))
}

/// What the keys of a job say about it, as things stand: nothing, or that it is a second ask, and by which key.
fn judge(job: &NewJob, owners: &Owners) -> Option<(String, SecondAsk)> {
    let mut same: Option<(String, SecondAsk)> = None;
    for name in names_of(job) {
        let Some((id, hash)) = owners.get(&name).filter(|(id, _)| *id != job.id) else { continue };
        match (second_ask(*hash, *id, job.hash), &same) {
            (SecondAsk::Same(id), Some((_, SecondAsk::Same(other)))) if id != *other => {
                return Some((name.2, SecondAsk::Conflict(id)));
            }
            (SecondAsk::Same(id), _) => same = Some((name.2, SecondAsk::Same(id))),
            (conflict, _) => return Some((name.2, conflict)),
        }
    }
    same
}

/// An external id belongs to its job for ever: the latest day there is.
pub(super) const FOREVER: Timestamp = Timestamp::from_millis(253_402_214_400_000);

/// Takes keys that are free. Says how many were.
async fn add_keys(db: &mut impl Db, expires: Timestamp, keys: &[(KeyName, JobId, RequestHash)]) -> StoreResult<u64> {
    let ends = |scope: i64| if scope == KeyScope::External.code() { FOREVER } else { expires };
    let mut cols = name_columns(keys.iter().map(|(name, ..)| name));
    cols.push(Col::Id(keys.iter().map(|(_, id, _)| *id.as_uuid()).collect()));
    cols.push(Col::Bytes(keys.iter().map(|(.., hash)| hash.as_bytes().as_slice()).collect()));
    cols.push(Col::At(keys.iter().map(|((_, scope, _), ..)| ends(*scope)).collect()));
    db.execute_many(KEY_ADD, &cols).await
}

async fn find_keys(db: &mut impl Db, wanted: &[(KeyName, usize)]) -> StoreResult<Vec<(KeyName, JobId, RequestHash)>> {
    db.query_many(KEY_FIND, &name_columns(wanted.iter().map(|(name, _)| name)), |row| {
        let hash: [u8; 32] = row.bytes(4)?.try_into().unwrap_or([0; 32]);
        let name = (TenantId::from_uuid(row.id(0)?), row.int(1)?, row.text(2)?);
        Ok((name, JobId::from_uuid(row.id(3)?), RequestHash::from_bytes(hash)))
    })
    .await
}

async fn release(db: &mut impl Db, jobs: &[&NewJob], keys: &[&(KeyName, usize)]) -> StoreResult<()> {
    let mut cols = name_columns(keys.iter().map(|(name, _)| name));
    cols.push(Col::Id(keys.iter().map(|(_, place)| *jobs[*place].id.as_uuid()).collect()));
    db.execute_many(KEY_RELEASE, &cols).await.map(drop)
}

async fn expire(db: &mut impl Db, now: Timestamp, wanted: &[(KeyName, usize)]) -> StoreResult<()> {
    let mut cols = name_columns(wanted.iter().map(|(name, _)| name));
    cols.push(Col::At(vec![now; wanted.len()]));
    db.execute_many(KEY_EXPIRE, &cols).await.map(drop)
}

fn name_columns<'a>(names: impl Iterator<Item = &'a KeyName> + Clone) -> Vec<Col<'a>> {
    vec![
        Col::Id(names.clone().map(|name| *name.0.as_uuid()).collect()),
        Col::Int(names.clone().map(|name| name.1).collect()),
        Col::Text(names.map(|name| name.2.as_str()).collect()),
    ]
}

/// Inserts jobs that runs of workflows begin, each with the number of its run.
pub(super) async fn insert_children(
    db: &mut impl Db,
    desk: &mut Desk<'_>,
    children: &[(&NewJob, i64)],
) -> StoreResult<Vec<Heard>> {
    let jobs: Vec<&NewJob> = children.iter().map(|(job, _)| *job).collect();
    let flows: Vec<i64> = children.iter().map(|(_, flow)| *flow).collect();
    let fresh: Vec<usize> = (0..jobs.len()).collect();
    // What a run begins has not begun anything itself: there is no deeper level.
    let (stored, heard) = Box::pin(insert(db, desk, &jobs, &flows, &fresh)).await?;
    if stored.iter().any(|(_, answer)| answer.is_none()) {
        return Err(StoreError::Broken("a run begins a job that is there already".to_owned()));
    }
    Ok(heard)
}

/// Inserts the chosen jobs with their queue rows and events. `None` for those whose id is there already. `flows` are the
/// runs that begin them, if any do.
async fn insert(
    db: &mut impl Db,
    desk: &mut Desk<'_>,
    jobs: &[&NewJob],
    flows: &[i64],
    fresh: &[usize],
) -> StoreResult<(Vec<(usize, Option<Submitted>)>, Vec<Heard>)> {
    if fresh.is_empty() {
        return Ok((Vec::new(), Vec::new()));
    }
    let now = desk.now;
    let numbers = db.job_numbers(fresh.len()).await?;
    let mut rows: Vec<JobRow> = Vec::with_capacity(fresh.len());
    let mut kinds = Vec::with_capacity(fresh.len());
    let mut line: Option<(ChannelKey, i64)> = None;
    for (place, number) in fresh.iter().zip(&numbers) {
        let job = jobs[*place];
        let (state, kind) = match (&job.fleet, &job.flow) {
            (Some(fleet), _) => accept_command(fleet, job.run_at, now),
            (None, Some(_)) => JobState::accepted_flow(job.run_at, now),
            (None, None) => JobState::accepted(job.run_at, now),
        };
        let channel = match &line {
            Some((key, id))
                if key.tenant == job.tenant
                    && key.lane == job.lane
                    && key.task_type == job.task_type
                    && key.requires == job.requires =>
            {
                *id
            }
            _ => {
                let key = ChannelKey {
                    tenant: job.tenant,
                    lane: job.lane,
                    task_type: job.task_type.clone(),
                    requires: job.requires.clone(),
                };
                let id = desk.channels.id_of(&key);
                let id = id.ok_or_else(|| StoreError::Broken("a job has no channel to wait in".to_owned()))?;
                line = Some((key, id));
                id
            }
        };
        rows.push(JobRow {
            number: *number,
            id: job.id,
            tenant: job.tenant,
            channel,
            priority: i64::from(job.priority),
            state,
            policy: job.policy.clone().unwrap_or_default(),
            created_at: desk.now,
            parent: None,
            host: None,
            flow: flows.get(*place).copied(),
        });
        kinds.push(kind);
    }
    let policies: Vec<Option<String>> = fresh
        .iter()
        .map(|place| jobs[*place].policy.as_ref().and_then(|policy| serde_json::to_string(&**policy).ok()))
        .collect();
    let key_of = |job: &NewJob, scope: KeyScope| job.keys.iter().position(|(s, _)| *s == scope);
    let pick = |scope| {
        fresh
            .iter()
            .map(|place| key_of(jobs[*place], scope).map(|n| jobs[*place].keys[n].1.as_str()))
            .collect::<Vec<_>>()
    };
    let cols = vec![
        Col::Int(numbers.clone()),
        Col::Id(rows.iter().map(|r| *r.id.as_uuid()).collect()),
        Col::Id(rows.iter().map(|r| *r.tenant.as_uuid()).collect()),
        Col::Int(rows.iter().map(|r| r.channel).collect()),
        Col::Int(rows.iter().map(|r| r.priority).collect()),
        Col::Int(rows.iter().map(|r| r.state.status.code()).collect()),
        Col::OptAt(rows.iter().map(|r| r.state.due_at).collect()),
        Col::At(vec![now; rows.len()]),
        Col::OptText(policies.iter().map(Option::as_deref).collect()),
        Col::Text(fresh.iter().map(|p| &*jobs[*p].payload).collect()),
        Col::Text(fresh.iter().map(|p| &*jobs[*p].origin.actor).collect()),
        Col::Text(fresh.iter().map(|p| &*jobs[*p].origin.request_id).collect()),
        Col::OptText(fresh.iter().map(|p| jobs[*p].origin.trace_id.as_deref()).collect()),
        Col::OptText(fresh.iter().map(|p| jobs[*p].origin.correlation_id.as_deref()).collect()),
        Col::OptText(pick(KeyScope::Idempotency)),
        Col::OptText(pick(KeyScope::External)),
        Col::OptId(fresh.iter().map(|p| jobs[*p].replay_of.map(|id| *id.as_uuid())).collect()),
        Col::Int(rows.iter().map(|r| r.state.kind.code()).collect()),
        Col::OptInt(rows.iter().map(|r| r.flow).collect()),
    ];
    let added = db.execute_many(JOB_ADD, &cols).await?;
    let mut there: Vec<i64> = Vec::new();
    let all = added == rows.len() as u64;
    if !all {
        there = db.query_many(JOB_HAS, &cols[..1], |row| row.int(0)).await?;
        there.sort_unstable();
    }
    let mut changes = Changes::at(now);
    let mut answers = Vec::with_capacity(fresh.len());
    let mut opened = Vec::new();
    for ((place, row), kind) in fresh.iter().zip(&rows).zip(kinds) {
        if !all && there.binary_search(&row.number).is_err() {
            answers.push((*place, None));
            continue;
        }
        let mut data = EventData { due_at: row.state.due_at, job_id: jobs[*place].replay_of, ..EventData::default() };
        if let Some(fleet) = &jobs[*place].fleet {
            data.hosts = u32::try_from(fleet.hosts.len()).ok();
            add_fleet(db, row, jobs[*place], fleet).await?;
        }
        let mut status = row.state.status;
        if let Some(flow) = &jobs[*place].flow {
            data.steps = Some(0);
            if let Some(first) = &flow.first {
                status = first.standing.status;
            }
            opened.push(Opened { row: row.clone(), lane: jobs[*place].lane, flow });
        }
        changes.accepted(row, kind, data);
        answers.push((*place, Some(Submitted::Accepted { id: row.id, number: row.number, status, at: now })));
    }
    let mut heard = Vec::new();
    if !opened.is_empty() {
        heard.extend(open_flows(db, desk, &opened, &mut changes).await?);
    }
    heard.push(changes.write(db).await?);
    Ok((answers, heard))
}

fn accept_command(fleet: &NewFleet, run_at: Option<Timestamp>, now: Timestamp) -> (JobState, EventKind) {
    let after = |ms: u64| now.plus_millis(i64::try_from(ms).unwrap_or(i64::MAX));
    let approve_until = fleet.approval.as_ref().map(|approval| after(approval.expires_ms));
    JobState::accepted_command(approve_until, run_at, fleet.deadline_ms.map(after), now)
}

/// The hosts of a command, and what must be approved.
async fn add_fleet(db: &mut impl Db, row: &JobRow, job: &NewJob, fleet: &NewFleet) -> StoreResult<()> {
    let broken = |e: serde_json::Error| StoreError::Broken(e.to_string());
    let rollout = serde_json::to_string(&fleet.rollout).map_err(broken)?;
    let targets = write_targets(&fleet.hosts);
    let params = [
        Val::Int(row.number),
        Val::Id(*row.tenant.as_uuid()),
        Val::Int(fleet.inventory),
        Val::OptInt(fleet.resource),
        Val::Text(&fleet.command),
        Val::Bool(fleet.lock == HostLock::Shared),
        Val::OptText(fleet.selector.as_deref()),
        Val::Text(&rollout),
        Val::OptInt(fleet.deadline_ms.map(|ms| i64::try_from(ms).unwrap_or(i64::MAX))),
        Val::Bytes(&targets),
        Val::Int(i64::try_from(fleet.hosts.len()).unwrap_or(i64::MAX)),
        Val::Bool(row.state.status == JobStatus::Running),
        Val::OptAt(job.run_at),
    ];
    db.execute(FLEET_ADD, &params).await?;
    let Some(approval) = &fleet.approval else { return Ok(()) };
    let mail = job.origin.email.as_deref().map(Person::mail);
    let person = Person::named([job.origin.actor.to_string()].into_iter().chain(mail));
    let asked = Asked { approval, requester: &job.origin.actor, person, retry: false };
    ask_for_approval(db, row.number, row.tenant, &asked).await
}

/// How jobs stand that were asked for before.
async fn find(db: &mut impl Db, asked: &[(TenantId, JobId)]) -> StoreResult<HashMap<(TenantId, JobId), Submitted>> {
    let cols = vec![
        Col::Id(asked.iter().map(|(tenant, _)| *tenant.as_uuid()).collect()),
        Col::Id(asked.iter().map(|(_, id)| *id.as_uuid()).collect()),
    ];
    let found = db
        .query_many(JOB_FIND, &cols, |row| {
            let (tenant, id) = (TenantId::from_uuid(row.id(4)?), JobId::from_uuid(row.id(0)?));
            let status: JobStatus = status_of(row.int(2)?)?;
            Ok(((tenant, id), Submitted::Replayed { id, number: row.int(1)?, status, at: row.at(3)? }))
        })
        .await?;
    Ok(found.into_iter().collect())
}

/// What a job was that retention has removed, as its external ids remember it.
pub async fn pruned_job(db: &mut impl Db, now: Timestamp, tenant: TenantId, id: JobId) -> StoreResult<Submitted> {
    let params = [Val::Id(*id.as_uuid()), Val::Id(*tenant.as_uuid())];
    let found = db.query(KEY_PRUNED, &params, |row| {
        let (number, status, at) = (row.int(0)?, status_of(row.int(1)?)?, row.at(2)?);
        Ok(Submitted::Pruned { id, number, status: Some(status), at })
    });
    // None remembers it where it was removed just now, while it was given an idempotency key as its first.
    let unknown = Submitted::Pruned { id, number: 0, status: None, at: now };
    Ok(found.await?.into_iter().next().unwrap_or(unknown))
}

/// Not every external id of the job need remember it: one may have been given to it after it was removed.
const KEY_PRUNED: Sql = Sql::Same(
    "select number, status, created_at from key
     where job = $1 and tenant = $2 and scope = 2 and number is not null limit 1",
);
const FLEET_ADD: Sql = Sql::Same(
    "insert into fleet (number, tenant, inventory, resource, command, shared, selector, rollout, deadline_ms, targets,
                        total, live, run_at, planned, batch_end, sweep, swept)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, 0, 0, 0, 0)",
);
const KEY_ADD: Sql = Sql::Each {
    sqlite: "insert into key (tenant, scope, key, job, hash, expires_at) values (?1, ?2, ?3, ?4, ?5, ?6)
             on conflict do nothing",
    postgres: "insert into key (tenant, scope, key, job, hash, expires_at)
               select * from unnest($1::uuid[], $2::bigint[], $3::text[], $4::uuid[], $5::bytea[], $6::timestamptz[])
               on conflict do nothing",
};
const KEY_FIND: Sql = Sql::Each {
    sqlite: "select tenant, scope, key, job, hash from key where tenant = ?1 and scope = ?2 and key = ?3",
    postgres: "select k.tenant, k.scope, k.key, k.job, k.hash from key k
               join unnest($1::uuid[], $2::bigint[], $3::text[]) as w (tenant, scope, key)
                 on k.tenant = w.tenant and k.scope = w.scope and k.key = w.key",
};
/// After its time a key is new.
const KEY_EXPIRE: Sql = Sql::Each {
    sqlite: "delete from key where tenant = ?1 and scope = ?2 and key = ?3 and expires_at <= ?4",
    postgres: "delete from key k using unnest($1::uuid[], $2::bigint[], $3::text[], $4::timestamptz[])
                 as w (tenant, scope, key, now)
               where k.tenant = w.tenant and k.scope = w.scope and k.key = w.key and k.expires_at <= w.now",
};
const KEY_RELEASE: Sql = Sql::Each {
    sqlite: "delete from key where tenant = ?1 and scope = ?2 and key = ?3 and job = ?4",
    postgres: "delete from key k using unnest($1::uuid[], $2::bigint[], $3::text[], $4::uuid[])
                 as w (tenant, scope, key, job)
               where k.tenant = w.tenant and k.scope = w.scope and k.key = w.key and k.job = w.job",
};
const JOB_ADD: Sql = Sql::Each {
    sqlite: "insert into job (number, id, tenant, channel, priority, status, due_at, created_at, updated_at, policy, payload,
                              actor, request_id, trace_id, correlation_id, idempotency_key, external_id, replay_of,
                              attempts, failures, losses, fence, kind, flow)
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, 0, 0, 0, 0, ?18, ?19)
             on conflict do nothing",
    postgres: "insert into job (number, id, tenant, channel, priority, status, due_at, created_at, updated_at, policy, payload,
                                actor, request_id, trace_id, correlation_id, idempotency_key, external_id, replay_of,
                                attempts, failures, losses, fence, kind, flow)
               select number, id, tenant, channel, priority, status, due_at, at, at, policy, payload::json,
                      actor, request_id, trace_id, correlation_id, idempotency_key, external_id, replay_of, 0, 0, 0, 0, kind, flow
               from unnest($1::bigint[], $2::uuid[], $3::uuid[], $4::bigint[], $5::bigint[], $6::bigint[],
                           $7::timestamptz[], $8::timestamptz[], $9::text[], $10::text[], $11::text[], $12::text[],
                           $13::text[], $14::text[], $15::text[], $16::text[], $17::uuid[], $18::bigint[], $19::bigint[])
                 as k (number, id, tenant, channel, priority, status, due_at, at, policy, payload,
                       actor, request_id, trace_id, correlation_id, idempotency_key, external_id, replay_of, kind, flow)
               on conflict do nothing",
};
const JOB_HAS: Sql = Sql::Each {
    sqlite: "select number from job where number = ?1",
    postgres: "select number from job where number = any ($1::bigint[])",
};
const JOB_FIND: Sql = Sql::Each {
    sqlite: "select id, number, status, created_at, tenant from job
             where tenant = ?1 and id = ?2 and parent is null",
    postgres: "select j.id, j.number, j.status, j.created_at, j.tenant from job j
               join unnest($1::uuid[], $2::uuid[]) as k (tenant, id) on j.tenant = k.tenant and j.id = k.id and j.parent is null",
};
