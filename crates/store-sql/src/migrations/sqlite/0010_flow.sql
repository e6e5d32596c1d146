-- Runs of workflows. A run is a job; what it begins are jobs too.

-- The run that began a job.
alter table job add column flow integer;
create index job_by_flow on job (flow) where flow is not null;

-- Definitions that runs are pinned to, each kept once.
create table flow_definition (
  id integer primary key,
  tenant blob not null,
  hash blob not null,
  body text not null,
  unique (tenant, hash)
);

create table flow (
  number integer primary key,
  tenant blob not null,
  definition integer not null,
  workflow text not null,
  workflow_version integer,
  version integer not null,
  steps integer not null,
  node text,
  paused_for text,
  forked_from blob,
  forked_step integer,
  depth integer not null
);
create index flow_by_definition on flow (definition);

-- What a run did, a row for each time it went on. The version of a run is the number of its turns.
create table flow_turn (
  flow integer not null,
  turn integer not null,
  first_step integer not null,
  last_step integer not null,
  at integer not null,
  records text not null,
  primary key (flow, turn)
) without rowid;

-- The whole run after some of its turns, so that not all of them have to be added up.
create table flow_snapshot (
  flow integer not null,
  turn integer not null,
  steps integer not null,
  body text not null,
  primary key (flow, turn)
) without rowid;

-- What came in for runs and was not heard yet. Short-lived.
create table flow_inbox (
  id integer primary key autoincrement,
  flow integer not null,
  child integer,
  body text
);
create index flow_inbox_by_flow on flow_inbox (flow);

-- Waits that somebody else can end: 1 is an approval, 2 an event.
create table flow_wait (
  flow integer not null,
  node text not null,
  visit integer not null,
  tenant blob not null,
  kind integer not null,
  name text not null,
  key text,
  expires_at integer,
  since integer not null,
  primary key (flow, node, visit)
) without rowid;
create index flow_wait_by_name on flow_wait (tenant, kind, name);
