-- Which token a token was made with, and as which person it counts where people are counted (approvals).
alter table token add column made_by text;
alter table token add column person text;
