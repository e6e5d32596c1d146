-- Commands on hosts. A command is a job that runs through units, one for each host; a unit is a row in `job` too.

alter table job add column kind integer not null default 1;
alter table job add column parent integer;
alter table job add column host integer;
alter table run add column exit_code integer;
alter table gone add column host integer;

-- A unit that is gone has the name of its command, and is found through it.
drop index gone_by_id;
create unique index gone_by_id on gone (tenant, id) where host is null;

-- Units are found through their command; lists of jobs do not meet them.
drop index job_by_id;
create unique index job_by_id on job (tenant, id) where parent is null;
create unique index job_by_parent on job (parent, host) where parent is not null;

create table fleet (
  number integer primary key,
  tenant blob not null,
  inventory integer not null,
  resource integer,
  command text not null,
  shared integer not null,
  selector text,
  rollout text not null,
  deadline_ms integer,
  run_at integer,
  targets blob not null,
  total integer not null,
  planned integer not null,
  batch_end integer not null,
  stopped text,
  sweep integer not null,
  swept integer not null,
  live integer not null
);
create index fleet_that_lives on fleet (number) where live = 1;
create index fleet_by_resource on fleet (resource) where resource is not null;

-- How many units of a command stand where. One row for each writer, so that writers do not wait for each other; the sum counts.
create table tally (
  number integer not null,
  slot integer not null,
  status integer not null,
  units integer not null,
  primary key (number, slot, status)
) without rowid;

-- Who is at a host (held) and who waits for it, in the order they came.
create table turn (
  ticket integer primary key,
  host integer not null,
  unit integer not null,
  shared integer not null,
  held integer not null
);
create index turn_by_host on turn (host, ticket);
create unique index turn_by_unit on turn (unit);

-- One row for each host: whoever looks at its turns holds it meanwhile. The fence grows with every hand-out.
create table host_lock (
  host integer primary key,
  fence integer not null
) without rowid;

create table approval (
  number integer primary key,
  tenant blob not null,
  state integer not null,
  hash blob not null,
  quorum integer not null,
  four_eyes integer not null,
  requester text not null
);
create index approval_that_waits on approval (tenant, number) where state = 1;

create table vote (
  number integer not null,
  by text not null,
  yes integer not null,
  reason text,
  at integer not null,
  primary key (number, by)
) without rowid;

-- Where commands may not run. `host` or `selector`; no command is every command.
create table block (
  id integer primary key,
  tenant blob not null,
  inventory integer not null,
  host integer,
  selector text,
  command text,
  reason text not null,
  by text not null,
  at integer not null,
  expires_at integer,
  lifted_at integer
);
create index block_by_tenant on block (tenant) where lifted_at is null;
