package alerts

import (
	"maps"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// maxSamples bounds the history, of 16 bytes each.
const maxSamples = 250_000

// Labels are the labels of a series.
type Labels map[string]string

// Sample is the value of a series at the instant of an evaluation.
type Sample struct {
	Metric string // a histogram's samples have the metric NAME_bucket and the label le
	Labels Labels
	Value  float64
}

// history holds the samples that the rules read. It belongs to one goroutine.
type history struct {
	now     time.Time            // of the newest samples
	byKey   map[string]*series   // by metric and labels
	metrics map[string][]*series // by metric, oldest series first
	room    int                  // samples that further series may have
	most    int                  // samples in all
	dropped atomic.Int64         // series that the last call of add ignored
}

// series is a metric with one set of labels.
type series struct {
	key    string
	labels Labels
	window time.Duration
	points []point // oldest first
}

type point struct {
	at    int64 // Unix time in milliseconds
	value float64
}

func newHistory() *history {
	h := &history{most: maxSamples}
	h.reset()
	return h
}

func (h *history) reset() {
	h.byKey, h.metrics, h.room = map[string]*series{}, map[string][]*series{}, h.most
}

// add adds the samples of an instant and forgets those that no rule can read any more. A clock that was set back invalidates all
// earlier samples.
func (h *history) add(now time.Time, samples []Sample) {
	if now.UnixMilli() <= h.now.UnixMilli() {
		h.reset()
	}
	h.now = now
	h.dropped.Store(0)
	for _, sample := range samples {
		h.sample(sample)
	}
	for metric, all := range h.metrics {
		h.metrics[metric] = slices.DeleteFunc(all, h.forget)
	}
}

func (h *history) sample(sample Sample) {
	window, read := kept[sample.Metric]
	if !read {
		return
	}
	key := keyOf(sample)
	s := h.byKey[key]
	if s == nil {
		s = &series{key: key, labels: sample.Labels, window: window}
		least := 0
		if _, ofPartner := sample.Labels["client"]; ofPartner {
			least = h.most / 2 // partners do not crowd out the service's own series
		}
		if h.room-s.cost() < least {
			h.dropped.Add(1)
			return
		}
		h.room -= s.cost()
		h.byKey[key] = s
		h.metrics[sample.Metric] = append(h.metrics[sample.Metric], s)
	}
	s.points = append(s.points, point{h.now.UnixMilli(), sample.Value})
}

// forget removes the points that are too old, and reports whether none is left.
func (h *history) forget(s *series) bool {
	old := h.now.Add(-s.window - Interval).UnixMilli()
	s.points = slices.DeleteFunc(s.points, func(p point) bool { return p.at <= old })
	if len(s.points) > 0 {
		return false
	}
	delete(h.byKey, s.key)
	h.room += s.cost()
	return true
}

// cost is how many samples a series may have.
func (s *series) cost() int { return int(s.window/Interval) + 3 }

func keyOf(sample Sample) string {
	var key strings.Builder
	key.WriteString(sample.Metric)
	for _, label := range slices.Sorted(maps.Keys(sample.Labels)) {
		key.WriteString("\x00" + label + "\x00" + sample.Labels[label])
	}
	return key.String()
}

// subjects returns the values that a label has where the newest sample meets a condition. Series that have ended are ignored.
func (h *history) subjects(metric, label string, met func(float64) bool) (subjects []string) {
	for _, s := range h.metrics[metric] {
		if newest := s.points[len(s.points)-1]; newest.at == h.now.UnixMilli() && met(newest.value) {
			subjects = append(subjects, s.labels[label])
		}
	}
	return subjects
}

// newest returns the largest newest sample of the selected series of a gauge; nil selects all. It is NaN, which meets no condition, if
// there is none.
func (h *history) newest(metric string, selected func(Labels) bool) float64 {
	most, known := 0.0, false
	for _, s := range h.metrics[metric] {
		if newest := s.points[len(s.points)-1]; newest.at == h.now.UnixMilli() && (selected == nil || selected(s.labels)) {
			most, known = max(most, newest.value), true
		}
	}
	if !known {
		return math.NaN()
	}
	return most
}

// increase returns how much the selected series of a counter have grown within the window before now; nil selects all. It is NaN,
// which meets no condition, if no series has two samples.
func (h *history) increase(metric string, window time.Duration, selected func(Labels) bool) float64 {
	if grown, known := h.increaseBy("", metric, window, selected)[""]; known {
		return grown
	}
	return math.NaN()
}

// increaseBy returns [history.increase] for each value of a label.
func (h *history) increaseBy(label, metric string, window time.Duration, selected func(Labels) bool) map[string]float64 {
	sums := map[string]float64{}
	for _, s := range h.metrics[metric] {
		if selected == nil || selected(s.labels) {
			if grown, known := s.increase(h.now, window); known {
				sums[s.labels[label]] += grown
			}
		}
	}
	return sums
}

// increase is Prometheus' function of that name. A counter that has become smaller has started again at zero. Since the first and
// the last sample are not at the ends of the window, the increase between them is extrapolated to the whole window if they are near
// its ends, and otherwise by half of the time between two samples. A counter is not extrapolated below zero.
func (s *series) increase(now time.Time, window time.Duration) (grown float64, known bool) {
	start := now.Add(-window).UnixMilli()
	first, _ := slices.BinarySearchFunc(s.points, start+1, func(p point, at int64) int { return int(p.at - at) })
	within := s.points[first:]
	if len(within) < 2 {
		return 0, false
	}
	oldest, newest := within[0], within[len(within)-1]
	grown = newest.value - oldest.value
	for i, p := range within[1:] {
		if p.value < within[i].value {
			grown += within[i].value
		}
	}
	sampled := seconds(newest.at - oldest.at)
	between := sampled / float64(len(within)-1)
	before, after := seconds(oldest.at-start), seconds(now.UnixMilli()-newest.at)
	if before >= 1.1*between {
		before = between / 2
	}
	if grown > 0 && oldest.value >= 0 {
		before = min(before, sampled*(oldest.value/grown))
	}
	if after >= 1.1*between {
		after = between / 2
	}
	return grown * ((sampled + before + after) / sampled), true
}

func seconds(milliseconds int64) float64 { return float64(milliseconds) / 1000 }
