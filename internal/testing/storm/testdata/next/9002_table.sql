-- +goose Up

create table next_notes (
    user_id uuid not null references users on delete cascade,
    note_id uuid not null,
    note    text not null,
    primary key (user_id, note_id)
);

-- +goose Down

drop table next_notes;
