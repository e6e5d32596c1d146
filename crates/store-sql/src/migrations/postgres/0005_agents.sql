-- Agents, and the output they bring.

-- What a join token gives to the agent that uses it.
alter table token add column labels text not null default '';

create table agent (
  tenant uuid not null,
  name text not null,
  public_key bytea not null,
  labels text not null,
  token text not null,
  enrolled_at timestamptz not null,
  primary key (tenant, name)
);
create unique index agent_by_key on agent (public_key);

-- Where the output of runs is: ranges of a stream, each an object of its own in the blob store.
create table output (
  run uuid not null,
  stream smallint not null,
  begins bigint not null,
  bytes bigint not null,
  sha256 bytea not null,
  encoding smallint not null,
  key text not null,
  at timestamptz not null,
  primary key (run, stream, begins)
);
