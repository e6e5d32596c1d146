-- How far each schedule has been considered, and what came of it. A row comes with the first activation of its resource and
-- goes with the resource. `seen` moves by compare-and-set, together with the jobs of the instants it moves past.

create table schedule (
  resource bigint primary key,
  tenant uuid not null,
  version integer not null, -- the active one
  seen timestamptz not null,
  due_at timestamptz, -- when to look again; null for never
  fired_instant timestamptz,
  fired_at timestamptz,
  fired_job uuid, -- the last job, also if a person started it
  refused_instant timestamptz,
  refused_at timestamptz,
  refused_why text,
  missed bigint not null,
  passed_over bigint not null
);
create index schedule_by_due on schedule (due_at) where due_at is not null;
