//! Whether what is about to start on a host is what was approved. Asked for units of commands that had an approval only.
//!
//! Two things are compared, both as they are inside the transaction that hands the run out. What the command names (the
//! active version of its type, the identity of its secrets): if that has changed, the approval itself is superseded, and
//! nothing of the command starts any more. And the host: if that has changed, its own unit is superseded.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use bowline_model::fleet::{
    ApprovalState, CommandSpec, HostDigest, HostScope, Named, PinnedCommand, SCOPE_STEPS_MAX, SecretIdentity,
    read_digests, read_targets,
};
use bowline_model::host::{GroupVars, Host, Steps, Vars};
use bowline_model::planted::{self, Mistake};
use bowline_model::secret::SecretRefSpec;
use bowline_store::{StoreError, StoreResult};
use uuid::Uuid;

use super::conduct::{GROUPS, HOST_VARS};
use crate::db::{Col, Db, Row, Sql, Val};
use crate::host_row::{group_with, vars_named};
use crate::job_row::JobRow;

/// The approval of a command whose units are about to start.
pub struct OfCommand {
    pub number: i64,
    pub tenant: Uuid,
    pub state: i64,
    pub named: String,
    pub resource: Option<i64>,
    pub superseded: Option<String>,
}

/// What was approved, of the units of one claim.
#[derive(Default)]
pub struct Approved {
    commands: HashMap<i64, Verdict>,
    digests: HashMap<i64, HostDigest>,
    /// Of each inventory, what its groups say under the names that the commands use.
    groups: HashMap<i64, GroupVars>,
    /// Of each host, what it says itself.
    vars: HashMap<i64, Vars>,
}

enum Verdict {
    /// Nothing of it starts, for this reason.
    Superseded(String),
    /// Each host is looked at; `wants` if the command uses what hosts say about themselves.
    ByHost { command: Box<PinnedCommand>, wants: bool, secrets: Arc<BTreeMap<String, Option<SecretIdentity>>> },
}

/// A host as it is now, in its inventory; without its variables.
pub struct AtHost<'a> {
    pub id: i64,
    pub host: &'a Host,
    pub inventory: i64,
}

impl Approved {
    /// `payloads` are the commands as they are stored, by number.
    pub async fn load(
        db: &mut impl Db,
        approvals: Vec<OfCommand>,
        payloads: impl Fn(i64) -> Option<std::sync::Arc<str>>,
        units: &[&JobRow],
        inventories: &BTreeSet<i64>,
    ) -> StoreResult<Self> {
        let mut approved = Self::default();
        if approvals.is_empty() || planted::on(Mistake::ApprovalUnbound) {
            return Ok(approved);
        }
        for approval in approvals {
            let number = approval.number;
            let text = payloads(number).unwrap_or_default();
            // One that cannot be read holds up itself, and not the claim of everybody.
            let verdict = match serde_json::from_str::<PinnedCommand>(&text) {
                Ok(command) => judge(db, &approval, command).await?,
                Err(error) => {
                    tracing::warn!(job.number = number, %error, "cannot read an approved command, starting nothing of it");
                    Verdict::Superseded("the command cannot be read by this server".to_owned())
                }
            };
            approved.commands.insert(number, verdict);
        }
        let of_approved = |unit: &&&JobRow| unit.parent.is_some_and(|parent| approved.commands.contains_key(&parent));
        let numbers: Vec<i64> = units.iter().filter(of_approved).map(|unit| unit.number).collect();
        let digests = db.query_many(DIGESTS, &[Col::Int(numbers)], |row| Ok((row.int(0)?, row.bytes(1)?))).await?;
        approved.digests =
            digests.into_iter().filter_map(|(unit, bytes)| Some((unit, HostDigest::from_slice(&bytes)?))).collect();
        approved.load_vars(db, units, inventories).await?;
        Ok(approved)
    }

    /// Reads those variables that the commands use, of the hosts they are about to start on.
    async fn load_vars(&mut self, db: &mut impl Db, units: &[&JobRow], inventories: &BTreeSet<i64>) -> StoreResult<()> {
        let mut names: BTreeSet<&str> = BTreeSet::new();
        let mut commands: BTreeSet<i64> = BTreeSet::new();
        for (number, verdict) in &self.commands {
            let Verdict::ByHost { command, .. } = verdict else { continue };
            let wanted = command.spec.wants_vars();
            if !wanted.is_empty() {
                names.extend(wanted);
                commands.insert(*number);
            }
        }
        if names.is_empty() {
            return Ok(());
        }
        for inventory in inventories {
            let groups = db.query(GROUPS, &[Val::Int(*inventory)], |row| group_with(row, &names)).await?;
            self.groups.insert(*inventory, GroupVars::new(groups.into_iter().map(|(group, _)| group)));
        }
        let of_commands = |unit: &&&JobRow| unit.parent.is_some_and(|parent| commands.contains(&parent));
        let hosts: BTreeSet<i64> = units.iter().filter(of_commands).filter_map(|unit| unit.host).collect();
        let hosts = Col::Int(hosts.into_iter().collect());
        let read = |row: &dyn Row| Ok((row.int(0)?, vars_named(&row.opt_text(1)?.unwrap_or_default(), &names)?));
        self.vars = db.query_many(HOST_VARS, &[hosts], read).await?.into_iter().collect();
        Ok(())
    }

    /// What the secrets of a command were when it was approved; `None` if it had no approval.
    pub fn secrets_of(&self, command: i64) -> Option<Arc<BTreeMap<String, Option<SecretIdentity>>>> {
        match self.commands.get(&command)? {
            Verdict::ByHost { secrets, .. } => Some(Arc::clone(secrets)),
            Verdict::Superseded(_) => None,
        }
    }

    /// Why this unit must not start, if it must not. `scope` is what it was planned with, as text.
    pub fn superseded(&self, unit: &JobRow, at: &AtHost<'_>, scope: &str) -> Option<String> {
        let (command, wants) = match unit.parent.and_then(|parent| self.commands.get(&parent))? {
            Verdict::Superseded(why) => return Some(format!("what was approved has changed: {why}")),
            Verdict::ByHost { command, wants, .. } => (command, *wants),
        };
        let name = &at.host.name;
        let changed = || Some(format!("what was approved for host {name} has changed since"));
        let Some(approved) = self.digests.get(&unit.number) else { return changed() };
        let digest = |scope: &HostScope| HostDigest::of(at.id, at.host, command, scope);
        if !wants {
            return if digest(&HostScope::default()) == *approved { None } else { changed() };
        }
        // What would run, and what somebody would see who looked now: both must be what was approved.
        let planned: HostScope = serde_json::from_str(scope).unwrap_or_default();
        let (none, nothing) = (GroupVars::default(), Vars::new());
        let groups = self.groups.get(&at.inventory).unwrap_or(&none);
        let vars = groups.of_host(&at.host.groups, self.vars.get(&at.id).unwrap_or(&nothing));
        let Ok(now) = command.spec.scope_of(&at.host.labels, &vars, &mut Steps::up_to(SCOPE_STEPS_MAX)) else {
            return changed();
        };
        if digest(&planned) == *approved && digest(&now) == *approved { None } else { changed() }
    }
}

async fn judge(db: &mut impl Db, approval: &OfCommand, command: PinnedCommand) -> StoreResult<Verdict> {
    if approval.state != ApprovalState::Approved.code() {
        let why = approval.superseded.clone().unwrap_or_else(|| "it is not approved any more".to_owned());
        return Ok(Verdict::Superseded(why));
    }
    let now = named_now(db, approval, &command.spec).await?;
    let approved = Named::from_text(&approval.named);
    if let Some(why) = approved.changed(&now) {
        let params = [
            Val::Int(approval.number),
            Val::Int(ApprovalState::Superseded.code()),
            Val::Text(&why),
            Val::Int(ApprovalState::Approved.code()),
        ];
        db.execute(SUPERSEDE, &params).await?;
        return Ok(Verdict::Superseded(why));
    }
    let wants = !command.spec.wants_of_host().is_empty();
    Ok(Verdict::ByHost { command: Box::new(command), wants, secrets: Arc::new(approved.secrets) })
}

/// What the command names, as it is in this transaction.
async fn named_now(db: &mut impl Db, approval: &OfCommand, spec: &CommandSpec) -> StoreResult<Named> {
    let mut named = Named::default();
    if let Some(resource) = approval.resource {
        let active = db.query(ACTIVE, &[Val::Int(resource)], |row| row.opt_int(0)).await?;
        named.active = active.into_iter().next().flatten().and_then(|version| u32::try_from(version).ok());
    }
    for (_, name) in spec.server_secrets() {
        let key = [Val::Id(approval.tenant), Val::Text(name.as_str())];
        let found = db.query(SECRET, &key, |row| row.text(0)).await?.into_iter().next();
        let spec: Option<SecretRefSpec> = found.and_then(|text| serde_json::from_str(&text).ok());
        named.secrets.insert(name.to_string(), spec.as_ref().map(SecretIdentity::of));
    }
    Ok(named)
}

/// What was approved for each host of a command; `None` if it had no approval.
pub async fn digests_of(db: &mut impl Db, number: i64) -> StoreResult<Option<HashMap<i64, HostDigest>>> {
    let found = db.query(ALL_DIGESTS, &[Val::Int(number)], |row| Ok((row.bytes(0)?, row.bytes(1)?))).await?;
    let Some((targets, digests)) = found.into_iter().next() else { return Ok(None) };
    let targets = read_targets(&targets).map_err(|e| StoreError::Broken(format!("job #{number}: {e}")))?;
    Ok(Some(targets.into_iter().zip(read_digests(&digests)).collect()))
}

/// Keeps with each of these units what was approved for its host.
pub async fn keep_digests(
    db: &mut impl Db,
    digests: &HashMap<i64, HostDigest>,
    units: impl Iterator<Item = (i64, i64)>,
) -> StoreResult<()> {
    let kept: Vec<(i64, &HostDigest)> =
        units.map(|(unit, host)| (unit, digests.get(&host).unwrap_or(&HostDigest::NONE))).collect();
    if kept.is_empty() {
        return Ok(());
    }
    let cols = [
        Col::Int(kept.iter().map(|(unit, _)| *unit).collect()),
        Col::Bytes(kept.iter().map(|(_, digest)| digest.as_bytes().as_slice()).collect()),
    ];
    db.execute_many(KEEP, &cols).await.map(drop)
}

const DIGESTS: Sql = Sql::Each {
    sqlite: "select number, approved from job where number = ?1 and approved is not null",
    postgres: "select number, approved from job where number = any ($1::bigint[]) and approved is not null",
};
const ACTIVE: Sql = Sql::Same("select active from resource where id = $1");
const SECRET: Sql = Sql::Same(
    "select v.spec from resource r join resource_version v on v.resource = r.id and v.version = r.active
     where r.tenant = $1 and r.kind = 'secret_ref' and r.name = $2",
);
const SUPERSEDE: Sql = Sql::Same("update approval set state = $2, superseded = $3 where number = $1 and state = $4");
const ALL_DIGESTS: Sql = Sql::Same(
    "select f.targets, a.digests from fleet f join approval a on a.number = f.number
     where f.number = $1 and a.digests is not null",
);
const KEEP: Sql = Sql::Each {
    sqlite: "update job set approved = ?2 where number = ?1",
    postgres: "update job j set approved = k.approved
               from unnest($1::bigint[], $2::bytea[]) as k (number, approved) where j.number = k.number",
};
