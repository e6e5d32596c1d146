-- The key to which secrets for an agent are sealed; empty until it has shown one.
alter table agent add column sealing_key bytea not null default '';
