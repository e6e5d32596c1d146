-- Which block kept a unit from running. What the block says is with the block, also when it is lifted.
alter table job add column block bigint;
