package alerts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/template"
)

// Interval is how often [Alerts.Evaluate] is to be called.
const Interval = 15 * time.Second

// Job is the label by which the rules know the service's own servers.
const Job = "connect-svc"

// Alert is one that fires.
type Alert struct {
	Name     string    `json:"name"`
	Severity string    `json:"severity"` // the rule's label
	Summary  string    `json:"summary"`  // the rule's annotation
	Since    time.Time `json:"since"`    // when its condition was met first; it fires later where the rule says for how long it must be
}

// Alerts are the rules and what they go by. Evaluate must not be called twice at the same time; Firing may be called at any time.
type Alerts struct {
	rules    []rule
	instance string
	gatherer prometheus.Gatherer
	engine   *promql.Engine
	memory   *memory
	firing   atomic.Pointer[[]Alert]
}

// rule is one of the file, and what its expression has found.
type rule struct {
	rulefmt.Rule
	active map[string]*active // by the labels
}

// active is a result of an expression that has been there without a gap.
type active struct {
	since  time.Time
	labels map[string]string
	sample promql.Sample
}

// New reads rules. The samples come from gatherer, whose process is known as an instance.
func New(rules []byte, gatherer prometheus.Gatherer, instance string) (*Alerts, error) {
	language := parser.NewParser(parser.Options{})
	groups, problems := rulefmt.Parse(rules, false, model.UTF8Validation, language, slog.New(slog.DiscardHandler))
	if len(problems) > 0 {
		return nil, fmt.Errorf("alerts: %w", errors.Join(problems...))
	}
	a := &Alerts{
		instance: instance,
		gatherer: gatherer,
		engine: promql.NewEngine(promql.EngineOpts{
			Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), MaxSamples: 4 * maxSamples, Timeout: Interval / 3, Parser: language,
		}),
		memory: newMemory(),
	}
	for _, group := range groups.Groups {
		for _, r := range group.Rules {
			expression, err := language.ParseExpr(r.Expr)
			if err != nil {
				return nil, fmt.Errorf("alerts: %s: %w", r.Alert, err)
			}
			a.memory.wants(expression)
			a.rules = append(a.rules, rule{r, map[string]*active{}})
		}
	}
	a.firing.Store(&[]Alert{})
	return a, nil
}

// Evaluate takes the samples of now and finds out what fires. others says whether the other servers, by their instance, are up:
// what Prometheus finds out when it asks them. The error is the last of a rule that could not be evaluated; such a rule stays as
// it was.
func (a *Alerts) Evaluate(ctx context.Context, now time.Time, others map[string]bool) (err error) {
	up := maps.Clone(others)
	if up == nil {
		up = map[string]bool{}
	}
	up[a.instance] = true
	families, gathered := a.gatherer.Gather() // what could be gathered is good, whatever else was in vain
	a.memory.add(now, a.instance, families, up)
	err = gathered
	firing := []Alert{}
	for i := range a.rules {
		r := &a.rules[i]
		if failure := a.evaluate(ctx, r, now); failure != nil {
			err = fmt.Errorf("alerts: %s: %w", r.Alert, failure)
		}
		for _, one := range r.active {
			if now.Sub(one.since) >= time.Duration(r.For) {
				firing = append(firing, r.alert(ctx, one, now))
			}
		}
	}
	slices.SortFunc(firing, func(x, y Alert) int {
		return cmp.Or(strings.Compare(x.Name, y.Name), strings.Compare(x.Summary, y.Summary))
	})
	a.firing.Store(&firing)
	return err
}

// evaluate asks for the expression of a rule, and remembers since when it has each result.
func (a *Alerts) evaluate(ctx context.Context, r *rule, now time.Time) error {
	query, err := a.engine.NewInstantQuery(ctx, a.memory, nil, r.Expr, now)
	if err != nil {
		return err
	}
	defer query.Close()
	result := query.Exec(ctx)
	found, err := result.Vector()
	if err != nil {
		return err
	}
	before := r.active
	r.active = make(map[string]*active, len(found))
	for _, sample := range found {
		metric := labels.NewBuilder(sample.Metric).Del(model.MetricNameLabel).Labels()
		one := &active{since: now, labels: metric.Map(), sample: sample}
		if known := before[metric.String()]; known != nil {
			one.since = known.since
		}
		r.active[metric.String()] = one
	}
	return nil
}

// alert puts what fires into words, as Prometheus does.
func (r *rule) alert(ctx context.Context, one *active, now time.Time) Alert {
	text := "{{$labels := .Labels}}{{$value := .Value}}" + r.Annotations["summary"]
	data := template.AlertTemplateData(one.labels, nil, "", one.sample)
	summary, err := template.NewTemplateExpander(ctx, text, r.Alert, data, model.TimeFromUnixNano(now.UnixNano()), nil, nil, nil).Expand()
	if err != nil {
		summary = r.Annotations["summary"]
	}
	return Alert{Name: r.Alert, Severity: r.Labels["severity"], Summary: summary, Since: one.since}
}

// Firing are the alerts that fire, as of the last evaluation, by name.
func (a *Alerts) Firing() []Alert { return *a.firing.Load() }

// Dropped is how many series are not kept because too many are there: the alerts may not be right then.
func (a *Alerts) Dropped() int64 { return a.memory.dropped.Load() }
