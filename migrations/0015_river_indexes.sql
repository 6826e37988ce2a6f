-- +goose Up

-- River's lists can be searched by the contents of arguments and metadata. Nobody here does, and the two indexes for it are
-- most of what a change of a job's state costs, of which each delivery has several.
drop index river_job_args_index;
drop index river_job_metadata_index;

-- +goose Down

create index river_job_args_index on river_job using gin (args);
create index river_job_metadata_index on river_job using gin (metadata);
