-- Runs of workflows. A run is a job; what it begins are jobs too.

-- The run that began a job.
alter table job add column flow bigint;
create index job_by_flow on job (flow) where flow is not null;

-- Definitions that runs are pinned to, each kept once.
create table flow_definition (
  id bigint generated always as identity primary key,
  tenant uuid not null,
  hash bytea not null,
  body text not null,
  unique (tenant, hash)
);

create table flow (
  number bigint primary key,
  tenant uuid not null,
  definition bigint not null,
  workflow text not null,
  workflow_version bigint,
  version bigint not null,
  steps bigint not null,
  node text,
  paused_for text,
  forked_from uuid,
  forked_step bigint,
  depth bigint not null
) with (fillfactor = 70);
create index flow_by_definition on flow (definition);

-- What a run did, a row for each time it went on. The version of a run is the number of its turns.
create table flow_turn (
  flow bigint not null,
  turn bigint not null,
  first_step bigint not null,
  last_step bigint not null,
  at timestamptz not null,
  records text not null,
  primary key (flow, turn)
);

-- The whole run after some of its turns, so that not all of them have to be added up.
create table flow_snapshot (
  flow bigint not null,
  turn bigint not null,
  steps bigint not null,
  body text not null,
  primary key (flow, turn)
);

-- What came in for runs and was not heard yet. Short-lived.
create table flow_inbox (
  id bigint generated always as identity primary key,
  flow bigint not null,
  child bigint,
  body text
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
create index flow_inbox_by_flow on flow_inbox (flow);

-- Waits that somebody else can end: 1 is an approval, 2 an event.
create table flow_wait (
  flow bigint not null,
  node text not null,
  visit bigint not null,
  tenant uuid not null,
  kind bigint not null,
  name text not null,
  key text,
  expires_at timestamptz,
  since timestamptz not null,
  primary key (flow, node, visit)
);
create index flow_wait_by_name on flow_wait (tenant, kind, name);
