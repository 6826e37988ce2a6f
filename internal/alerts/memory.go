package alerts

import (
	"context"
	"math"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
)

const (
	// lookback is for how long Prometheus takes the last sample of a series for the present one.
	lookback = 5 * time.Minute
	// maxSamples are kept at most, of 16 bytes each.
	maxSamples = 250_000
)

// memory keeps samples for the engine, which it is a [storage.Queryable] of. It is used by one goroutine.
type memory struct {
	wanted  []wanted
	series  map[string]*series // by the labels
	last    time.Time          // of the samples
	most    int                // samples at one time
	room    int                // for samples of further series
	dropped atomic.Int64       // series for which there was no room, at the last addition
}

// wanted are the series that an expression asks for, and how far it looks back.
type wanted struct {
	name     string
	matchers []*labels.Matcher
	back     time.Duration
}

// series is one with its samples, oldest first.
type series struct {
	labels  labels.Labels
	back    time.Duration
	samples []promql.FPoint
	seen    time.Time // in a gathering
}

func newMemory() *memory {
	return &memory{series: map[string]*series{}, most: maxSamples, room: maxSamples}
}

// wants has the memory keep what an expression asks for.
func (m *memory) wants(expression parser.Expr) {
	parser.Inspect(expression, func(node parser.Node, path []parser.Node) error {
		selector, isOne := node.(*parser.VectorSelector)
		if !isOne {
			return nil
		}
		back := lookback
		for _, above := range path {
			switch above := above.(type) {
			case *parser.MatrixSelector:
				back = above.Range
			case *parser.SubqueryExpr:
				back += above.Range + above.OriginalOffset
			}
		}
		m.wanted = append(m.wanted, wanted{selector.Name, selector.LabelMatchers, back + selector.OriginalOffset})
		return nil
	})
}

// back is for how long a series is kept, 0 if nobody asks for it.
func (m *memory) back(of labels.Labels) (back time.Duration) {
	for _, w := range m.wanted {
		if matches(of, w.matchers) {
			back = max(back, w.back)
		}
	}
	return back
}

func matches(of labels.Labels, matchers []*labels.Matcher) bool {
	for _, matcher := range matchers {
		if !matcher.Matches(of.Get(matcher.Name)) {
			return false
		}
	}
	return true
}

// asked says whether an expression names a metric.
func (m *memory) asked(name string) bool {
	return slices.ContainsFunc(m.wanted, func(w wanted) bool { return w.name == name || w.name == "" })
}

// add adds the samples of an instant. A clock that was set back makes all that was before useless.
func (m *memory) add(now time.Time, instance string, families []*dto.MetricFamily, up map[string]bool) {
	if !now.After(m.last) {
		m.series, m.room = map[string]*series{}, m.most
	}
	m.last = now
	m.dropped.Store(0)
	for other, is := range up {
		count := 0.0
		if is {
			count = 1
		}
		m.sample(now, "up", other, nil, "", "", count)
	}
	for _, family := range families {
		m.family(now, instance, family)
	}
	for key, s := range m.series {
		if s.seen != now && len(s.samples) > 0 && !value.IsStaleNaN(s.samples[len(s.samples)-1].F) {
			s.samples = append(s.samples, promql.FPoint{T: now.UnixMilli(), F: math.Float64frombits(value.StaleNaN)})
		}
		old := now.Add(-s.back - Interval).UnixMilli()
		kept := slices.IndexFunc(s.samples, func(one promql.FPoint) bool { return one.T >= old })
		if kept < 0 {
			delete(m.series, key)
			m.room += s.cost()
			continue
		}
		s.samples = slices.Delete(s.samples, 0, kept)
	}
}

// family adds the samples of a metric, which are several for a histogram.
func (m *memory) family(now time.Time, instance string, family *dto.MetricFamily) {
	name := family.GetName()
	for _, metric := range family.GetMetric() {
		if h := metric.GetHistogram(); h != nil {
			m.histogram(now, name, instance, metric.GetLabel(), h)
			continue
		}
		if !m.asked(name) {
			return
		}
		switch {
		case metric.GetCounter() != nil:
			m.sample(now, name, instance, metric.GetLabel(), "", "", metric.GetCounter().GetValue())
		case metric.GetGauge() != nil:
			m.sample(now, name, instance, metric.GetLabel(), "", "", metric.GetGauge().GetValue())
		case metric.GetUntyped() != nil:
			m.sample(now, name, instance, metric.GetLabel(), "", "", metric.GetUntyped().GetValue())
		}
	}
}

func (m *memory) histogram(now time.Time, name, instance string, pairs []*dto.LabelPair, h *dto.Histogram) {
	if m.asked(name + "_sum") {
		m.sample(now, name+"_sum", instance, pairs, "", "", h.GetSampleSum())
	}
	if m.asked(name + "_count") {
		m.sample(now, name+"_count", instance, pairs, "", "", float64(h.GetSampleCount()))
	}
	if !m.asked(name + "_bucket") {
		return
	}
	for _, bucket := range h.GetBucket() {
		m.sample(now, name+"_bucket", instance, pairs, "le", strconv.FormatFloat(bucket.GetUpperBound(), 'g', -1, 64), float64(bucket.GetCumulativeCount()))
	}
	m.sample(now, name+"_bucket", instance, pairs, "le", "+Inf", float64(h.GetSampleCount()))
}

// sample adds one to its series, which begins if there is none.
func (m *memory) sample(now time.Time, name, instance string, pairs []*dto.LabelPair, extra, extraValue string, f float64) {
	of := labels.NewBuilder(labels.EmptyLabels()).Set(model.MetricNameLabel, name).Set("job", Job).Set("instance", instance)
	for _, pair := range pairs {
		of.Set(pair.GetName(), pair.GetValue())
	}
	if extra != "" {
		of.Set(extra, extraValue)
	}
	all := of.Labels()
	key := all.String()
	s := m.series[key]
	if s == nil {
		back := m.back(all)
		if back == 0 {
			return
		}
		s = &series{labels: all, back: back}
		if m.room < s.cost() {
			m.dropped.Add(1)
			return
		}
		m.room -= s.cost()
		m.series[key] = s
	}
	s.samples, s.seen = append(s.samples, promql.FPoint{T: now.UnixMilli(), F: f}), now
}

// cost is how many samples a series has at most.
func (s *series) cost() int { return int(s.back/Interval) + 3 }

// Querier implements [storage.Queryable]. The engine leaves out what is not in its time.
func (m *memory) Querier(int64, int64) (storage.Querier, error) {
	return querier{storage.NoopQuerier(), m}, nil
}

// querier selects: no expression asks for more.
type querier struct {
	storage.Querier
	memory *memory
}

// Select implements [storage.Querier].
func (q querier) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	set := &seriesSet{SeriesSet: storage.NoopSeriesSet(), at: -1}
	for _, s := range q.memory.series {
		if matches(s.labels, matchers) {
			set.all = append(set.all, s)
		}
	}
	slices.SortFunc(set.all, func(a, b *series) int { return labels.Compare(a.labels, b.labels) })
	return set
}

// seriesSet is what was selected, for the engine to go through.
type seriesSet struct {
	storage.SeriesSet // no errors and no warnings

	all []*series
	at  int
}

// Next implements [storage.SeriesSet].
func (s *seriesSet) Next() bool { s.at++; return s.at < len(s.all) }

// At implements [storage.SeriesSet].
func (s *seriesSet) At() storage.Series {
	return promql.NewStorageSeries(promql.Series{Metric: s.all[s.at].labels, Floats: s.all[s.at].samples})
}
