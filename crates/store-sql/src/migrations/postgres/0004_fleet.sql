-- Commands on hosts. A command is a job that runs through units, one for each host; a unit is a row in `job` too.

alter table job add column kind smallint not null default 1;
alter table job add column parent bigint;
alter table job add column host bigint;
alter table run add column exit_code integer;
alter table gone add column host bigint;

-- A unit that is gone has the name of its command, and is found through it.
drop index gone_by_id;
create unique index gone_by_id on gone (tenant, id) where host is null;

-- Units are found through their command; lists of jobs do not meet them.
drop index job_by_id;
create unique index job_by_id on job (tenant, id) where parent is null;
create unique index job_by_parent on job (parent, host) where parent is not null;

create table fleet (
  number bigint primary key,
  tenant uuid not null,
  inventory bigint not null,
  resource bigint,
  command text not null,
  shared boolean not null,
  selector text,
  rollout text not null,
  deadline_ms bigint,
  run_at timestamptz,
  targets bytea not null,
  total bigint not null,
  planned bigint not null,
  batch_end bigint not null,
  stopped text,
  sweep smallint not null,
  swept bigint not null,
  live boolean not null
) with (fillfactor = 70);
create index fleet_that_lives on fleet (number) where live;
create index fleet_by_resource on fleet (resource) where resource is not null;

-- How many units of a command stand where. One row for each writer, so that writers do not wait for each other; the sum counts.
create table tally (
  number bigint not null,
  slot bigint not null,
  status smallint not null,
  units bigint not null,
  primary key (number, slot, status)
) with (fillfactor = 50);

-- Who is at a host (held) and who waits for it, in the order they came.
create table turn (
  ticket bigserial primary key,
  host bigint not null,
  unit bigint not null,
  shared boolean not null,
  held boolean not null
);
create index turn_by_host on turn (host, ticket);
create unique index turn_by_unit on turn (unit);

-- One row for each host: whoever looks at its turns holds it meanwhile. The fence grows with every hand-out.
create table host_lock (
  host bigint primary key,
  fence bigint not null
) with (fillfactor = 70);

create table approval (
  number bigint primary key,
  tenant uuid not null,
  state smallint not null,
  hash bytea not null,
  quorum bigint not null,
  four_eyes boolean not null,
  requester text not null
);
create index approval_that_waits on approval (tenant, number) where state = 1;

create table vote (
  number bigint not null,
  by text not null,
  yes boolean not null,
  reason text,
  at timestamptz not null,
  primary key (number, by)
);

-- Where commands may not run. `host` or `selector`; no command is every command.
create table block (
  id bigserial primary key,
  tenant uuid not null,
  inventory bigint not null,
  host bigint,
  selector text,
  command text,
  reason text not null,
  by text not null,
  at timestamptz not null,
  expires_at timestamptz,
  lifted_at timestamptz
);
create index block_by_tenant on block (tenant) where lifted_at is null;
