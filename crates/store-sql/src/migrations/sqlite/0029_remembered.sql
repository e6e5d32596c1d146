-- How large an execution is: what was recorded of it, and the signals that it remembers until a node waits for them.
alter table flow add column bytes integer not null default 0;
alter table flow add column remembered integer not null default 0;
alter table flow add column remembered_bytes integer not null default 0;
update flow set bytes =
  coalesce((select sum(octet_length(t.records)) from flow_turn t where t.flow = flow.number), 0)
  + coalesce((select sum(octet_length(s.body)) from flow_snapshot s where s.flow = flow.number), 0);
