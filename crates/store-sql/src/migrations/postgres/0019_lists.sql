-- Runs of one workflow, newest first.
create index flow_by_workflow on flow (tenant, workflow, number);
