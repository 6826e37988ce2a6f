-- Recorded activity and its corrections. Every read is a range of primary keys that begin with the user. The statements of imports
-- and batches depend on the table: internal/domain/activity/table.go makes them.

-- name: ReadDailySteps :many
-- Recorded totals with their corrections, never below zero. A correction alone makes no row (specification 2.5). Few users have
-- corrections: they are looked up date by date only if there are any in the range.
select s.date, greatest(0, s.steps + case
        when exists (select 1 from step_corrections c where c.user_id = @user_id and c.date between @first_date and @last_date)
        then coalesce((select sum(c.delta) from step_corrections c where c.user_id = @user_id and c.date = s.date), 0)
        else 0
    end)::bigint as steps
from daily_steps s
where s.user_id = @user_id and s.date between @first_date and @last_date
order by s.date;

-- name: ReadCyclingDaily :many
-- Metres by start date with their adjustments, never below zero. An adjustment alone makes no row (specification 2.6). They are looked
-- up like the corrections of steps.
with rides as (
    select start_time::date as date, sum(distance_meters) as meters
    from cycling_activities
    where user_id = @user_id and start_time >= @since::timestamp and start_time < @until::timestamp
    group by start_time::date
)
select rides.date::date as date, greatest(0, rides.meters + case
        when exists (select 1 from cycling_adjustments a
            where a.user_id = @user_id and a.date >= @since::timestamp and a.date < @until::timestamp)
        then coalesce((select sum(a.delta_meters) from cycling_adjustments a where a.user_id = @user_id and a.date = rides.date), 0)
        else 0
    end)::bigint as distance_meters
from rides
order by rides.date;

-- name: ReadCyclingActivities :many
-- Rides after a position, in the order of the primary key. An empty source id sorts first: the position
-- (first day at midnight, '') is the start of the range.
select start_time, end_time, distance_meters, source_id
from cycling_activities
where user_id = @user_id
    and (start_time, source_id) > (@after_time::timestamp, @after_source_id::text)
    and start_time < @until::timestamp
order by start_time, source_id
limit @max_rows;

-- name: UserClock :one
select connect_now()::timestamptz as now, timezone
from users
where user_id = @user_id;

-- name: ListAdjustments :many
-- Corrections of steps (dataset 0) and of cycling distance (1) in the order of dates, each after a position of its own: a range of
-- each primary key.
select l.dataset, l.date, l.id, l.delta, l.note, l.created_at
from (
    (select 0::int as dataset, s.date, s.correction_id as id, s.delta, s.note, s.created_at
    from step_corrections s
    where s.user_id = @user_id and (s.date, s.correction_id) > (@steps_date::date, @steps_id::uuid)
    order by s.date, s.correction_id
    limit @max_rows)
    union all
    (select 1::int as dataset, c.date, c.adjustment_id as id, c.delta_meters as delta, c.note, c.created_at
    from cycling_adjustments c
    where c.user_id = @user_id and (c.date, c.adjustment_id) > (@cycling_date::date, @cycling_id::uuid)
    order by c.date, c.adjustment_id
    limit @max_rows)
) l
order by l.date, l.dataset, l.id
limit @max_rows;

-- name: GetStepCorrection :one
select * from step_corrections where user_id = @user_id and correction_id = @correction_id;

-- name: GetCyclingAdjustment :one
select * from cycling_adjustments where user_id = @user_id and adjustment_id = @adjustment_id;

-- name: AuditActivity :exec
-- The detail names an adjustment or a range of dates, but no amount: the log holds no activity.
insert into audit_log (subject, actor, action, user_id, detail)
values (@user_id::uuid, @actor::text, @action::text, @user_id::uuid, @detail::jsonb);

-- name: WasAudited :one
-- Whether the log has the same entry of the last minute.
select exists (
    select 1 from audit_log e
    where e.subject = @user_id::uuid and e.at > connect_now() - interval '1 minute' and e.actor = @actor::text and e.action = @action::text
        and e.detail = @detail::jsonb
)::bool;

-- name: ListAdjustmentEntries :many
-- The actors who have written and removed adjustments of a user, latest first, as far as the newest entries of the audit log tell.
select e.at, e.actor, (e.action = 'activity.adjusted')::bool as written, (e.detail->>'dataset')::text as dataset,
    (e.detail->>'adjustment_id')::uuid as adjustment_id, coalesce(e.detail->>'date', '')::text as date
from (select * from audit_log where subject = @user_id::uuid order by at desc, id desc limit @most::int) e
where e.action in ('activity.adjusted', 'activity.adjustment_removed')
order by e.at desc, e.id desc;

-- name: ReadRecordedDays :many
-- Recorded totals of each date of a range, and the sums of its corrections, apart from each other: for support. Partners read the
-- totals of ReadDailySteps and ReadCyclingDaily.
select d.date::date as date, (count(d.steps) > 0)::bool as has_steps, coalesce(sum(d.steps), 0)::bigint as steps,
    coalesce(sum(d.steps_delta), 0)::bigint as steps_delta, (count(d.meters) > 0)::bool as has_rides,
    coalesce(sum(d.meters), 0)::bigint as meters, coalesce(sum(d.meters_delta), 0)::bigint as meters_delta
from (
    select s.date, s.steps, null::int as meters, null::int as steps_delta, null::int as meters_delta
    from daily_steps s where s.user_id = @user_id and s.date between @first_date and @last_date
    union all
    select r.start_time::date, null, r.distance_meters, null, null
    from cycling_activities r
    where r.user_id = @user_id and r.start_time >= @since::timestamp and r.start_time < @until::timestamp
    union all
    select c.date, null, null, c.delta, null
    from step_corrections c where c.user_id = @user_id and c.date between @first_date and @last_date
    union all
    select a.date, null, null, null, a.delta_meters
    from cycling_adjustments a where a.user_id = @user_id and a.date between @first_date and @last_date
) d
group by d.date
order by d.date;

-- name: ListLatestAdjustments :many
-- Corrections of steps (dataset 0) and of cycling distance (1), if requested, newest first, each before a position of its own.
select l.dataset, l.date, l.id, l.delta, l.note, l.created_at
from (
    (select 0::int as dataset, s.correction_id as id, s.date, s.delta, s.note, s.created_at
    from step_corrections s
    where sqlc.arg(steps)::bool and s.user_id = @user_id
        and (s.created_at, s.correction_id) < (@steps_at::timestamptz, @steps_id::uuid)
    order by s.created_at desc, s.correction_id desc
    limit @max_rows)
    union all
    (select 1::int as dataset, c.adjustment_id as id, c.date, c.delta_meters as delta, c.note, c.created_at
    from cycling_adjustments c
    where sqlc.arg(cycling)::bool and c.user_id = @user_id
        and (c.created_at, c.adjustment_id) < (@cycling_at::timestamptz, @cycling_id::uuid)
    order by c.created_at desc, c.adjustment_id desc
    limit @max_rows)
) l
order by l.created_at desc, l.dataset desc, l.id desc
limit @max_rows;

-- name: GetStepsOfDay :one
-- The recorded steps of a date, and the sum of its corrections. No row for an unknown user.
select (s.user_id is not null)::bool as is_recorded, coalesce(s.steps, 0)::bigint as recorded, coalesce((
    select sum(c.delta) from step_corrections c where c.user_id = @user_id and c.date = @day::date), 0)::bigint as adjusted
from users u
left join daily_steps s on s.user_id = u.user_id and s.date = @day::date
where u.user_id = @user_id;

-- name: GetCyclingOfDay :one
-- The same for the rides that started on a date.
select (count(a.user_id) > 0)::bool as is_recorded, coalesce(sum(a.distance_meters), 0)::bigint as recorded, coalesce((
    select sum(c.delta_meters) from cycling_adjustments c where c.user_id = @user_id and c.date = @day::date), 0)::bigint as adjusted
from users u
left join cycling_activities a
    on a.user_id = u.user_id and a.start_time >= @since::timestamp and a.start_time < @until::timestamp
where u.user_id = @user_id
group by u.user_id;

-- name: CountActivity :one
-- Counts the stored rows of a user up to a limit. No row for an unknown user.
select (select count(*) from (select 1 from daily_steps s where s.user_id = @user_id limit sqlc.arg(most)::int) as s) as days,
    (select count(*) from (select 1 from cycling_activities a where a.user_id = @user_id limit sqlc.arg(most)::int) as a) as rides,
    ((select count(*) from (select 1 from step_corrections c where c.user_id = @user_id limit sqlc.arg(most)::int) as c)
    + (select count(*) from (select 1 from cycling_adjustments c where c.user_id = @user_id limit sqlc.arg(most)::int) as c))::bigint as adjustments
from users u
where u.user_id = @user_id;

-- name: StateForWrite :one
-- The facts that a write needs: whether a client has a webhook, what time it is, and whether users are spread over several databases.
select exists (select 1 from webhook_endpoints where stopped_at is null and client_id <> operator_id()) as notify, believed_time(@expected::pg_catalog.timestamptz)::timestamptz as now,
    (to_regclass('pg_catalog.pg_dist_node') is not null)::bool as sharded;
