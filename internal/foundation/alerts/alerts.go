// Package alerts evaluates the rules of docs/alerts.yaml in this process, on the samples that Prometheus would scrape from it.
// Operators without Prometheus see in the console what would fire, and operators with Prometheus see the same in both.
//
// The condition of each rule is a Go function under the name of its alert. Gauges are compared as they are. For a rate or an increase the
// package counts what each counter has grown by in each interval of the last hour. Prometheus extrapolates from the samples that it has,
// so there an alert may begin or end some scrapes earlier or later.
//
// A test in tools/alerts evaluates the functions and Prometheus' own engine on the same samples. Another one has the Prometheus of Debian
// scrape two servers with samples that raise every alert. `make test-alerts` brings about the cause of each on a real service.
//
// # Invariants
//
//   - Conditions of gauges are those of docs/alerts.yaml at every instant, and conditions of counters before and after trouble
//     (TestRulesAreThoseOfPrometheus, TestCountersAgreeWithPrometheus).
//   - An alert ends when its condition ends, or when its gauge disappears (TestFiring).
//   - A counter that is away for a while has not grown by what it had (TestCounterIsAway).
//   - A clock that is set back ends what was, and the rules work on afterwards (TestClock).
//   - A counter has at most as many counts as an hour has intervals (TestCountsAreBounded).
//
// The package never asks the database and never reads a file.
package alerts

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/oasdiff/yaml"
)

// Interval is how often [Alerts.Evaluate] is to be called.
const Interval = 15 * time.Second

// Alert is a firing alert.
type Alert struct {
	Name     string    `json:"name"`
	Severity string    `json:"severity"` // page or ticket
	Summary  string    `json:"summary"`
	Since    time.Time `json:"since"` // when its condition was first met; a rule with a delay fires later
	// Server is the host that the alert is about, if another server notices it.
	Server string `json:"server,omitempty"`
}

// Alerts evaluates the rules on the samples of this process. Call Evaluate from one goroutine; Firing is safe for concurrent use.
type Alerts struct {
	rules    []rule
	metrics  map[string]bool // that the rules read
	readings readings
	active   []map[string]time.Time // for each rule, since when its condition is met, by subject
	firing   atomic.Pointer[[]Alert]
}

// New returns the rules of docs/alerts.yaml, which is the document, without any samples.
func New(document []byte) (*Alerts, error) {
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, For          string
				Labels, Annotations map[string]string
			}
		}
	}
	if _, err := yaml.Unmarshal(document, &file, yaml.DecodeOpts{}); err != nil {
		return nil, fmt.Errorf("alerts: %w", err)
	}
	a := &Alerts{metrics: map[string]bool{}}
	for _, group := range file.Groups {
		for _, r := range group.Rules {
			hold, err := time.ParseDuration(cmp.Or(r.For, "0s"))
			if err != nil || conditions[r.Alert] == nil {
				return nil, fmt.Errorf("alerts: %s has no condition here, or a delay that cannot be read", r.Alert)
			}
			a.rules = append(a.rules, rule{r.Alert, r.Labels["severity"], r.Annotations["summary"], hold, conditions[r.Alert]})
		}
	}
	a.active = make([]map[string]time.Time, len(a.rules))
	a.readings.counters = map[string]map[string]*counter{}
	for _, name := range metric.FindAllString(string(document), -1) {
		a.metrics[name] = true
	}
	a.firing.Store(&[]Alert{})
	return a, nil
}

// metric matches the names of the service's metrics.
var metric = regexp.MustCompile(`\bconnect_\w+`)

// Evaluate adds the samples of one instant and evaluates all rules at that instant. A gauge that has no sample in this call has ended. A counter
// that has none has not grown, and may have its next sample at any time.
func (a *Alerts) Evaluate(now time.Time, samples []Sample) {
	a.readings.add(now, samples)
	firing := []Alert{}
	for i, rule := range a.rules {
		before := a.active[i]
		a.active[i] = map[string]time.Time{}
		for _, subject := range rule.met(&a.readings) {
			since, known := before[subject]
			if !known {
				since = now
			}
			a.active[i][subject] = since
		}
		for subject, since := range a.active[i] {
			if now.Sub(since) >= rule.hold {
				summary := subjectMark.ReplaceAllLiteralString(rule.summary, subject)
				alert := Alert{Name: rule.name, Severity: rule.severity, Summary: summary, Since: since}
				if rule.name == "ConnectDown" {
					alert.Server = subject
				}
				firing = append(firing, alert)
			}
		}
	}
	slices.SortFunc(firing, func(x, y Alert) int {
		return cmp.Or(strings.Compare(x.Name, y.Name), strings.Compare(x.Summary, y.Summary), x.Since.Compare(y.Since))
	})
	a.firing.Store(&firing)
}

// Firing returns the alerts that fire as of the last evaluation, sorted by name.
func (a *Alerts) Firing() []Alert { return *a.firing.Load() }
