-- Where commands run.

create table inventory (
  id integer primary key,
  tenant blob not null,
  name text not null,
  revision integer not null,
  created_at integer not null,
  updated_at integer not null,
  unique (tenant, name)
);

-- A host that was taken out keeps its row, as jobs that ran there name it.
create table host (
  id integer primary key,
  inventory integer not null,
  tenant blob not null,
  name text not null,
  labels text not null,
  groups text not null,
  vars text,
  connection text not null,
  created_at integer not null,
  updated_at integer not null,
  removed_at integer
);
create unique index host_by_name on host (inventory, name) where removed_at is null;

-- What is said about groups: the groups in them, and variables. A group that hosts name needs no row here.
create table host_group (
  inventory integer not null,
  name text not null,
  groups text not null,
  vars text,
  primary key (inventory, name)
) without rowid;
