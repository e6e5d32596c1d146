-- The audit trail: what was done with authority. Rows are added and never touched again.

-- Where each chain ends. The chain of what belongs to no tenant has an id of zeros.
create table audit_chain (
  chain blob primary key,
  number integer not null,
  hash blob not null
) without rowid;

create table audit (
  chain blob not null,
  number integer not null,
  at integer not null,
  actor text not null,
  on_behalf_of text,
  scopes text not null,
  action text not null,
  resource text not null,
  diff text,
  reason text,
  request_id text,
  ip text,
  result text not null,
  prev blob not null,
  hash blob not null,
  primary key (chain, number)
) without rowid;
create index audit_by_actor on audit (chain, actor, number);
create index audit_by_resource on audit (chain, resource, number);
