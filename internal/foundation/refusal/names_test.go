package refusal_test

import (
	"testing"

	"connect-svc/internal/foundation/refusal"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	read := []string{"cursor", "from", "limit", "to"}
	for _, row := range []struct{ name, want string }{
		{"start_date", "from"}, {"startDate", "from"}, {"form", "from"}, {"From", "from"}, {"end-date", "to"}, {"TO", "to"},
		{"per_page", "limit"}, {"limits", "limit"}, {"cusror", "cursor"}, {"page", "cursor"},
		{"tz", ""}, {"x", ""}, {"", ""}, {"frame", ""}, {"svca_AbHWAXM2JEVIqYBzQ3d1", ""},
		{"from\x00from from from from from from from from from from from from from", ""},
	} {
		if got := refusal.Nearest(row.name, read); got != row.want {
			t.Errorf("%q: %q is meant, want %q", row.name, got, row.want)
		}
	}
	if got := refusal.Nearest("accessToken", []string{"token_type_hint", "token"}); got != "token" {
		t.Errorf("accessToken: %q is meant", got)
	}
}

func TestUndecodable(t *testing.T) {
	t.Parallel()
	for encoded, want := range map[string]string{"a=1&b=%zz&c=%": "b", "a=1;b=2": "a", "a=1&%zz": "%zz", "a=%20": ""} {
		if got := refusal.Undecodable(encoded); got != want {
			t.Errorf("%q: %q, want %q", encoded, got, want)
		}
	}
}
