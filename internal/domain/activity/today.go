package activity

import (
	"context"
	"time"

	"connect-svc/internal/foundation/scope"
)

// Today is what the three reads return of one date. It has only what was recorded and is in the scopes.
type Today struct {
	Steps      *int64
	Meters     *int64 // with adjustments
	Rides      int
	RideMeters int64 // without them
}

// maxRides bounds the rides of [Today]: with more of them in a day it has none.
const maxRides = 500

// Today returns what the reader would read of a date in some scopes, by one read for each. It leaves out what the reader may not read.
func (s *Store) Today(ctx context.Context, reader Reader, scopes scope.Set, date time.Time) (today Today, err error) {
	day := date.Format(time.DateOnly)
	for _, of := range []struct {
		scope   scope.Set
		dataset Dataset
		read    func(Range) error
	}{
		{scope.DailySteps, DatasetDailySteps, func(dates Range) error {
			rows, err := s.DailySteps(ctx, reader.UserID, dates)
			for _, row := range rows {
				today.Steps = &row.Steps
			}
			return err
		}},
		{scope.CyclingDaily, DatasetCyclingDaily, func(dates Range) error {
			rows, err := s.CyclingDaily(ctx, reader.UserID, dates)
			for _, row := range rows {
				today.Meters = &row.DistanceMeters
			}
			return err
		}},
		{scope.CyclingActivities, DatasetCyclingActivities, func(dates Range) error {
			page, err := s.CyclingPage(ctx, reader, dates, maxRides, "")
			if page.NextCursor != "" {
				return err
			}
			for ride := range page.Rides() {
				today.Rides++
				today.RideMeters += ride.DistanceMeters
			}
			return err
		}},
	} {
		dates, failure := ParseRange(reader, day, day, of.dataset)
		if !scopes.Contains(of.scope) || failure != nil {
			continue
		}
		if err := of.read(dates); err != nil {
			return Today{}, err
		}
	}
	return today, nil
}
