-- The highest quorum of an approval that was given in an execution: a second try needs as many people.
alter table flow add column quorum integer not null default 1;
