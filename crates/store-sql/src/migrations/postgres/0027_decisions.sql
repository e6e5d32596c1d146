-- What was decided about an execution, and by whom it was changed: both are compared with what a caller knew, in the
-- transaction that counts a vote or takes a change.
alter table flow add column decisions bigint not null default 0;
alter table flow add column strict boolean not null default false;
alter table flow add column editors text not null default '[]';
