//! What is looked at when a command is about to start on a host: the host as it is now, the blocks that are in force now,
//! the host's next fence.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use bowline_model::fleet::{ApprovalRule, HostLock};
use bowline_model::host::{GroupTree, Host, HostFacts, Selector, Steps, TooCostly};
use bowline_model::job::JobKind;
use bowline_model::planted::{self, Mistake};
use bowline_model::{GroupName, JobId};
use bowline_store::{ClaimedUnit, StoreError, StoreResult};

use super::Desk;
use super::approved::{Approved, AtHost, OfCommand};
use crate::db::{Col, Db, Row, Sql, Val};
use crate::host_row::{group, host, host_columns_without_vars};
use crate::job_row::{JobRow, count};

/// Steps that the selectors of all blocks may take for one host, on the thread that writes for everybody.
const BLOCK_STEPS_MAX: u64 = 100_000;

/// The same for the selector of a rule about approval.
const RULE_STEPS_MAX: u64 = 100_000;

/// A host as it is when a run is about to start there.
struct Found {
    /// Without its variables.
    host: Host,
    inventory: i64,
    removed: bool,
    fence: i64,
}

struct Command {
    id: JobId,
    name: String,
    payload: Arc<str>,
    trace_id: Option<Arc<str>>,
    correlation_id: Option<Arc<str>>,
    /// Hosts in all.
    hosts: i64,
    /// Of a command that had no approval: the rule of the version of its type that is active now, and which version that is.
    rule: Option<Rule>,
}

struct Rule {
    version: u32,
    hosts_over: Option<u32>,
    /// Parsed once for all units of the command; one that cannot be read is `Unreadable`.
    hosts: RuleHosts,
}

enum RuleHosts {
    All,
    Of(Box<Selector>),
    Unreadable,
}

struct Block {
    id: i64,
    inventory: i64,
    hosts: BlockedHosts,
    command: Option<String>,
    reason: String,
}

enum BlockedHosts {
    One(Option<i64>),
    Of(Box<Selector>),
    /// Another version of the server may have written it. It must not hold up what it does not concern.
    Unreadable,
}

/// Whether a unit may start.
pub enum Start {
    /// It may, with this.
    Now { unit: ClaimedUnit, payload: Arc<str>, trace_id: Option<Arc<str>>, correlation_id: Option<Arc<str>> },
    /// It is forbidden, by this block, for this reason.
    Blocked(i64, String),
    /// Its host was taken out of the inventory.
    Gone,
    /// It is not what was approved, for this reason.
    Superseded(String),
}

/// Everything about the units of one claim.
#[derive(Default)]
pub struct Units {
    hosts: HashMap<i64, Found>,
    commands: HashMap<i64, Command>,
    blocks: Vec<Block>,
    trees: HashMap<i64, GroupTree>,
    approved: Approved,
}

impl Units {
    /// Loads what concerns the units among these jobs, and takes the next fence of each of their hosts.
    pub async fn load<'a>(
        db: &mut impl Db,
        desk: &Desk<'_>,
        jobs: impl Iterator<Item = &'a JobRow>,
    ) -> StoreResult<Self> {
        let units: Vec<&JobRow> = jobs.filter(|job| job.state.kind.is_unit()).collect();
        if units.is_empty() {
            return Ok(Self::default());
        }
        let fences = next_fences(db, &units).await?;
        let mut hosts: Vec<i64> = units.iter().filter_map(|unit| unit.host).collect();
        hosts.sort_unstable();
        hosts.dedup();
        let found = db.query_many(HOSTS, &[Col::Int(hosts)], |row| read_host(row, &fences)).await?;
        let hosts: HashMap<i64, Found> = found.into_iter().flatten().collect();
        let commands: BTreeSet<i64> = units.iter().filter_map(|unit| unit.parent).collect();
        let commands = db.query_many(COMMANDS, &[Col::Int(commands.into_iter().collect())], read_command).await?;
        let mut approvals = Vec::new();
        let commands: HashMap<i64, Command> = commands
            .into_iter()
            .map(|(number, command, approval)| {
                approvals.extend(approval);
                (number, command)
            })
            .collect();
        let inventories: BTreeSet<i64> = hosts.values().map(|found| found.inventory).collect();
        let payload = |number: i64| commands.get(&number).map(|command| Arc::clone(&command.payload));
        let approved = Approved::load(db, approvals, payload, &units, &inventories).await?;
        let tenants: BTreeSet<uuid::Uuid> = units.iter().map(|unit| *unit.tenant.as_uuid()).collect();
        let now = vec![desk.now; tenants.len()];
        let blocks = db.query_many(BLOCKS, &[Col::Id(tenants.into_iter().collect()), Col::At(now)], read_block).await?;
        let mut trees = HashMap::new();
        let asks_by_selector =
            |command: &Command| command.rule.as_ref().is_some_and(|rule| matches!(rule.hosts, RuleHosts::Of(_)));
        if blocks.iter().any(|block| matches!(block.hosts, BlockedHosts::Of(_)))
            || commands.values().any(asks_by_selector)
        {
            for inventory in inventories {
                let groups = db.query(GROUPS, &[Val::Int(inventory)], group).await?;
                let tree = GroupTree::new(groups.iter().map(|group| (&group.name, &group.groups)));
                trees.insert(inventory, tree.unwrap_or_default());
            }
        }
        Ok(Self { hosts, commands, blocks, trees, approved })
    }

    /// Whether this unit may start now.
    pub fn start(&self, job: &JobRow, scope: &Arc<str>) -> StoreResult<Start> {
        let broken = || StoreError::Broken(format!("unit #{} has no host or command", job.number));
        let (Some(number), Some(host_id)) = (job.parent, job.host) else { return Err(broken()) };
        let Some(command) = self.commands.get(&number) else { return Err(broken()) };
        // It does not start, and the others do.
        let Some(found) = self.hosts.get(&host_id) else {
            return Ok(Start::Superseded(format!("host {host_id} cannot be read by this server; put it again")));
        };
        if found.removed {
            return Ok(Start::Gone);
        }
        if let Some(blocked) = self.blocked(host_id, found, &command.name) {
            return Ok(blocked);
        }
        let at = AtHost { id: host_id, host: &found.host, inventory: found.inventory };
        if let Some(why) = self.approved.superseded(job, &at, scope) {
            return Ok(Start::Superseded(why));
        }
        if let Some(rule) = &command.rule
            && self.asks(rule, command, found)
        {
            let (name, version) = (&command.name, rule.version);
            let why = format!(
                "version {version} of command {name} is active by now and needs approval, which this job was never given; \
                 retry the job to ask for it"
            );
            return Ok(Start::Superseded(why));
        }
        let lock = if let JobKind::Unit(lock) = job.state.kind { lock } else { HostLock::Exclusive };
        let unit = ClaimedUnit {
            command: command.id,
            host_id,
            host: found.host.name.clone(),
            host_fence: found.fence,
            connection: found.host.connection.clone(),
            lock,
            scope: (!scope.is_empty()).then(|| Arc::clone(scope)),
            approved_secrets: self.approved.secrets_of(number),
        };
        Ok(Start::Now {
            unit,
            payload: Arc::clone(&command.payload),
            trace_id: command.trace_id.clone(),
            correlation_id: command.correlation_id.clone(),
        })
    }

    /// Whether the rule wants approval for this host. A selector that cannot be read or evaluated asks.
    fn asks(&self, rule: &Rule, command: &Command, found: &Found) -> bool {
        if planted::on(Mistake::ApprovalUnbound) {
            return false;
        }
        if rule.hosts_over.is_some_and(|max| command.hosts > i64::from(max)) {
            return true;
        }
        let selector = match &rule.hosts {
            RuleHosts::All => return rule.hosts_over.is_none(),
            RuleHosts::Unreadable => return true,
            RuleHosts::Of(selector) => selector,
        };
        let mut steps = Steps::up_to(RULE_STEPS_MAX);
        let Ok(groups) = self.groups_of(found, &mut steps) else { return true };
        let facts = HostFacts { name: &found.host.name, labels: &found.host.labels, groups: &groups };
        selector.matches(facts, &mut steps).unwrap_or(true)
    }

    /// The groups of a host, through any number of steps.
    fn groups_of(&self, found: &Found, steps: &mut Steps) -> Result<BTreeSet<GroupName>, TooCostly> {
        match self.trees.get(&found.inventory) {
            Some(tree) => tree.expand_within(&found.host.groups, steps),
            None => Ok(found.host.groups.clone()),
        }
    }

    /// The first block that holds here. One that cannot be evaluated within the steps holds, too: what is forbidden does not run
    /// because there are too many rules. So does one whose selector cannot be read, for every host of its inventory.
    fn blocked(&self, host_id: i64, found: &Found, command: &str) -> Option<Start> {
        if planted::on(Mistake::BlocksForgotten) {
            return None;
        }
        let mut steps = Steps::up_to(BLOCK_STEPS_MAX);
        let mut groups: Option<BTreeSet<GroupName>> = None;
        for block in &self.blocks {
            let elsewhere = block.inventory != found.inventory
                || block.command.as_deref().is_some_and(|blocked| blocked != command);
            let holds = match &block.hosts {
                _ if elsewhere => Ok(false),
                BlockedHosts::One(host) => Ok(*host == Some(host_id)),
                BlockedHosts::Unreadable => {
                    let reason = format!(
                        "the selector of block {} cannot be read by this server, so it holds for all hosts; lift it \
                         and block again ({})",
                        block.id, block.reason
                    );
                    return Some(Start::Blocked(block.id, reason));
                }
                BlockedHosts::Of(selector) => {
                    let known = match groups.take() {
                        Some(known) => Ok(known),
                        None => self.groups_of(found, &mut steps),
                    };
                    known.and_then(|known| {
                        let groups = groups.insert(known);
                        let facts = HostFacts { name: &found.host.name, labels: &found.host.labels, groups };
                        selector.matches(facts, &mut steps)
                    })
                }
            };
            match holds {
                Ok(false) => {}
                Ok(true) => return Some(Start::Blocked(block.id, block.reason.clone())),
                Err(TooCostly) => {
                    let reason = format!(
                        "the selectors of the blocks in force take more than {BLOCK_STEPS_MAX} steps for this host; \
                         lift or simplify some"
                    );
                    return Some(Start::Blocked(block.id, reason));
                }
            }
        }
        None
    }
}

/// The fence under which each of these units has its host. It grows with every unit that wants the host alone; those that
/// share it begin in any order, so they share the fence, too.
async fn next_fences(db: &mut impl Db, units: &[&JobRow]) -> StoreResult<HashMap<i64, i64>> {
    let alone = |unit: &&&JobRow| unit.state.kind == JobKind::Unit(HostLock::Exclusive);
    let mut fences: HashMap<i64, i64> = HashMap::new();
    for (sql, wanted) in [(FENCE, true), (SAME_FENCE, false)] {
        let mut hosts: Vec<i64> =
            units.iter().filter(|unit| alone(unit) == wanted).filter_map(|unit| unit.host).collect();
        hosts.sort_unstable();
        hosts.dedup();
        fences.extend(db.query_many(sql, &[Col::Int(hosts)], |row| Ok((row.int(0)?, row.int(1)?))).await?);
    }
    Ok(fences)
}

fn read_host(row: &dyn Row, fences: &HashMap<i64, i64>) -> StoreResult<Option<(i64, Found)>> {
    let record = match host(row) {
        Ok(record) => record,
        Err(StoreError::Broken(error)) => {
            tracing::warn!(host.id = row.int(0)?, %error, "cannot read a host, starting nothing there");
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let fence = fences.get(&record.id).copied().unwrap_or(0);
    let found = Found { host: record.host, inventory: row.int(8)?, removed: row.opt_at(9)?.is_some(), fence };
    Ok(Some((record.id, found)))
}

fn read_command(row: &dyn Row) -> StoreResult<(i64, Command, Option<OfCommand>)> {
    let approval = match row.opt_int(6)? {
        None => None,
        Some(state) => Some(OfCommand {
            number: row.int(0)?,
            state,
            named: row.text(7)?,
            superseded: row.opt_text(8)?,
            resource: row.opt_int(9)?,
            tenant: row.id(10)?,
        }),
    };
    let command = Command {
        id: JobId::from_uuid(row.id(1)?),
        name: row.text(2)?,
        payload: row.opt_text(3)?.unwrap_or_default().into(),
        trace_id: row.opt_text(4)?.map(Into::into),
        correlation_id: row.opt_text(5)?.map(Into::into),
        hosts: row.int(11)?,
        rule: match (row.opt_int(12)?, row.opt_text(13)?) {
            (Some(version), Some(spec)) => match read_rule(&spec) {
                Ok(rule) => rule.map(|rule| Rule {
                    version: count(version),
                    hosts_over: rule.hosts_over,
                    hosts: match rule.selector.as_deref().map(Selector::parse) {
                        None => RuleHosts::All,
                        Some(Ok(selector)) => RuleHosts::Of(Box::new(selector)),
                        Some(Err(_)) => RuleHosts::Unreadable,
                    },
                }),
                Err(error) => {
                    let command = row.text(2)?;
                    tracing::warn!(command, %error, "cannot read the approval rule of a command, asking for approval");
                    Some(Rule { version: count(version), hosts_over: None, hosts: RuleHosts::Unreadable })
                }
            },
            _ => None,
        },
    };
    Ok((row.int(0)?, command, approval))
}

/// The rule about approval in a command type.
fn read_rule(spec: &str) -> serde_json::Result<Option<ApprovalRule>> {
    #[derive(serde::Deserialize)]
    struct Ruled {
        #[serde(default)]
        approval: Option<ApprovalRule>,
    }
    serde_json::from_str(spec).map(|ruled: Ruled| ruled.approval)
}

fn read_block(row: &dyn Row) -> StoreResult<Block> {
    let id = row.int(5)?;
    let hosts = match row.opt_text(2)?.map(|text| Selector::parse(&text)) {
        None => BlockedHosts::One(row.opt_int(1)?),
        Some(Ok(selector)) => BlockedHosts::Of(Box::new(selector)),
        Some(Err(error)) => {
            tracing::warn!(block.id = id, %error, "cannot read the selector of a block, holding all hosts of its inventory");
            BlockedHosts::Unreadable
        }
    };
    Ok(Block { id, inventory: row.int(0)?, hosts, command: row.opt_text(3)?, reason: row.text(4)? })
}

const FENCE: Sql = Sql::Each {
    sqlite: "update host_lock set fence = fence + 1 where host = ?1 returning host, fence",
    postgres: "with held as (select host from host_lock where host = any ($1::bigint[]) order by host for update)
               update host_lock l set fence = l.fence + 1 from held h where l.host = h.host returning l.host, l.fence",
};
const SAME_FENCE: Sql = Sql::Each {
    sqlite: "select host, fence from host_lock where host = ?1",
    postgres: "select host, fence from host_lock where host = any ($1::bigint[])",
};
const HOSTS: Sql = Sql::Each {
    sqlite: concat!("select ", host_columns_without_vars!(), ", h.inventory, h.removed_at from host h where h.id = ?1"),
    postgres: concat!(
        "select ",
        host_columns_without_vars!(),
        ", h.inventory, h.removed_at from host h where h.id = any ($1::bigint[])"
    ),
};
const COMMANDS: Sql = Sql::Each {
    sqlite: "select j.number, j.id, f.command, j.payload, j.trace_id, j.correlation_id,
                    a.state, a.named, a.superseded, f.resource, j.tenant, f.total, r.active,
                    case when a.state is null and instr(v.spec, '\"approval\"') > 0 then v.spec end
             from job j join fleet f on f.number = j.number left join approval a on a.number = j.number
             left join resource r on r.id = f.resource
             left join resource_version v on v.resource = r.id and v.version = r.active
             where j.number = ?1",
    postgres: "select j.number, j.id, f.command, j.payload, j.trace_id, j.correlation_id,
                      a.state, a.named, a.superseded, f.resource, j.tenant, f.total, r.active,
                      case when a.state is null and strpos(v.spec, '\"approval\"') > 0 then v.spec end
               from job j join fleet f on f.number = j.number left join approval a on a.number = j.number
               left join resource r on r.id = f.resource
               left join resource_version v on v.resource = r.id and v.version = r.active
               where j.number = any ($1::bigint[])",
};
const BLOCKS: Sql = Sql::Each {
    sqlite: "select inventory, host, selector, command, reason, id from block
             where tenant = ?1 and lifted_at is null and (expires_at is null or expires_at > ?2)",
    postgres: "select b.inventory, b.host, b.selector, b.command, b.reason, b.id
               from unnest($1::uuid[], $2::timestamptz[]) as k (tenant, now)
               join block b on b.tenant = k.tenant and b.lifted_at is null
                 and (b.expires_at is null or b.expires_at > k.now)",
};
/// Without variables: the tree is asked which groups a host is in.
const GROUPS: Sql = Sql::Same("select name, groups, null from host_group where inventory = $1 order by name");
