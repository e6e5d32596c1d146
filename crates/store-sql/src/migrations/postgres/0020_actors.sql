-- Events of a pruned job still say who asked for it.
alter table gone add column actor text;
