-- The join token that an agent enrolled with last. Agents that have renewed their credential since show none until they
-- enroll again.
alter table agent add column join_token text not null default '';
update agent set join_token = coalesce((
  select j.id from token t join token j on j.id = t.made_by and j.kind = 'joi' where t.id = agent.token), '');
-- The version of a worker's program, as it says.
alter table worker add column version text not null default '';
