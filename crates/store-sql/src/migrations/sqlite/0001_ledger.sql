-- The ledger on SQLite. The same numbers and names stand in ../postgres.

create table ledger (
  key text primary key,
  value text not null
) without rowid;

create table tenant (
  id blob primary key,
  name text not null unique,
  created_at integer not null
) without rowid;

-- One line of the queue: a tenant, a lane, a task type, a set of required labels.
create table channel (
  id integer primary key,
  tenant blob not null,
  lane integer not null,
  type text not null,
  requires text not null,
  unique (tenant, lane, type, requires)
);

create table job (
  number integer primary key,
  id blob not null,
  tenant blob not null,
  channel integer not null,
  priority integer not null,
  status integer not null,
  attempts integer not null,
  failures integer not null,
  losses integer not null,
  fence integer not null,
  due_at integer,
  created_at integer not null,
  updated_at integer not null,
  finished_at integer,
  policy text,
  payload text,
  result text,
  error text,
  actor text not null,
  request_id text not null,
  trace_id text,
  correlation_id text,
  idempotency_key text,
  external_id text,
  replay_of blob
);
-- Every lookup has the tenant bound; ids sort by age, so this also lists a tenant's jobs.
create unique index job_by_id on job (tenant, id);

-- Runs that wait for a worker. Narrow and short-lived.
create table queue (
  channel integer not null,
  rank integer not null,
  number integer not null,
  primary key (channel, rank, number)
) without rowid;

-- Jobs that wait for a moment.
create table timer (
  due_at integer not null,
  number integer not null,
  channel integer not null,
  primary key (due_at, number)
) without rowid;
-- To count what is scheduled where, without asking each job.
create index timer_by_channel on timer (channel);

-- Runs that a worker has. Narrow and short-lived.
create table lease (
  run blob primary key,
  number integer not null,
  worker text not null,
  accepted integer not null,
  renewed_at integer not null,
  deadline_at integer not null
) without rowid;

create table run (
  id blob primary key,
  tenant blob not null,
  number integer not null,
  attempt integer not null,
  fence integer not null,
  status integer not null,
  worker text not null,
  claimed_at integer not null,
  started_at integer,
  finished_at integer,
  error text,
  last_seq integer not null default 0,
  acked_seq integer not null default 0
) without rowid;
create index run_by_job on run (number, fence);

create table event (
  position integer primary key,
  tenant blob not null,
  number integer,
  fence integer,
  seq integer,
  kind text not null,
  at integer not null,
  data text
);
create index event_by_job on event (number) where seq is null;
create unique index event_by_seq on event (number, fence, seq) where seq is not null;

-- Notices, which belong to no job, by age.
create index event_without_job on event (at) where number is null;

-- Jobs that retention has removed while their events are still kept.
create table gone (
  number integer primary key,
  id blob not null,
  tenant blob not null,
  trace_id text,
  correlation_id text,
  finished_at integer not null
);
create unique index gone_by_id on gone (tenant, id);
create index gone_by_age on gone (finished_at);

create table key (
  tenant blob not null,
  scope integer not null,
  key text not null,
  job blob not null,
  hash blob not null,
  expires_at integer not null,
  primary key (tenant, scope, key)
) without rowid;
create index key_by_expiry on key (expires_at);

create table dead_letter (
  id integer primary key,
  tenant blob not null,
  lane integer not null,
  number integer not null,
  at integer not null,
  status integer not null,
  class text,
  error text,
  closed_at integer,
  closed_by text,
  reason text,
  replayed_as blob
);
create index dead_letter_by_lane on dead_letter (tenant, lane, status, id);
create index dead_letter_by_job on dead_letter (number);

create table token (
  id text primary key,
  kind text not null,
  tenant blob,
  name text not null,
  secret_hash blob not null,
  scopes text not null,
  created_at integer not null,
  expires_at integer,
  revoked_at integer
) without rowid;

create table worker (
  tenant blob not null,
  name text not null,
  worker_type text not null,
  task_types text not null,
  labels text not null,
  slots integer not null,
  registered_at integer not null,
  seen_at integer not null,
  draining integer not null,
  primary key (tenant, name)
) without rowid;
