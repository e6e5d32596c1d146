-- Runs that agents executed, of jobs that the ledger does not have: it was restored from a copy older than they are.

create table unknown_run (
  tenant blob not null,
  run blob not null,
  unit blob not null,
  job blob,
  attempt integer not null,
  agent text not null,
  host text not null,
  succeeded integer not null,
  exit_code integer,
  ended_at integer not null,
  reported_at integer not null,
  primary key (tenant, run)
) without rowid;

-- Requests that make no job and were carried out once for their key, with what was answered.
create table request_key (
  tenant blob not null,
  operation text not null,
  key text not null,
  hash blob not null,
  answer text not null,
  expires_at integer not null,
  primary key (tenant, operation, key)
) without rowid;
create index request_key_by_expiry on request_key (expires_at);

-- An external id (scope 2) belongs to its job for ever. When retention removes the job, its key says what it was.
alter table key add column number integer;
alter table key add column status integer;
alter table key add column created_at integer;
update key set expires_at = 253402214400000000 where scope = 2;
