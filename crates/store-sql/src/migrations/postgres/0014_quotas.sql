-- Evaluations that ended the server twice, and are not made again until a person says so.
create table set_aside (
  tenant uuid not null,
  subject text not null,
  at timestamptz not null,
  primary key (tenant, subject)
);
