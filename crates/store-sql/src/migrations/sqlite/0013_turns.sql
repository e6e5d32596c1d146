-- What runs did, in the order in which it came, and found by an index. Without row numbers every text longer than a quarter
-- of a page went to a page of its own, and the next turn of each run to a page somewhere in the middle.
create table turns_in_order (
  flow integer not null,
  turn integer not null,
  first_step integer not null,
  last_step integer not null,
  at integer not null,
  records text not null,
  primary key (flow, turn)
);
insert into turns_in_order (flow, turn, first_step, last_step, at, records)
  select flow, turn, first_step, last_step, at, records from flow_turn order by flow, turn;
drop table flow_turn;
alter table turns_in_order rename to flow_turn;

create table snapshots_in_order (
  flow integer not null,
  turn integer not null,
  steps integer not null,
  body text not null,
  primary key (flow, turn)
);
insert into snapshots_in_order (flow, turn, steps, body)
  select flow, turn, steps, body from flow_snapshot order by flow, turn;
drop table flow_snapshot;
alter table snapshots_in_order rename to flow_snapshot;
