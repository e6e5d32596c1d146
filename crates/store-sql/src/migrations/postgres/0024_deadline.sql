-- Until when plain jobs with a deadline must have ended. A row lives as long as its job has not ended.
create table deadline (
  number bigint primary key,
  at timestamptz not null
);
create index deadline_by_time on deadline (at);
