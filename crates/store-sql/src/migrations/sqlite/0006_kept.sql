-- Hosts that are kept because a run went missing there: nobody knows whether it still goes on.
create table kept (
  run blob primary key,
  host integer not null,
  unit integer not null,
  shared integer not null,
  agent text not null,
  since integer not null,
  until integer not null
) without rowid;
create index kept_by_host on kept (host);
create index kept_by_end on kept (until);
