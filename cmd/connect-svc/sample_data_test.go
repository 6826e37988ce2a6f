package main

import (
	"strings"
	"testing"

	"connect-svc/internal/testing/pgtest"
)

func TestSampleData(t *testing.T) {
	t.Parallel()
	db := withWalker(t)
	sample := func(more ...string) sampleDataJSON {
		return succeedJSON[sampleDataJSON](t, env(db), "", append([]string{"sample-data", "--user", walker, "--days", "60"}, more...)...)
	}
	const rides = "select string_agg(start_time || ' ' || distance_meters, ' ' order by start_time) from cycling_activities where start_time < current_date - 1"

	first := sample("--seed", "7")
	if first.DailySteps.Inserted == 0 || first.DailySteps.Inserted > 60 || first.CyclingActivities.Inserted == 0 {
		t.Errorf("60 days are %+v", first)
	}
	made := pgtest.Value[string](t, db, rides)
	again := sample("--seed", "7")
	if again.DailySteps.Inserted > 1 || pgtest.Value[string](t, db, rides) != made { // today may have begun meanwhile
		t.Errorf("the same seed made other activity: %+v", again)
	}
	sample("--seed", "8")
	if pgtest.Value[string](t, db, rides) == made {
		t.Error("another seed made the same rides")
	}
	if text := succeed(t, env(db), "", "sample-data", "--user", walker, "--days", "1"); !strings.HasPrefix(text, "daily steps") {
		t.Errorf("%q", text)
	}
}

func TestSampleDataRefusals(t *testing.T) {
	t.Parallel()
	db := withWalker(t)
	refuse(t, env(db), statusUsage, []string{"--days: must"}, "sample-data", "--user", walker, "--days", "0")
	refuse(t, env(db), statusUsage, []string{"--days: must"}, "sample-data", "--user", walker, "--days", "3651")
	refuse(t, env(db), statusUsage, []string{"--seed"}, "sample-data", "--user", walker, "--days", "1", "--seed", "-1")
	refuse(t, env(db), statusFailed, []string{"no such user"}, "sample-data", "--user", "00000000-0000-4000-8000-000000000000", "--days", "1")
}
