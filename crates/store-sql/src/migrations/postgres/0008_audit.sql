-- The audit trail: what was done with authority. Rows are added and never touched again.

-- Where each chain ends. The chain of what belongs to no tenant has an id of zeros. Whoever adds to a chain holds its row,
-- so that its numbers have no gap and no record has two successors, however many servers there are.
create table audit_chain (
  chain uuid primary key,
  number bigint not null,
  hash bytea not null
);

create table audit (
  chain uuid not null,
  number bigint not null,
  at timestamptz not null,
  actor text not null,
  on_behalf_of text,
  scopes text not null,
  action text not null,
  resource text collate "C" not null,
  diff text,
  reason text,
  request_id text,
  ip text,
  result text not null,
  prev bytea not null,
  hash bytea not null,
  primary key (chain, number)
);
create index audit_by_actor on audit (chain, actor, number);
create index audit_by_resource on audit (chain, resource, number);
