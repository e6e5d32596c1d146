-- Signals by name: each is stored once, and messages refer to it. It is spread over the executions that wait for it a page
-- at a time: those up to `after_flow` have it. It goes when it is spread and every execution has taken it in.
create table flow_signal (
  id integer primary key autoincrement,
  tenant blob not null,
  name text not null,
  key text,
  body text not null,
  at integer not null,
  after_flow integer not null,
  spreading integer not null
);
create index flow_signal_by_name on flow_signal (tenant, name);
create index flow_signal_spreading on flow_signal (id) where spreading;
alter table flow_inbox add column signal integer;
create index flow_inbox_by_signal on flow_inbox (signal) where signal is not null;
