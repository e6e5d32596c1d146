-- Which audiences a token is good for. Those that were made before are good for both, as they were.
alter table token add column audiences text not null default 'exec control';
-- What was made with a token is revoked with it.
create index token_by_maker on token (made_by);
