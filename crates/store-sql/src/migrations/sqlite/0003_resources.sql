-- Configuration that people wrote, version by version. A version never changes; `active` says which one counts.

create table resource (
  id integer primary key,
  tenant blob not null,
  kind text not null,
  name text not null,
  active integer,
  latest integer not null,
  created_at integer not null,
  updated_at integer not null,
  unique (tenant, kind, name)
);

create table resource_version (
  resource integer not null,
  version integer not null,
  spec text not null,
  note text,
  by text not null,
  at integer not null,
  primary key (resource, version)
) without rowid;
