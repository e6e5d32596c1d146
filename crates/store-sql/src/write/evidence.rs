//! What agents executed, as far as the ledger does not know it.

use std::collections::{BTreeMap, HashMap, HashSet};

use bowline_model::event::EventData;
use bowline_model::host::Connection;
use bowline_model::{EventKind, HostName, JobId, Outcome, RunId};
use bowline_store::{Evidence, EvidenceTaken, ReportAnswer, RunEvidence, RunReport, StoreResult};

use super::Desk;
use super::report::{load_runs, report};
use crate::changes::{Changes, Heard};
use crate::db::{Col, Db, Row, Sql, Val};
use crate::read::find_agent;

/// So many unknown runs of a tenant are kept.
const KEPT_MAX: i64 = 10_000;
/// No evidence raises the fence of a host above this: a lie must not use the numbers up.
const FENCE_MAX: i64 = 1 << 40;

/// Takes over ends that are news, and notes runs of jobs that are not here.
pub async fn take_evidence(
    db: &mut impl Db,
    desk: &mut Desk<'_>,
    evidence: &Evidence,
) -> StoreResult<(EvidenceTaken, Vec<Heard>)> {
    let runs = load_runs(db, evidence.runs.iter().map(|told| *told.report.run.as_uuid()).collect()).await?;
    let units = jobs_of_units(db, evidence).await?;
    // The unit is here, and belongs to the job that the agent names.
    let is_here =
        |told: &RunEvidence| units.get(&told.unit).is_some_and(|job| told.job.is_none_or(|named| named == *job));
    let (mut reports, mut unseen) = (Vec::new(), Vec::new());
    for told in &evidence.runs {
        // What another tenant has under this name is not looked at.
        match runs.get(&told.report.run).filter(|row| row.job.tenant == evidence.tenant) {
            Some(row) if row.job.id == told.unit && is_here(told) => {
                if !told.kept && (row.status.is_active() || row.status.is_opinion()) {
                    reports.push(RunReport { last_seq: row.acked_seq.max(row.last_seq), ..told.report.clone() });
                }
            }
            // Of a run whose job is here is learnt when the job is handed out again.
            None if is_here(told) => {}
            // Executed for another job than the ledger has: it says nothing about that one.
            Some(_) | None if told.at >= evidence.since => unseen.push(told),
            Some(_) | None => {}
        }
    }
    let (answers, mut heard) = report(db, desk, &reports.iter().collect::<Vec<_>>()).await?;
    let is_news = |answer: &&ReportAnswer| {
        matches!(
            answer,
            ReportAnswer::Recorded(_) | ReportAnswer::Corrected(_) | ReportAnswer::Stale { evidence: true }
        )
    };
    let taken = number(answers.iter().filter(is_news).count());
    raise_host_fences(db, evidence).await?;
    let new = number(usize::try_from(note(db, desk, evidence, &unseen).await?).unwrap_or(0));
    if new > 0 {
        let reason = format!(
            "{new} runs of jobs that the ledger does not have were executed, perhaps before it was restored from an older \
             copy; see GET /evidence/unknown-runs"
        );
        let data = EventData { worker: Some(evidence.agent.clone()), reason: Some(reason), ..EventData::default() };
        let mut changes = Changes::at(desk.now);
        changes.tell(evidence.tenant, None, None, EventKind::UnknownRunsFound, data);
        heard.push(changes.write(db).await?);
    }
    let unknown = number(unseen.len());
    let known = number(evidence.runs.len()).saturating_sub(taken + unknown);
    Ok((EvidenceTaken { known, taken, unknown, new }, heard))
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// The units that are told of and are here, each with the job that it is a part of; a job without parts is its own.
async fn jobs_of_units(db: &mut impl Db, evidence: &Evidence) -> StoreResult<HashMap<JobId, JobId>> {
    let tenants = Col::Id(vec![*evidence.tenant.as_uuid(); evidence.runs.len()]);
    let units = Col::Id(evidence.runs.iter().map(|told| *told.unit.as_uuid()).collect());
    let read = |row: &dyn Row| Ok((JobId::from_uuid(row.id(0)?), JobId::from_uuid(row.id(1)?)));
    Ok(db.query_many(JOBS, &[tenants, units], read).await?.into_iter().collect())
}

/// An agent refuses what comes under an older lease of a host than it has seen. A ledger that has forgotten leases would give
/// such ones. An agent speaks for hosts that it reaches, as they are now, and for no others.
async fn raise_host_fences(db: &mut impl Db, evidence: &Evidence) -> StoreResult<()> {
    let mut highest: BTreeMap<&str, i64> = BTreeMap::new();
    for told in &evidence.runs {
        let fence = i64::try_from(told.host_fence).unwrap_or(0).min(FENCE_MAX);
        let known = highest.entry(told.host.as_str()).or_default();
        *known = fence.max(*known);
    }
    let Some(agent) = find_agent(db, evidence.tenant, &evidence.agent).await? else { return Ok(()) };
    let tenant = *evidence.tenant.as_uuid();
    for (name, fence) in highest {
        let hosts = db.query(HOSTS, &[Val::Id(tenant), Val::Text(name)], |row| Ok((row.int(0)?, row.text(1)?))).await?;
        for (id, connection) in hosts {
            // One that cannot be read is given to nobody.
            let Ok(connection) = serde_json::from_str::<Connection>(&connection) else { continue };
            let Ok(host) = HostName::new(name) else { continue };
            if agent.reaches(&host, &connection) {
                db.execute(RAISE, &[Val::Int(id), Val::Int(fence)]).await?;
            }
        }
    }
    Ok(())
}

/// Notes runs, and says how many were not noted before.
async fn note(db: &mut impl Db, desk: &Desk<'_>, evidence: &Evidence, runs: &[&RunEvidence]) -> StoreResult<u64> {
    let tenant = *evidence.tenant.as_uuid();
    // The same one twice is one.
    let mut seen: HashSet<RunId> = HashSet::new();
    let runs: Vec<&RunEvidence> = runs.iter().copied().filter(|told| seen.insert(told.report.run)).collect();
    if runs.is_empty() {
        return Ok(0);
    }
    let cols = [
        Col::Id(vec![tenant; runs.len()]),
        Col::Id(runs.iter().map(|told| *told.report.run.as_uuid()).collect()),
        Col::Id(runs.iter().map(|told| *told.unit.as_uuid()).collect()),
        Col::OptId(runs.iter().map(|told| told.job.map(|job| *job.as_uuid())).collect()),
        Col::Int(runs.iter().map(|told| i64::from(told.attempt)).collect()),
        Col::Text(vec![evidence.agent.as_str(); runs.len()]),
        Col::Text(runs.iter().map(|told| told.host.as_str()).collect()),
        Col::Bool(runs.iter().map(|told| told.report.outcome == Outcome::Succeeded).collect()),
        Col::OptInt(runs.iter().map(|told| told.report.exit_code.map(i64::from)).collect()),
        Col::At(runs.iter().map(|told| told.at).collect()),
        Col::At(vec![desk.now; runs.len()]),
    ];
    let new = db.execute_many(ADD, &cols).await?;
    if new > 0 {
        db.execute(TRIM, &[Val::Id(tenant), Val::Int(KEPT_MAX)]).await?;
    }
    Ok(new)
}

const JOBS: Sql = Sql::Each {
    sqlite: "select j.id, coalesce(p.id, j.id) from job j left join job p on p.number = j.parent
             where j.tenant = ?1 and j.id = ?2",
    postgres: "select j.id, coalesce(p.id, j.id) from job j
               join unnest($1::uuid[], $2::uuid[]) as k (tenant, id) on j.tenant = k.tenant and j.id = k.id
               left join job p on p.number = j.parent",
};
const HOSTS: Sql = Sql::Same("select id, connection from host where tenant = $1 and name = $2 and removed_at is null");
const RAISE: Sql = Sql::Same("update host_lock set fence = $2 where host = $1 and fence < $2");
const ADD: Sql = Sql::Each {
    sqlite: "insert into unknown_run (tenant, run, unit, job, attempt, agent, host, succeeded, exit_code, ended_at,
                                      reported_at)
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) on conflict do nothing",
    postgres: "insert into unknown_run (tenant, run, unit, job, attempt, agent, host, succeeded, exit_code, ended_at,
                                        reported_at)
               select * from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::bigint[], $6::text[], $7::text[],
                                    $8::boolean[], $9::bigint[], $10::timestamptz[], $11::timestamptz[])
               on conflict do nothing",
};
/// The newest run of each agent comes first, then the second newest of each, and so on: an agent that tells of many takes no
/// other agent's share.
const TRIM: Sql = Sql::Same(
    "delete from unknown_run where tenant = $1 and run not in
       (select run from
          (select run, row_number() over (partition by agent order by run desc) as place from unknown_run where tenant = $1)
          as placed
        order by place, run desc limit $2)",
);
