package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Traces records the spans of requests and of their queries. A nil *Traces records nothing and costs nothing.
//
// The usual instrumentation writes paths, addresses and statements into spans. This one records only the operation, the method, the
// status and the names of the queries.
type Traces struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

// CheckTraces returns an error if NewTraces would.
func CheckTraces() error {
	traces, err := NewTraces(context.Background(), slog.New(slog.DiscardHandler))
	traces.Stop(context.Background()) // it sends nothing, as there are no spans
	return err
}

// NewTraces exports by OTLP over HTTP. The standard OTEL_* variables configure it: endpoint, headers, certificates, sampler, batches
// and service name. It returns nil unless they name a collector, and an error if it does not support the value of a variable. It logs
// later errors.
func NewTraces(ctx context.Context, logger *slog.Logger) (*Traces, error) {
	if on, err := tracing(); !on || err != nil {
		return nil, err
	}
	client, err := newOTLP()
	if err != nil {
		return nil, err
	}
	exporter, err := otlptrace.New(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	// Processes and hosts are not detected, because a command line can contain a password.
	service, err := resource.New(ctx, resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", "connect-svc")), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("traces: OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { logger.Warn("traces", "cause", err) }))
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(service))
	return &Traces{provider, provider.Tracer("connect-svc")}, nil
}

// tracing reports whether the variables name a collector. It rejects values that this program does not support.
func tracing() (bool, error) {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return false, nil
	}
	on := exporterSetting("ENDPOINT") != ""
	switch exporter := os.Getenv("OTEL_TRACES_EXPORTER"); exporter {
	case "":
	case "none":
		return false, nil
	case "otlp":
		on = true
	default:
		return false, fmt.Errorf("OTEL_TRACES_EXPORTER: %q is not known: want otlp or none", exporter)
	}
	protocol := exporterSetting("PROTOCOL")
	if on && protocol != "" && protocol != "http/protobuf" {
		return false, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL: %q is not known: want http/protobuf", protocol)
	}
	return on, nil
}

// Stop exports the remaining spans, until ctx ends.
func (t *Traces) Stop(ctx context.Context) {
	if t != nil {
		_ = t.provider.Shutdown(ctx) // spans that the collector does not accept are lost
	}
}

// Handler gives each request a span. It wraps [Requests], which describes the span. A span links to the caller's trace instead of
// continuing it, because callers must not decide what is recorded here.
func (t *Traces) Handler(next http.Handler) http.Handler {
	if t == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path := r.URL.Path; path == "/healthz" || path == "/readyz" || path == "/metrics" {
			next.ServeHTTP(w, r) // repeated every few seconds
			return
		}
		options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer)}
		// Of the caller's headers traceparent is read (W3C Trace Context), and tracestate is dropped, which is free text.
		remote := propagation.TraceContext{}.Extract(context.Background(), propagation.HeaderCarrier(r.Header))
		if caller := trace.SpanContextFromContext(remote).WithTraceState(trace.TraceState{}); caller.IsValid() {
			options = append(options, trace.WithLinks(trace.Link{SpanContext: caller}))
		}
		ctx, span := t.tracer.Start(r.Context(), "none", options...)
		defer span.End()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// Act gives an act that no request waits for, such as the delivery of an event, a span of its own. Call end with whether it failed.
func (t *Traces) Act(ctx context.Context, name string) (_ context.Context, end func(failed bool)) {
	if t == nil {
		return ctx, func(bool) {}
	}
	ctx, span := t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient))
	return ctx, func(failed bool) {
		if failed {
			span.SetStatus(codes.Error, "") // the text of an error may contain values
		}
		span.End()
	}
}

// describe copies the event into the request's span, if there is one.
func describe(span trace.Span, r *http.Request, event *Event) {
	if !span.IsRecording() {
		return
	}
	span.SetName(event.Operation)
	span.SetAttributes(
		attribute.String("http.request.method", method(r)),
		attribute.Int("http.response.status_code", event.Status),
		attribute.String("request_id", event.RequestID.String()),
	)
	if event.Code != "" {
		span.SetAttributes(attribute.String("error.type", event.Code))
	}
	if event.Status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, "") // the log has the cause, with credentials redacted
	}
}

// QueryTracer returns a tracer that gives each query of a request a span, or nil if t is nil.
func (t *Traces) QueryTracer() pgx.QueryTracer {
	if t == nil {
		return nil
	}
	return queryTracer{t.tracer}
}

type queryTracer struct{ tracer trace.Tracer }

type querySpan struct{}

func (q queryTracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return ctx // background work
	}
	name := "query"
	if rest, named := strings.CutPrefix(data.SQL, "-- name: "); named { // generated code keeps the name that a query has in sql/
		name, _, _ = strings.Cut(rest, " ")
	}
	ctx, span := q.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("db.system.name", "postgresql")))
	return context.WithValue(ctx, querySpan{}, span)
}

func (q queryTracer) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	span, ok := ctx.Value(querySpan{}).(trace.Span)
	if !ok {
		return
	}
	if data.Err != nil {
		span.SetStatus(codes.Error, "") // the text of an error may contain values
		if refused := new(pgconn.PgError); errors.As(data.Err, &refused) {
			span.SetAttributes(attribute.String("db.response.status_code", refused.Code))
		}
	}
	span.End()
}

// traced is a handler that adds the trace id to the records of a trace, and flushes after records above INFO.
type traced struct {
	slog.Handler
	flush func()
}

func (h traced) Handle(ctx context.Context, record slog.Record) error {
	if span := trace.SpanContextFromContext(ctx); span.HasTraceID() {
		record.AddAttrs(slog.String("trace_id", span.TraceID().String()))
	}
	err := h.Handler.Handle(ctx, record)
	if record.Level > slog.LevelInfo {
		h.flush()
	}
	return err
}

func (h traced) WithAttrs(attrs []slog.Attr) slog.Handler {
	return traced{h.Handler.WithAttrs(attrs), h.flush}
}

func (h traced) WithGroup(name string) slog.Handler {
	return traced{h.Handler.WithGroup(name), h.flush}
}
