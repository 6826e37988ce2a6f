-- +goose Up

-- A correction or adjustment is told apart by its own id, whatever date it names: sent again, with another date, too,
-- it replaces itself.
alter table step_corrections add unique (user_id, correction_id);
alter table cycling_adjustments add unique (user_id, adjustment_id);

-- +goose Down

alter table cycling_adjustments drop constraint cycling_adjustments_user_id_adjustment_id_key;
alter table step_corrections drop constraint step_corrections_user_id_correction_id_key;
