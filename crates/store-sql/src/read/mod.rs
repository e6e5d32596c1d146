//! What readers see. Nothing here changes anything; every question has the tenant bound.

mod agents;
mod asked;
mod audit;
mod blocks;
mod bounds;
mod dead_letters;
mod events;
mod evidence;
mod fleet;
mod flows;
mod hosts;
mod jobs;
mod lanes;
mod output;
mod pages;
mod resources;
mod schedules;
mod tokens;
mod verify;
mod workers;

pub use agents::{find_agent, find_agent_entry, list_agents};
pub use asked::find_asked;
pub use audit::{audit_heads, list_audit};
pub use blocks::{host_queue, list_blocks};
pub use bounds::{list_set_aside, queued_by_tenant, stored_by_tenant};
pub use dead_letters::list_dead_letters;
pub use events::{event_range, events_after, events_before, job_events, position, signed};
pub use evidence::list_unknown_runs;
pub use fleet::{find_fleet, find_unit, list_approvals, list_targets, list_units, list_unplanned};
pub(crate) use flows::WAITING;
pub use flows::{
    count_waiting, find_definition, find_flow, flow_inbox, flow_number, flow_records, flow_sizes, has_signals,
    list_waits, load_flows,
};
pub use hosts::{find_host, find_inventory, list_groups, list_hosts, list_inventories};
pub use jobs::{find_job, list_jobs, resolve_job, waiting_facts};
pub use lanes::lane_depths;
pub use output::{find_output, held_to, judge_range, list_output, may_bring};
pub use resources::{
    count_stopped, find_resource, list_active, list_active_stamps, list_owned, list_resources, list_versions,
};
pub use schedules::{due_schedules, find_schedule, list_schedules};
pub use tokens::{actors_named, find_tenant, find_token, list_made, list_tenants, list_tokens};
pub use verify::verify;
pub use workers::{find_worker, list_draining, list_workers, running_by_worker};
