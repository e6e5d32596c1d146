-- All keys of a job: those it came with, and those that later requests gave it. They go with it, or keep what it was.
create index key_by_job on key (job);
