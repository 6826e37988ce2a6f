package telemetry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
)

// No event is longer than 16 KiB. It stays one line of JSON that begins with what happened.
func TestEventsAreBounded(t *testing.T) {
	t.Parallel()
	var many []error
	for i := range 9999 {
		many = append(many, fmt.Errorf("partner %d: timeout: context deadline exceeded", i))
	}
	for name, attrs := range map[string][]any{
		"short":                {"cause", "a"},
		"exactly":              {"cause", strings.Repeat("a", maxLine-200)},
		"joined":               {"cause", errors.Join(many...)},
		"several":              {"a", strings.Repeat("é", maxLine), "b", strings.Repeat("\x00", maxLine), "c", strings.Repeat("<", maxLine)},
		"a list":               {"list", slices.Repeat([]string{strings.Repeat("x", 99)}, 1000)},
		"a group":              {slog.Group("g", "a", map[string]string{"b": strings.Repeat("x", 1<<20)})},
		"thousands":            slices.Repeat([]any{slog.Int("n", 1)}, 4000),
		"thousands of strings": manyAttrs(4000),
	} {
		var out bytes.Buffer
		NewLogger(&out, slog.LevelInfo).Error("it failed", attrs...)
		var event map[string]any
		if err := json.Unmarshal(out.Bytes(), &event); err != nil || out.Len() > maxLine || strings.Count(out.String(), "\n") != 1 {
			t.Errorf("%s: %d bytes, %v", name, out.Len(), err)
		}
		if event["level"] != "ERROR" || name != "thousands of strings" && event["msg"] != "it failed" {
			t.Errorf("%s: %v, %v", name, event["level"], event["msg"])
		}
		if name == "joined" && !strings.HasPrefix(event["cause"].(string), "partner 0: timeout: context deadline exceeded\npartner 1: ") {
			t.Errorf("%s: %v", name, event["cause"])
		}
	}
}

func manyAttrs(n int) (attrs []any) {
	for i := range n {
		attrs = append(attrs, slog.String(fmt.Sprint("name-", i), "x"))
	}
	return attrs
}
