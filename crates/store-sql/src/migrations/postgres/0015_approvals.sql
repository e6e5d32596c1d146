-- Which token a token was made with, and as which person it counts where people are counted (approvals).
alter table token add column made_by text;
alter table token add column person text;

-- What was approved, to be compared again when a run is handed out: what the command names, and a digest for each host in
-- the order of the command's hosts. `retry` asks about a second try; `superseded` says what had changed.
alter table approval add column named text not null default '{}';
alter table approval add column digests bytea;
alter table approval add column retry boolean not null default false;
alter table approval add column person text not null default '[]';
alter table approval add column superseded text;
alter table vote add column person text not null default '[]';
-- Of a unit of an approved command: the digest of its host.
alter table job add column approved bytea;

-- Questions of workflows: a hash of what is asked, who must agree, who has (a list of people), and whether it is withdrawn
-- until it is put again.
alter table flow_wait add column hash bytea not null default '';
alter table flow_wait add column quorum bigint not null default 1;
alter table flow_wait add column four_eyes boolean not null default false;
alter table flow_wait add column yes text not null default '[]';
alter table flow_wait add column withdrawn boolean not null default false;
