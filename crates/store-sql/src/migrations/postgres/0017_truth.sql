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
