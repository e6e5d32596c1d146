-- Agents, and the output they bring.

-- What a join token gives to the agent that uses it.
alter table token add column labels text not null default '';

create table agent (
  tenant blob not null,
  name text not null,
  public_key blob not null,
  labels text not null,
  token text not null,
  enrolled_at integer not null,
  primary key (tenant, name)
) without rowid;
create unique index agent_by_key on agent (public_key);

-- Where the output of runs is: ranges of a stream, each an object of its own in the blob store.
create table output (
  run blob not null,
  stream integer not null,
  begins integer not null,
  bytes integer not null,
  sha256 blob not null,
  encoding integer not null,
  key text not null,
  at integer not null,
  primary key (run, stream, begins)
) without rowid;
