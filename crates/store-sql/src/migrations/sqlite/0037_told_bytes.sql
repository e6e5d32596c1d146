-- Bytes of the details of the events that were reported for a run: they are bounded, and count as stored.
alter table run add column told_bytes integer not null default 0;
alter table gone add column told_bytes integer not null default 0;
