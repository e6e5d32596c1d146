-- Hosts that are kept because a run went missing there: nobody knows whether it still goes on.
create table kept (
  run uuid primary key,
  host bigint not null,
  unit bigint not null,
  shared boolean not null,
  agent text not null,
  since timestamptz not null,
  until timestamptz not null
);
create index kept_by_host on kept (host);
create index kept_by_end on kept (until);
