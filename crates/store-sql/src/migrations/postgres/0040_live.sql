-- Executions that have begun and have not ended. They count as jobs of their tenant.
alter table flow add column live boolean not null default false;
update flow set live = true where exists (select 1 from job j where j.number = flow.number and j.status in (4, 5, 6));
create index flow_that_lives on flow (tenant) where live;
