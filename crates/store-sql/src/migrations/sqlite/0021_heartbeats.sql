-- Whether a worker has ever named a run in a heartbeat. One that never has means all its runs with every heartbeat.
alter table worker add column names_runs integer not null default 0;
