package alerts

import (
	"context"
	"log/slog"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/template"

	"connect-svc/docs"
	"connect-svc/internal/foundation/alerts"
)

// prometheus evaluates docs/alerts.yaml as Prometheus does. It is also the storage of its engine.
type prometheus struct {
	engine *promql.Engine
	rules  []*rule
	series map[string]*promql.Series
	now    time.Time
}

// rule is a rule of the file with the results that its expression has had without a gap.
type rule struct {
	rulefmt.Rule
	active map[string]*active // by labels
}

type active struct {
	since  time.Time
	sample promql.Sample
}

func newPrometheus(t *testing.T) *prometheus {
	t.Helper()
	language := parser.NewParser(parser.Options{})
	logger := slog.New(slog.DiscardHandler)
	groups, problems := rulefmt.Parse(docs.Alerts, false, model.UTF8Validation, language, logger)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	p := &prometheus{
		engine: promql.NewEngine(promql.EngineOpts{Logger: logger, MaxSamples: 1e6, Timeout: time.Hour, Parser: language}),
		series: map[string]*promql.Series{},
	}
	for _, group := range groups.Groups {
		for _, r := range group.Rules {
			p.rules = append(p.rules, &rule{r, nil})
		}
	}
	return p
}

func (p *prometheus) names() (names []string) {
	for _, r := range p.rules {
		names = append(names, r.Alert)
	}
	return names
}

// evaluate scrapes the samples and returns the alerts that fire.
func (p *prometheus) evaluate(t *testing.T, now time.Time, samples []alerts.Sample) []alerts.Alert {
	t.Helper()
	p.scrape(now, samples)
	firing := []alerts.Alert{}
	for _, r := range p.rules {
		query, err := p.engine.NewInstantQuery(t.Context(), p, nil, r.Expr, now)
		if err != nil {
			t.Fatal(err)
		}
		found, err := query.Exec(t.Context()).Vector()
		if err != nil {
			t.Fatal(err)
		}
		before := r.active
		r.active = map[string]*active{}
		for _, sample := range found {
			sample.Metric = labels.NewBuilder(sample.Metric).Del(model.MetricNameLabel).Labels()
			one := &active{now, sample}
			if known := before[sample.Metric.String()]; known != nil {
				one.since = known.since
			}
			r.active[sample.Metric.String()] = one
			if now.Sub(one.since) >= time.Duration(r.For) {
				firing = append(firing, r.alert(t, one, now))
			}
		}
		query.Close()
	}
	return sorted(firing)
}

func (r *rule) alert(t *testing.T, one *active, now time.Time) alerts.Alert {
	t.Helper()
	data := template.AlertTemplateData(one.sample.Metric.Map(), nil, "", one.sample)
	summary, err := template.NewTemplateExpander(t.Context(), "{{$labels := .Labels}}"+r.Annotations["summary"], r.Alert, data,
		model.TimeFromUnixNano(now.UnixNano()), nil, nil, nil).Expand()
	if err != nil {
		t.Fatal(err)
	}
	server := ""
	if r.Alert == "ConnectDown" {
		server = one.sample.Metric.Get("instance")
	}
	return alerts.Alert{Name: r.Alert, Severity: r.Labels["severity"], Summary: summary, Since: one.since, Server: server}
}

// scrape adds samples with the labels that a scrape gives them, and marks the series that have ended. Samples after an instant are
// forgotten when the clock is set back to it, as the service does it.
func (p *prometheus) scrape(now time.Time, samples []alerts.Sample) {
	if !now.After(p.now) {
		p.series = map[string]*promql.Series{}
	}
	p.now = now
	for _, sample := range samples {
		of := labels.NewBuilder(labels.EmptyLabels()).Set(model.MetricNameLabel, sample.Metric).Set("job", "connect-svc").Set("instance", "here")
		for name, value := range sample.Labels {
			of.Set(name, value)
		}
		key := of.Labels().String()
		if p.series[key] == nil {
			p.series[key] = &promql.Series{Metric: of.Labels()}
		}
		p.series[key].Floats = append(p.series[key].Floats, promql.FPoint{T: now.UnixMilli(), F: sample.Value})
	}
	for key, s := range p.series {
		switch newest := s.Floats[len(s.Floats)-1]; {
		case newest.T < now.Add(-2*time.Hour).UnixMilli():
			delete(p.series, key)
		case newest.T < now.UnixMilli() && !value.IsStaleNaN(newest.F):
			s.Floats = append(s.Floats, promql.FPoint{T: now.UnixMilli(), F: math.Float64frombits(value.StaleNaN)})
		}
	}
}

// Querier implements [storage.Queryable].
func (p *prometheus) Querier(int64, int64) (storage.Querier, error) {
	return querier{storage.NoopQuerier(), p}, nil
}

type querier struct {
	storage.Querier
	of *prometheus
}

// Select implements [storage.Querier].
func (q querier) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	set := &seriesSet{SeriesSet: storage.NoopSeriesSet(), at: -1}
	for _, s := range q.of.series {
		if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(s.Metric.Get(m.Name)) }) {
			set.all = append(set.all, *s)
		}
	}
	slices.SortFunc(set.all, func(a, b promql.Series) int { return labels.Compare(a.Metric, b.Metric) })
	return set
}

type seriesSet struct {
	storage.SeriesSet // no errors and no warnings

	all []promql.Series
	at  int
}

// Next implements [storage.SeriesSet].
func (s *seriesSet) Next() bool { s.at++; return s.at < len(s.all) }

// At implements [storage.SeriesSet].
func (s *seriesSet) At() storage.Series { return promql.NewStorageSeries(s.all[s.at]) }
