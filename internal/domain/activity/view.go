package activity

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	activitydb "connect-svc/gen/db/activity"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/work"
)

const (
	// MaxViewDates bounds the dates of a [View].
	MaxViewDates = 366

	maxViewRows = 1000 // rides, and adjustments
	maxEntries  = 5000 // newest entries of a user in the audit log that are searched for who wrote adjustments
)

// View is what is recorded of a user in a range of dates, and what partners see of it: for support.
type View struct {
	Days        []ViewedDay // that have a record or an adjustment, oldest first
	Rides       []RecordedRide
	Adjustments []Adjustment        // by date
	Removed     []RemovedAdjustment // latest first
	Complete    bool                // the lists have all rides and adjustments
}

// ViewedDay has the figures of a date.
type ViewedDay struct {
	Date           time.Time // midnight UTC
	Steps, Cycling ViewedFigures
}

// ViewedFigures are a [Day] and the total that partners read, nil if they read none.
type ViewedFigures struct {
	Day
	Seen *int64
}

// RecordedRide is a ride as its source recorded it. Its times are unzoned.
type RecordedRide struct {
	SourceID       string
	StartTime      time.Time
	EndTime        *time.Time // nil when unknown
	DistanceMeters int32
}

// RemovedAdjustment is an adjustment that support has removed.
type RemovedAdjustment struct {
	ID      uuid.UUID
	Dataset Adjusted
	Date    time.Time
	At      time.Time
	Actor   string
}

// View returns what is recorded in a range of at most [MaxViewDates] dates. The totals come from the statements that partners' reads use.
// The audit log records that the actor of ctx has viewed them, once a minute for the same range. If it cannot, View fails. An unknown user
// has an empty view.
func (s *Store) View(ctx context.Context, userID uuid.UUID, dates Range) (view View, err error) {
	err = pgx.BeginFunc(ctx, postgres.Noting{Pool: s.pool}, func(tx pgx.Tx) error {
		view, err = viewIn(ctx, activitydb.New(tx), userID, dates)
		return err
	})
	return view, postgres.Wrap("activity: view", err)
}

// Day returns the figures of a date of a user, for support. The audit log records it like a [Store.View] of the date. Errors: refusal.ErrUserNotFound.
func (s *Store) Day(ctx context.Context, dataset Adjusted, userID uuid.UUID, date time.Time) (day Day, err error) {
	err = pgx.BeginFunc(ctx, postgres.Noting{Pool: s.pool}, func(tx pgx.Tx) (err error) {
		queries, on := activitydb.New(tx), date.Format(time.DateOnly)
		if dataset == AdjustedCycling {
			row, failed := queries.GetCyclingOfDay(ctx, activitydb.GetCyclingOfDayParams{UserID: userID, Day: date, Since: date, Until: date.AddDate(0, 0, 1)})
			day, err = Day(row), failed
		} else {
			row, failed := queries.GetStepsOfDay(ctx, activitydb.GetStepsOfDayParams{UserID: userID, Day: date})
			day, err = Day(row), failed
		}
		if err != nil {
			return err
		}
		return audit(ctx, queries, userID, "activity.viewed", map[string]string{"from": on, "to": on}, true)
	})
	return day, postgres.WrapNoRows("activity: day", err, refusal.ErrUserNotFound)
}

func viewIn(ctx context.Context, queries *activitydb.Queries, userID uuid.UUID, dates Range) (view View, err error) {
	if err := audit(ctx, queries, userID, "activity.viewed", map[string]string{
		"from": dates.From.Format(time.DateOnly), "to": dates.To.Format(time.DateOnly),
	}, true); err != nil {
		return view, err
	}
	days, err := queries.ReadRecordedDays(ctx, activitydb.ReadRecordedDaysParams{
		UserID: userID, FirstDate: dates.From, LastDate: dates.To, Since: dates.From, Until: dates.until(),
	})
	if err != nil {
		return view, err
	}
	steps, err := queries.ReadDailySteps(ctx, activitydb.ReadDailyStepsParams{UserID: userID, FirstDate: dates.From, LastDate: dates.To})
	if err != nil {
		return view, err
	}
	cycling, err := queries.ReadCyclingDaily(ctx, activitydb.ReadCyclingDailyParams{UserID: userID, Since: dates.From, Until: dates.until()})
	if err != nil {
		return view, err
	}
	seenSteps, seenCycling := map[time.Time]*int64{}, map[time.Time]*int64{}
	for _, row := range steps {
		seenSteps[row.Date] = &row.Steps
	}
	for _, row := range cycling {
		seenCycling[row.Date] = &row.DistanceMeters
	}
	view.Days = postgres.Map(days, func(row activitydb.ReadRecordedDaysRow) ViewedDay {
		return ViewedDay{
			row.Date, ViewedFigures{Day{row.HasSteps, row.Steps, row.StepsDelta}, seenSteps[row.Date]},
			ViewedFigures{Day{row.HasRides, row.Meters, row.MetersDelta}, seenCycling[row.Date]},
		}
	})
	rides, err := queries.ReadCyclingActivities(ctx, activitydb.ReadCyclingActivitiesParams{
		UserID: userID, AfterTime: dates.From, Until: dates.until(), MaxRows: maxViewRows + 1,
	})
	if err != nil {
		return view, err
	}
	before := page.Key{At: dates.From.AddDate(0, 0, -1), N: AdjustedCycling.number(), ID: uuid.Max}
	adjustments, err := listAdjustments(ctx, queries, userID, before, maxViewRows+1)
	if err != nil {
		return view, err
	}
	adjustments = slices.DeleteFunc(adjustments, func(adjustment Adjustment) bool { return adjustment.Date.After(dates.To) })
	view.Complete = len(rides) <= maxViewRows && len(adjustments) <= maxViewRows
	view.Rides = postgres.Map(rides[:min(len(rides), maxViewRows)], func(row activitydb.ReadCyclingActivitiesRow) RecordedRide {
		ride := RecordedRide{SourceID: row.SourceID, StartTime: row.StartTime, DistanceMeters: row.DistanceMeters}
		if row.EndTime.Valid {
			ride.EndTime = &row.EndTime.Time
		}
		return ride
	})
	view.Adjustments = adjustments[:min(len(adjustments), maxViewRows)]
	removed, err := nameActors(ctx, queries, userID, view.Adjustments)
	for _, adjustment := range removed {
		if !adjustment.Date.Before(dates.From) && !adjustment.Date.After(dates.To) {
			view.Removed = append(view.Removed, adjustment)
		}
	}
	return view, err
}

// nameActors sets who wrote each of a user's adjustments, as far as the audit log knows: it does not know batches. It returns the
// adjustments that were removed and not written again, if the log has their date.
func nameActors(ctx context.Context, queries *activitydb.Queries, userID uuid.UUID, all []Adjustment) (removed []RemovedAdjustment, err error) {
	entries, err := queries.ListAdjustmentEntries(ctx, activitydb.ListAdjustmentEntriesParams{UserID: userID, Most: maxEntries})
	type key struct {
		dataset Adjusted
		id      uuid.UUID
	}
	latest := map[key]string{} // actor of the latest entry, empty if that removed the adjustment
	for _, entry := range entries {
		id := key{Adjusted(entry.Dataset), entry.AdjustmentID}
		if _, later := latest[id]; later {
			continue
		}
		if entry.Written {
			latest[id] = entry.Actor
			continue
		}
		latest[id] = ""
		if date, err := time.Parse(time.DateOnly, entry.Date); err == nil {
			removed = append(removed, RemovedAdjustment{id.id, id.dataset, date, entry.At, entry.Actor})
		}
	}
	for i := range all {
		all[i].Actor = latest[key{all[i].Dataset, all[i].ID}]
	}
	return removed, err
}

// audit writes to the audit log what the actor of ctx did with a user's activity: with once, unless the log has the same entry of the
// last minute.
func audit(ctx context.Context, queries *activitydb.Queries, userID uuid.UUID, action string, detail map[string]string, once bool) error {
	text, err := json.Marshal(detail)
	if err != nil {
		return err
	}
	entry := activitydb.AuditActivityParams{UserID: userID, Actor: work.Actor(ctx), Action: action, Detail: text}
	if once {
		if ok, err := queries.WasAudited(ctx, activitydb.WasAuditedParams(entry)); err != nil || ok {
			return err
		}
	}
	return queries.AuditActivity(ctx, entry)
}
