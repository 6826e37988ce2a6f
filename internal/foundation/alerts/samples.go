package alerts

import (
	"fmt"
	"maps"
	"math"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Labels are the labels of a series.
type Labels map[string]string

// Sample is the value of a series at the instant of an evaluation.
type Sample struct {
	Metric string // a histogram's samples have the metric NAME_bucket and the label le
	Labels Labels
	Value  float64
}

// Gather returns those samples of a gatherer that the rules read: of a histogram the buckets of one second and of all, and of the events of
// webhooks those that failed. An error does not invalidate the samples beside it.
func (a *Alerts) Gather(gatherer prometheus.Gatherer) (samples []Sample, err error) {
	families, err := gatherer.Gather()
	for _, family := range families {
		name, bucket := family.GetName(), family.GetName()+"_bucket"
		for _, metric := range family.GetMetric() {
			labels := Labels{}
			for _, pair := range metric.GetLabel() {
				labels[pair.GetName()] = pair.GetValue()
			}
			switch {
			case name == "connect_webhook_events_total" && labels["outcome"] != "failed":
			case a.metrics[name]:
				samples = append(samples, Sample{name, labels, metric.GetCounter().GetValue() + metric.GetGauge().GetValue()}) // it is one of them
			case a.metrics[bucket]:
				for _, b := range metric.GetHistogram().GetBucket() {
					if b.GetUpperBound() == 1 { // second
						samples = append(samples, Sample{bucket, with(labels, "le", "1"), float64(b.GetCumulativeCount())})
					}
				}
				samples = append(samples, Sample{bucket, with(labels, "le", "+Inf"), float64(metric.GetHistogram().GetSampleCount())})
			}
		}
	}
	return samples, err
}

func with(labels Labels, name, value string) Labels {
	labels = maps.Clone(labels)
	labels[name] = value
	return labels
}

// readings are what the rules read. They belong to one goroutine.
type readings struct {
	now      time.Time
	gauges   map[string][]Sample            // of this instant, by metric
	counters map[string]map[string]*counter // by metric and labels
}

// counter is a series of a metric of that kind, with what it has grown by.
type counter struct {
	labels Labels
	value  float64
	grown  []growth // within longest, oldest first
}

// growth is by how much a counter grew in one interval.
type growth struct {
	interval int64 // since 1970
	by       float64
}

// longest is the longest window of a rule.
const longest = time.Hour

// intervals are those up to an instant.
func intervals(at time.Time) int64 { return at.UnixNano() / int64(Interval) }

// add adds the samples of an instant. A counter begins at zero with the process, and a smaller value than before has begun at zero again.
// A clock that was set back invalidates what has grown.
func (r *readings) add(now time.Time, samples []Sample) {
	if !now.After(r.now) {
		for _, counters := range r.counters {
			for _, c := range counters {
				c.grown = nil
			}
		}
	}
	r.now, r.gauges = now, map[string][]Sample{}
	for _, sample := range samples {
		if !strings.HasSuffix(sample.Metric, "_total") && !strings.HasSuffix(sample.Metric, "_bucket") {
			r.gauges[sample.Metric] = append(r.gauges[sample.Metric], sample)
			continue
		}
		if r.counters[sample.Metric] == nil {
			r.counters[sample.Metric] = map[string]*counter{}
		}
		key := fmt.Sprintf("%q", sample.Labels) // sorted
		c := r.counters[sample.Metric][key]
		if c == nil {
			c = &counter{labels: sample.Labels}
			r.counters[sample.Metric][key] = c
		}
		c.grow(now, sample.Value)
	}
}

func (c *counter) grow(now time.Time, value float64) {
	increase := value - c.value
	if increase < 0 {
		increase = value
	}
	c.value = value
	if increase == 0 {
		return
	}
	for len(c.grown) > 0 && c.grown[0].interval <= intervals(now.Add(-longest)) {
		c.grown = c.grown[1:]
	}
	if last := len(c.grown) - 1; last >= 0 && c.grown[last].interval == intervals(now) {
		c.grown[last].by += increase
	} else {
		c.grown = append(c.grown, growth{intervals(now), increase})
	}
}

// subjects returns the values that a label has where a gauge meets a condition.
func (r *readings) subjects(metric, label string, met func(float64) bool) (subjects []string) {
	for _, sample := range r.gauges[metric] {
		if met(sample.Value) {
			subjects = append(subjects, sample.Labels[label])
		}
	}
	return subjects
}

// most returns the largest value of a gauge. It is NaN, which meets no condition, if there is none.
func (r *readings) most(metric string) float64 {
	most := math.Inf(-1)
	for _, sample := range r.gauges[metric] {
		most = max(most, sample.Value)
	}
	if math.IsInf(most, -1) {
		return math.NaN()
	}
	return most
}

// increase returns how much the selected series of a counter have grown within the window before now; nil selects all.
func (r *readings) increase(metric string, window time.Duration, selected func(Labels) bool) (sum float64) {
	for _, grown := range r.increaseBy("", metric, window, selected) {
		sum += grown
	}
	return sum
}

// increaseBy returns [readings.increase] for each value of a label.
func (r *readings) increaseBy(label, metric string, window time.Duration, selected func(Labels) bool) map[string]float64 {
	sums := map[string]float64{}
	for _, c := range r.counters[metric] {
		if selected != nil && !selected(c.labels) {
			continue
		}
		for _, grown := range c.grown {
			if grown.interval > intervals(r.now.Add(-window)) {
				sums[c.labels[label]] += grown.by
			}
		}
	}
	return sums
}
