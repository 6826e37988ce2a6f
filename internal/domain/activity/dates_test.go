package activity_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"connect-svc/internal/domain/activity"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/refusal"
)

const (
	tooLate  = "must be at most two days after today in the user's time zone"
	tooEarly = "must be at most 30 days before the user registered"
)

// A date may be two days after today of its user at the latest, whichever zone that is in, and from so many days before the registration on
// as the operator takes. Corrections may be of any date before, and what is stored can be removed.
func TestDates(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		zone, date    string // it is 11:30 of 10 May in UTC
		late, bounded string // what is wrong with it, without and with a history of 30 days
	}{
		{"UTC", "2026-05-12", "", ""},
		{"UTC", "2026-05-13", tooLate, tooLate},
		{"UTC", "9999-12-31", tooLate, tooLate},
		{"Pacific/Kiritimati", "2026-05-13", "", ""}, // where it is 01:30 of the 11th
		{"Pacific/Kiritimati", "2026-05-14", tooLate, tooLate},
		{"Pacific/Pago_Pago", "2026-05-12", "", ""}, // where it is 00:30 of the 10th
		{"Pacific/Pago_Pago", "2026-05-13", tooLate, tooLate},
		{"Mars/Phobos", "2026-05-12", "", ""}, // is taken for UTC
		{"Mars/Phobos", "2026-05-13", tooLate, tooLate},
		{"UTC", "2019-12-02", "", ""}, // users registered on 1 January 2020
		{"UTC", "2019-12-01", "", tooEarly},
		{"UTC", "1900-01-01", "", tooEarly},
	} {
		t.Run(test.zone+" "+test.date, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.SetTime(clock("2026-05-10T11:30:00"))
			user, date := w.newUser(t, test.zone), day(test.date)
			for history, want := range map[time.Duration]string{0: test.late, 30*24*time.Hour + time.Second: test.bounded} {
				settings := activity.History{History: history}
				w.Store = activity.New(w.Pool, credential.NewTestKeyring(), activity.Settings{History: settings})
				check := func(name string, err error, want string) {
					t.Helper()
					fields := refusal.FieldsOf(err)
					if want == "" && err != nil || want != "" && (len(fields) != 1 || fields[0].Error() != want) {
						t.Errorf("history %s: %s: %v: %v, want %q", history, name, err, fields, want)
					}
				}
				in := func(place, problem string) string {
					if problem == "" {
						return ""
					}
					return place + ": " + problem
				}
				steps := []activity.StepsRecord{{UserID: user, Date: date, Steps: 1}}
				_, err := w.Put(t.Context(), activity.Batch{DailySteps: steps})
				check("steps", err, in("/daily_steps/0/date", want))
				_, err = w.Put(t.Context(), activity.Batch{CyclingActivities: []activity.RideRecord{
					{UserID: user, SourceID: "r", Start: date.Add(23 * time.Hour), DistanceMeters: 1}}})
				check("a ride", err, in("/cycling_activities/0/recorded_start_time", want))
				adjustment := activity.AdjustmentRecord{UserID: user, ID: uuid.UUID{1}, Date: date, Delta: 1}
				_, err = w.Put(t.Context(), activity.Batch{CyclingAdjustments: []activity.AdjustmentRecord{adjustment}})
				check("an adjustment", err, in("/cycling_adjustments/0/date", test.late))
				_, err = w.Adjust(t.Context(), activity.AdjustedSteps, adjustment)
				check("a correction by hand", err, in("date", test.late))
				options := activity.ImportOptions{History: settings}
				row := user.String() + "," + test.date
				_, err = w.ImportDailySteps(t.Context(), strings.NewReader(stepsHeader+row+",1\n"), options)
				check("a file of steps", err, in("line 2, column date", want))
				_, err = w.ImportCyclingActivities(t.Context(), strings.NewReader(ridesHeader+user.String()+",r,"+test.date+"T23:00:00,,1\n"), options)
				check("a file of rides", err, in("line 2, column recorded_start_time", want))
				_, err = w.Put(t.Context(), activity.Batch{DailyStepsRemovals: steps})
				check("a removal", err, "")
			}
		})
	}
}

// Dates that are too late are bad rows like others: all are counted, also those of a file in which rows of unknown users are skipped.
func TestDatesAreNamedWithOtherBadRows(t *testing.T) {
	t.Parallel()
	w := newImportWorld(t)
	file := stepsHeader + names.Replace("U,2026-04-02,x\nU,9999-01-01,1\nX,9999-01-01,1\nU,2026-04-03,1\n")
	for name, test := range map[string]struct {
		options activity.ImportOptions
		want    []string
	}{
		"refused": {activity.ImportOptions{}, []string{"line 2, column steps: must be a whole number from 0 to 2147483647", "line 3, column date: " + tooLate,
			"line 4, column user_id: no such user"}},
		"skipped": {activity.ImportOptions{SkipUnknown: func([]string) error { return nil }},
			[]string{"line 2, column steps: must be a whole number from 0 to 2147483647", "line 3, column date: " + tooLate}},
	} {
		_, err := w.ImportDailySteps(t.Context(), strings.NewReader(file), test.options)
		var bad *refusal.Fields
		if !errors.As(err, &bad) {
			t.Fatal(err)
		}
		var named []string
		for _, row := range bad.Named {
			named = append(named, row.Error())
		}
		if diff := cmp.Diff(test.want, named); diff != "" || bad.Count != int64(len(test.want)) {
			t.Errorf("%s: %d bad rows (-want +got):\n%s", name, bad.Count, diff)
		}
	}
}
