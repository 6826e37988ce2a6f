package scope_test

import (
	"testing"

	"connect-svc/internal/foundation/scope"
)

func TestParse(t *testing.T) {
	for _, test := range []struct {
		value string
		want  scope.Set
	}{
		{"daily_steps:read", scope.DailySteps},
		{"cycling_daily:read", scope.CyclingDaily},
		{"cycling_activities:read", scope.CyclingActivities},
		{"cycling_activities:read daily_steps:read", scope.CyclingActivities | scope.DailySteps},
		{"daily_steps:read cycling_daily:read cycling_activities:read", scope.All},
		{"", 0},
		{" ", 0},
		{" daily_steps:read", 0},
		{"daily_steps:read ", 0},
		{"daily_steps:read  cycling_daily:read", 0},
		{"daily_steps:read,cycling_daily:read", 0},
		{"daily_steps:read\tcycling_daily:read", 0},
		{"daily_steps:read daily_steps:read", 0},
		{"Daily_Steps:read", 0},
		{"openid", 0},
	} {
		got, err := scope.Parse(test.value)
		if got != test.want || (err != nil) != (test.want == 0) {
			t.Errorf("Parse(%q) = %v, %v; want %v", test.value, got, err, test.want)
		}
	}
}

func TestTextIsCanonical(t *testing.T) {
	for set := scope.Set(1); set <= scope.All; set++ {
		back, err := scope.Parse(set.String())
		if err != nil || back != set {
			t.Errorf("Parse(%q) = %v, %v; want %v", set.String(), back, err, set)
		}
	}
	if got, want := scope.All.String(), "daily_steps:read cycling_daily:read cycling_activities:read"; got != want {
		t.Errorf("All is %q, want %q", got, want)
	}
}
