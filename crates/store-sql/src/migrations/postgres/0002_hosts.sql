-- Where commands run.

create table inventory (
  id bigserial primary key,
  tenant uuid not null,
  name text collate "C" not null,
  revision bigint not null,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  unique (tenant, name)
);

-- A host that was taken out keeps its row, as jobs that ran there name it.
create table host (
  id bigserial primary key,
  inventory bigint not null,
  tenant uuid not null,
  name text collate "C" not null,
  labels text not null,
  groups text not null,
  vars text,
  connection text not null,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  removed_at timestamptz
);
create unique index host_by_name on host (inventory, name) where removed_at is null;

-- What is said about groups: the groups in them, and variables. A group that hosts name needs no row here.
create table host_group (
  inventory bigint not null,
  name text collate "C" not null,
  groups text not null,
  vars text,
  primary key (inventory, name)
);
