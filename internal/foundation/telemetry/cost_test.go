package telemetry

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"
)

// discard is a response writer that costs nothing.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}

// untraced does everything that a request does for traces while they are off.
func untraced() func() {
	var off *Traces
	handler := off.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	request := httptest.NewRequest(http.MethodGet, "/", nil)
	event := &Event{RequestID: uuid.New(), Operation: "readDailyActivity", Status: http.StatusOK}
	answer := discard{http.Header{}}
	logger := traced{Handler: slog.DiscardHandler}
	record := slog.NewRecord(time.Now(), slog.LevelInfo, "request", 0)
	return func() {
		handler.ServeHTTP(answer, request)
		describe(trace.SpanFromContext(request.Context()), request, event)
		if off.QueryTracer() != nil {
			panic("a tracer of queries without traces")
		}
		_ = logger.Handle(context.Background(), record)
	}
}

func TestTracesThatAreOffAllocateNothing(t *testing.T) {
	if allocations := testing.AllocsPerRun(100, untraced()); allocations != 0 {
		t.Errorf("%v allocations a request, want none", allocations)
	}
}

// Counting a request in the metrics must be cheap: it happens before the caller's connection is free again.
func TestMetricsAllocateLittle(t *testing.T) {
	metrics := NewMetrics(slog.New(slog.DiscardHandler))
	event := &Event{Operation: "readDailyActivity", Status: http.StatusOK, Duration: time.Millisecond, Limiter: LimiterAdmitted}
	if allocations := testing.AllocsPerRun(100, func() { metrics.Observe(event) }); allocations > 2 {
		t.Errorf("%v allocations a request, want 2 at most", allocations)
	}
}

func BenchmarkUntraced(b *testing.B) {
	b.ReportAllocs()
	request := untraced()
	for b.Loop() {
		request()
	}
}

func BenchmarkObserve(b *testing.B) {
	b.ReportAllocs()
	metrics := NewMetrics(slog.New(slog.DiscardHandler))
	event := &Event{Operation: "readDailyActivity", Status: http.StatusOK, Duration: time.Millisecond, Cause: errors.New("x")}
	for b.Loop() {
		metrics.Observe(event)
	}
}

func BenchmarkEvent(b *testing.B) {
	request := httptest.NewRequest(http.MethodGet, "/", nil)
	event := &Event{
		RequestID: uuid.New(), ClientID: uuid.New(), Operation: "readDailyActivity", Status: http.StatusOK,
		Duration: 1234 * time.Microsecond, Limiter: LimiterAdmitted,
	}
	failing := newOutages(NewLogger(io.Discard, slog.LevelInfo))
	b.ReportAllocs()
	for b.Loop() {
		write(request, failing, event)
	}
}
