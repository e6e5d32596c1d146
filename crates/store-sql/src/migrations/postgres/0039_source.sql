-- The document a version was applied from, as written: its comments and its order are not in the spec.
alter table resource_version add column source text;
