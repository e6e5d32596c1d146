-- How far each schedule has been considered, and what came of it. A row comes with the first activation of its resource and
-- goes with the resource. `seen` moves by compare-and-set, together with the jobs of the instants it moves past.

create table schedule (
  resource integer primary key,
  tenant blob not null,
  version integer not null, -- the active one
  seen integer not null,
  due_at integer, -- when to look again; null for never
  fired_instant integer,
  fired_at integer,
  fired_job blob, -- the last job, also if a person started it
  refused_instant integer,
  refused_at integer,
  refused_why text,
  missed integer not null,
  passed_over integer not null
);
create index schedule_by_due on schedule (due_at) where due_at is not null;
