-- The ledger on PostgreSQL. The same numbers and names stand in ../sqlite.

create table ledger (
  key text primary key,
  value text not null
);

create table tenant (
  id uuid primary key,
  name text not null unique,
  created_at timestamptz not null
);

-- One line of the queue: a tenant, a lane, a task type, a set of required labels.
create table channel (
  id bigserial primary key,
  tenant uuid not null,
  lane smallint not null,
  type text not null,
  requires text not null,
  unique (tenant, lane, type, requires)
);

create sequence job_number;

create table job (
  number bigint primary key,
  id uuid not null,
  tenant uuid not null,
  channel bigint not null,
  priority smallint not null,
  status smallint not null,
  attempts integer not null,
  failures integer not null,
  losses integer not null,
  fence integer not null,
  due_at timestamptz,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  finished_at timestamptz,
  policy text,
  payload json,
  result json,
  error text,
  actor text not null,
  request_id text not null,
  trace_id text,
  correlation_id text,
  idempotency_key text,
  external_id text,
  replay_of uuid
) with (fillfactor = 70); -- room for the two updates of a job's life, so that no index is touched by them
-- Every lookup has the tenant bound; ids sort by age, so this also lists a tenant's jobs.
create unique index job_by_id on job (tenant, id);

-- Runs that wait for a worker. Narrow and short-lived; vacuumed eagerly, because dead rows at the head slow the claim.
create table queue (
  channel bigint not null,
  rank integer not null, -- the negated priority; the lowest one does not fit a smallint
  number bigint not null,
  primary key (channel, rank, number)
) with (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0);

-- Jobs that wait for a moment.
create table timer (
  due_at timestamptz not null,
  number bigint not null,
  channel bigint not null,
  primary key (due_at, number)
) with (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0);
-- To count what is scheduled where, without asking each job.
create index timer_by_channel on timer (channel);

-- Runs that a worker has. Narrow and short-lived.
create table lease (
  run uuid primary key,
  number bigint not null,
  worker text not null,
  accepted boolean not null,
  renewed_at timestamptz not null,
  deadline_at timestamptz not null
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0);

create table run (
  id uuid primary key,
  tenant uuid not null,
  number bigint not null,
  attempt integer not null,
  fence integer not null,
  status smallint not null,
  worker text not null,
  claimed_at timestamptz not null,
  started_at timestamptz,
  finished_at timestamptz,
  error text,
  last_seq bigint not null default 0,
  acked_seq bigint not null default 0
) with (fillfactor = 70);
create index run_by_job on run (number, fence);

-- Ordered by transaction, then number: see docs/decisions/0005.
create sequence event_position;
create table event (
  txid bigint not null,
  position bigint not null default nextval('event_position'),
  tenant uuid not null,
  number bigint,
  fence integer,
  seq bigint,
  kind text not null,
  at timestamptz not null,
  data json,
  primary key (txid, position)
);
create index event_by_job on event (number, position) where seq is null;
create unique index event_by_seq on event (number, fence, seq) where seq is not null;

-- Notices, which belong to no job, by age.
create index event_without_job on event (at) where number is null;

-- Jobs that retention has removed while their events are still kept.
create table gone (
  number bigint primary key,
  id uuid not null,
  tenant uuid not null,
  trace_id text,
  correlation_id text,
  finished_at timestamptz not null
);
create unique index gone_by_id on gone (tenant, id);
create index gone_by_age on gone (finished_at);

create table key (
  tenant uuid not null,
  scope smallint not null,
  key text not null,
  job uuid not null,
  hash bytea not null,
  expires_at timestamptz not null,
  primary key (tenant, scope, key)
);
create index key_by_expiry on key (expires_at);

create table dead_letter (
  id bigserial primary key,
  tenant uuid not null,
  lane smallint not null,
  number bigint not null,
  at timestamptz not null,
  status smallint not null,
  class text,
  error text,
  closed_at timestamptz,
  closed_by text,
  reason text,
  replayed_as uuid
);
create index dead_letter_by_lane on dead_letter (tenant, lane, status, id);
create index dead_letter_by_job on dead_letter (number);

create table token (
  id text primary key,
  kind text not null,
  tenant uuid,
  name text not null,
  secret_hash bytea not null,
  scopes text not null,
  created_at timestamptz not null,
  expires_at timestamptz,
  revoked_at timestamptz
);

create table worker (
  tenant uuid not null,
  name text not null,
  worker_type text not null,
  task_types text not null,
  labels text not null,
  slots integer not null,
  registered_at timestamptz not null,
  seen_at timestamptz not null,
  draining boolean not null,
  primary key (tenant, name)
);
