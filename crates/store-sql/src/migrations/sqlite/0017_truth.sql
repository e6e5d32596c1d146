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
