-- Runs that agents executed, of jobs that the ledger does not have: it was restored from a copy older than they are.

create table unknown_run (
  tenant uuid not null,
  run uuid not null,
  unit uuid not null,
  job uuid,
  attempt bigint not null,
  agent text not null,
  host text not null,
  succeeded boolean not null,
  exit_code bigint,
  ended_at timestamptz not null,
  reported_at timestamptz not null,
  primary key (tenant, run)
);

-- Requests that make no job and were carried out once for their key, with what was answered.
create table request_key (
  tenant uuid not null,
  operation text not null,
  key text not null,
  hash bytea not null,
  answer text not null,
  expires_at timestamptz not null,
  primary key (tenant, operation, key)
);
create index request_key_by_expiry on request_key (expires_at);

-- An external id (scope 2) belongs to its job for ever. When retention removes the job, its key says what it was.
alter table key add column number bigint;
alter table key add column status bigint;
alter table key add column created_at timestamptz;
update key set expires_at = timestamptz '9999-12-30 00:00:00+00' where scope = 2;
