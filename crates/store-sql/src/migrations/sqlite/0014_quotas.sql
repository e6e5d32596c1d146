-- Evaluations that ended the server twice, and are not made again until a person says so.
create table set_aside (
  tenant blob not null,
  subject text not null,
  at integer not null,
  primary key (tenant, subject)
) without rowid;
