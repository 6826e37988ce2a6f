package observability_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"connect-svc/internal/app"
	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/testing/e2e"
)

// receiver is an OTLP collector.
type receiver struct {
	mu    sync.Mutex
	spans []*otlp.Span
	text  strings.Builder
}

func (c *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var request otlp.TracesData
	if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &request) != nil {
		http.Error(w, "no OTLP", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range request.ResourceSpans {
		c.text.WriteString(prototext.Format(resource))
		for _, scope := range resource.ScopeSpans {
			c.spans = append(c.spans, scope.Spans...)
		}
	}
}

// Requests and their queries are spans that a standard collector gets, the log has their trace ids, and they hold
// nothing that identifies a user or lets anybody in.
func TestTraces(t *testing.T) {
	received := &receiver{}
	server := httptest.NewServer(received)
	defer server.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
	var log bytes.Buffer
	logger := telemetry.NewLogger(&log, slog.LevelInfo)
	traces, err := telemetry.NewTraces(t.Context(), logger)
	if err != nil {
		t.Fatal(err)
	}
	e := e2e.New(t, func(c *app.Config) { c.Logger, c.Traces = logger, traces })
	_, token := e.Connect(t)
	if status := e.Read(t, token); status != http.StatusOK {
		t.Fatalf("a read answers %d", status)
	}
	request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, e.Base+"/.well-known/oauth-authorization-server", nil)
	request.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	request.Header.Set("Tracestate", "partner=said-this")
	answer, err := (&http.Client{Transport: e.TLS}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	e.Private(t, "/readyz")
	probe := httptest.NewRecorder()
	e.App.PrivateHandler().ServeHTTP(probe, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/usage", nil))
	if _, err := e.App.Webhooks.SetEndpoint(t.Context(), e.Partner.ID, "https://127.0.0.1/hook"); err != nil { // it may not be reached
		t.Fatal(err)
	}
	if _, err := e.App.Webhooks.SendSample(t.Context(), e.Partner.ID, "connection.revoked"); err != nil {
		t.Fatal(err)
	}
	e.StopRequests() // a span ends after its answer
	e.StopEmails()
	traces.Stop(t.Context())

	requests, acts := map[string]*otlp.Span{}, map[string]*otlp.Span{}
	for _, span := range received.spans {
		if span.Kind == otlp.Span_SPAN_KIND_CLIENT {
			acts[span.Name] = span
		}
		if span.Kind == otlp.Span_SPAN_KIND_SERVER {
			requests[span.Name] = span
		}
	}
	read := requests["readDailyActivity"]
	if read == nil || requests["/authorize/{request}/consent"] == nil || requests["requestToken"] == nil {
		t.Fatalf("spans of requests: %v", requests)
	}
	var queries []string
	for _, span := range received.spans {
		if bytes.Equal(span.ParentSpanId, read.SpanId) && bytes.Equal(span.TraceId, read.TraceId) {
			queries = append(queries, span.Name)
		}
	}
	for _, want := range []string{"AuthenticateAccess", "ReadDailySteps"} {
		if !slices.Contains(queries, want) {
			t.Errorf("the read's queries are %q, without %s", queries, want)
		}
	}
	if requests["usage"] == nil || requests["readyz"] != nil {
		t.Errorf("spans of the private listener: %v", requests)
	}
	if hook := acts["sendWebhook"]; hook == nil || hook.Status.GetCode() != otlp.Status_STATUS_CODE_ERROR {
		t.Errorf("the span of a webhook that was not delivered: %v", hook)
	}
	if email := acts["sendEmail"]; email == nil || email.Status.GetCode() == otlp.Status_STATUS_CODE_ERROR {
		t.Errorf("the span of an email: %v", email)
	}
	metadata := requests["getAuthorizationServerMetadata"]
	if metadata == nil || len(metadata.ParentSpanId) != 0 || len(metadata.Links) != 1 ||
		hex.EncodeToString(metadata.Links[0].TraceId) != "0af7651916cd43dd8448eb211c80319c" {
		t.Errorf("the caller's trace is not linked: %v", metadata)
	}
	var event map[string]any
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, `"readDailyActivity"`) {
			if err := json.Unmarshal([]byte(line), &event); err != nil {
				t.Fatal(err)
			}
		}
	}
	if event["trace_id"] != hex.EncodeToString(read.TraceId) {
		t.Errorf("the event's trace id is %v, the span's %x", event["trace_id"], read.TraceId)
	}

	text := received.text.String()
	if !strings.Contains(text, "deployment.environment") || !strings.Contains(text, "connect-svc") {
		t.Error("the resource is not what OTEL_RESOURCE_ATTRIBUTES says")
	}
	for _, secret := range []string{
		token.AccessToken, token.RefreshToken, e.Partner.Secret, e.Partner.CallbackURL, e.User.Email, e.User.ID.String(),
		token.Extra("grant_id").(string), token.Extra("history_from").(string), "127.0.0.1", "Go-http-client", "said-this",
		"select", "insert",
	} {
		if strings.Contains(text, secret) {
			t.Errorf("a span holds %.8s…", secret)
		}
	}
}

// Without a collector there is no provider and nothing around the handler; what cannot be obeyed is refused.
func TestTracesAreOffByDefault(t *testing.T) {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_TRACES_EXPORTER",
		"OTEL_SDK_DISABLED", "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"} {
		t.Setenv(name, "")
	}
	for name, test := range map[string]struct {
		set  map[string]string
		on   bool
		want string // in the error
	}{
		"nothing set":     {},
		"endpoint":        {set: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, on: true},
		"traces endpoint": {set: map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1/x"}, on: true},
		"otlp":            {set: map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, on: true},
		"none":            {set: map[string]string{"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}},
		"disabled":        {set: map[string]string{"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}},
		"zipkin":          {set: map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"}, want: "OTEL_TRACES_EXPORTER"},
		"grpc": {set: map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"},
			want: "OTEL_EXPORTER_OTLP_PROTOCOL"},
	} {
		t.Run(name, func(t *testing.T) {
			for name, value := range test.set {
				t.Setenv(name, value)
			}
			traces, err := telemetry.NewTraces(t.Context(), slog.New(slog.DiscardHandler))
			defer traces.Stop(t.Context())
			if (traces != nil) != test.on || (err != nil) != (test.want != "") {
				t.Fatalf("traces: %t, %v", traces != nil, err)
			}
			if err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v does not name %s", err, test.want)
			}
			handler := http.NewServeMux()
			if got := traces.Handler(handler); (got == http.Handler(handler)) == test.on {
				t.Errorf("a handler around the handler: %t", !test.on)
			}
			if got := traces.QueryTracer(); (got != nil) != test.on {
				t.Errorf("a query tracer: %v", got)
			}
		})
	}
}
