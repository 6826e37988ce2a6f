-- +goose Up

-- When the client last read, to within an hour, for the user and the operator to see. Written at most once an hour, so
-- that reads stay reads.
alter table connections add column last_read_at timestamptz;

-- For the operator's list of a client's connections. No update of a connection changes either column.
create index connections_client on connections (client_id, user_id);

-- +goose Down

drop index connections_client;
alter table connections drop column last_read_at;
