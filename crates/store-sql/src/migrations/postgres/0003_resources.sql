-- Configuration that people wrote, version by version. A version never changes; `active` says which one counts.

create table resource (
  id bigserial primary key,
  tenant uuid not null,
  kind text collate "C" not null,
  name text collate "C" not null,
  active integer,
  latest integer not null,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  unique (tenant, kind, name)
);

create table resource_version (
  resource bigint not null,
  version integer not null,
  spec text not null,
  note text,
  by text not null,
  at timestamptz not null,
  primary key (resource, version)
);
