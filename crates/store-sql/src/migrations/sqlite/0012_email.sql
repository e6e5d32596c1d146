-- Whose token it is. Runs of workflows that somebody begins with it know the address.
alter table token add column email text;
