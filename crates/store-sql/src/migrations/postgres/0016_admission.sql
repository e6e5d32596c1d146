-- What agents and workers were admitted as. Tokens say it; agents keep it from the token they enrolled with.
alter table token add column admission text not null default '';
-- When an agent enrolled with it.
alter table token add column used_at timestamptz;
alter table agent add column admission text not null default '';
-- The credential that the current one replaced; it is accepted until it ends.
alter table agent add column token_before text not null default '';
-- Labels that an agent says about itself and that decide nothing.
alter table worker add column claimed_labels text not null default '';
alter table worker add column shares_agent_user boolean not null default false;
