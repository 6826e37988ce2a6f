package activity

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	activitydb "connect-svc/gen/db/activity"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/timezone"
)

// maxSampleDays bounds one call: ten years.
const maxSampleDays = 3650

// SampleData writes plausible synthetic activity for the last days of a user, 1 to 3,650. The last of them is today in the
// user's time zone, up to the present hour. The same seed gives the same activity for a date, and a later call on the same day
// extends today. Errors: refusal.ErrUserNotFound.
func (s *Store) SampleData(ctx context.Context, userID uuid.UUID, days int, seed uint64) (BatchResult, error) {
	if days < 1 || days > maxSampleDays {
		return BatchResult{}, fmt.Errorf("activity: sample data: days must be from 1 to %d", maxSampleDays)
	}
	clock, err := activitydb.New(s.pool).UserClock(ctx, userID)
	if err != nil {
		return BatchResult{}, postgres.WrapNoRows("activity: user's clock", err, refusal.ErrUserNotFound)
	}
	now := clock.Now.In(timezone.Location(clock.Timezone))
	_, offset := now.Zone()
	steps, rides := sample(userID, days, seed, now.Add(time.Duration(offset)*time.Second).UTC()) // as recorded: the local time, unzoned
	return s.Put(ctx, Batch{DailySteps: steps, CyclingActivities: rides})
}

// person has the habits that follow from a seed.
type person struct {
	dailySteps float64 // on an ordinary day
	commuteKm  float64 // one way; 0: no rides to work
	commutes   [7]bool // by weekday
	tourChance float64 // of a tour on a weekend day in summer
	tourKm     float64 // of an ordinary tour
	kmh        float64 // speed
}

func newPerson(seed uint64) person {
	random := rand.New(rand.NewPCG(seed, math.MaxUint64)) //nolint:gosec // no secret
	p := person{
		dailySteps: 5500 + 4500*random.Float64(),
		tourChance: 0.3 + 0.4*random.Float64(),
		tourKm:     20 + 30*random.Float64(),
		kmh:        16 + 8*random.Float64(),
	}
	if random.Float64() < 0.7 {
		p.commuteKm = 3 + 9*random.Float64()
		for day := time.Monday; day <= time.Friday; day++ {
			p.commutes[day] = random.Float64() < 0.6
		}
	}
	return p
}

// sample returns the activity of a person on the days up to now. Each date has its own random numbers, so that its activity does
// not depend on the number of days.
func sample(userID uuid.UUID, days int, seed uint64, now time.Time) (steps []StepsRecord, rides []RideRecord) {
	p := newPerson(seed)
	today := now.Truncate(24 * time.Hour)
	for back := days - 1; back >= 0; back-- {
		date := today.AddDate(0, 0, -back)
		random := rand.New(rand.NewPCG(seed, uint64(date.Unix()))) //nolint:gosec // no secret
		if total, worn := p.steps(date, random); worn {
			if back == 0 {
				hours := now.Sub(today).Hours() // steps are walked from 06:00 to 22:00
				total = int(float64(total) * min(max((hours-6)/16, 0), 1))
			}
			steps = append(steps, StepsRecord{UserID: userID, Date: date, Steps: total})
		}
		for n, ride := range p.rides(date, random) {
			if ride.Start.Before(now) && !ride.End.After(now) {
				ride.UserID = userID
				ride.SourceID = fmt.Sprintf("sample-%s-%d", date.Format(time.DateOnly), n+1)
				rides = append(rides, ride)
			}
		}
	}
	return steps, rides
}

// season is 1 in the middle of a northern summer and 0 in the middle of its winter.
func season(date time.Time) float64 {
	return (1 - math.Cos(2*math.Pi*float64(date.YearDay()-10)/365)) / 2
}

// steps returns the steps of a whole day. worn is false if the device stayed at home.
func (p person) steps(date time.Time, random *rand.Rand) (total int, worn bool) {
	weekday := [7]float64{time.Sunday: 0.75, time.Monday: 1, time.Tuesday: 1.02, time.Wednesday: 0.98,
		time.Thursday: 1.04, time.Friday: 0.95, time.Saturday: 1.2}[date.Weekday()]
	mean := p.dailySteps * weekday * (0.85 + 0.3*season(date))
	total = int(mean * math.Exp(0.28*random.NormFloat64()))
	switch chance := random.Float64(); {
	case chance < 0.03: // device left at home
		return 0, false
	case chance < 0.06: // ill in bed
		total /= 6
	case chance < 0.09: // on a hike
		total = total*2 + 4000
	}
	return min(max(total, 120), 45000), true
}

// rides returns the rides of a day, earliest first.
func (p person) rides(date time.Time, random *rand.Rand) []RideRecord {
	weekday, warm := date.Weekday(), season(date)
	switch {
	case p.commutes[weekday] && random.Float64() < 0.35+0.55*warm:
		return []RideRecord{
			p.ride(date, 7.2+1.3*random.Float64(), p.commuteKm, random),
			p.ride(date, 16.3+2*random.Float64(), p.commuteKm, random),
		}
	case (weekday == time.Saturday || weekday == time.Sunday) && random.Float64() < p.tourChance*(0.2+0.8*warm):
		return []RideRecord{p.ride(date, 9+5*random.Float64(), p.tourKm*math.Exp(0.35*random.NormFloat64()), random)}
	}
	return nil
}

// ride returns a ride that begins at an hour of the date and is about km kilometres long. One in 25 has no recorded end.
func (p person) ride(date time.Time, hour, km float64, random *rand.Rand) RideRecord {
	km = min(km*(0.95+0.1*random.Float64()), 120)
	start := date.Add(time.Duration(hour * float64(time.Hour))).Truncate(time.Microsecond)
	took := time.Duration(km / (p.kmh * (0.9 + 0.2*random.Float64())) * float64(time.Hour))
	ride := RideRecord{Start: start, End: start.Add(took).Truncate(time.Microsecond), DistanceMeters: int(1000 * km)}
	if random.Float64() < 0.04 {
		ride.End = time.Time{}
	}
	return ride
}
