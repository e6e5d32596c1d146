-- With whose rights a schedule or trigger starts jobs: who applied or activated it last.
alter table resource add column owner text;
update resource set owner =
  (select v.by from resource_version v where v.resource = resource.id and v.version = resource.active)
where kind in ('schedule', 'trigger');
create index resource_by_owner on resource (owner) where owner is not null;
