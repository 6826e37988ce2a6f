package alerts

import (
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
)

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
	one := s.all[s.at]
	return &storage.SeriesEntry{Lset: one.labels, SampleIteratorFn: func(chunkenc.Iterator) chunkenc.Iterator {
		return storage.NewListSeriesIterator(one.samples)
	}}
}

// samples are those of a series, for the engine to go through.
type samples []sample

// Get implements [storage.Samples].
func (s samples) Get(i int) chunks.Sample { return s[i] }

// Len implements [storage.Samples].
func (s samples) Len() int { return len(s) }

// sample is a number at an instant, in milliseconds of Unix time.
type sample struct {
	t int64
	f float64
}

// T implements [chunks.Sample], as all of these.
func (s sample) T() int64 { return s.t }

// ST is when a counter began, which is not known.
func (sample) ST() int64 { return 0 }

// F is the number.
func (s sample) F() float64 { return s.f }

// H is none.
func (sample) H() *histogram.Histogram { return nil }

// FH is none.
func (sample) FH() *histogram.FloatHistogram { return nil }

// Type is that of a number.
func (sample) Type() chunkenc.ValueType { return chunkenc.ValFloat }

// Copy returns the same.
func (s sample) Copy() chunks.Sample { return s }
