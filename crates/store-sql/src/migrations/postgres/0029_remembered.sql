-- How large an execution is: what was recorded of it, and the signals that it remembers until a node waits for them.
alter table flow add column bytes bigint not null default 0;
alter table flow add column remembered bigint not null default 0;
alter table flow add column remembered_bytes bigint not null default 0;
update flow f set bytes =
  coalesce((select sum(octet_length(t.records)) from flow_turn t where t.flow = f.number), 0)
  + coalesce((select sum(octet_length(s.body)) from flow_snapshot s where s.flow = f.number), 0);
