-- +goose Up

alter table connections add column next_label text not null default 'none';

-- +goose Down

alter table connections drop column next_label;
