// Package collector has the test of spans that the service sends to OpenTelemetry's own collector. It has a test only, and is in this
// module because the service does not need the collector's code.
package collector

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"

	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/testing/process"
)

// receive starts the receiver of the collector, and returns its address and what gets through to it. It is too busy for the first batch,
// which it answers with 503.
func receive(t *testing.T, tls map[string]any) (address string, received *consumertest.TracesSink) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address, received = listener.Addr().String(), new(consumertest.TracesSink)
	var batches atomic.Int64
	next, err := consumer.NewTraces(func(ctx context.Context, spans ptrace.Traces) error {
		if batches.Add(1) == 1 {
			return errors.New("busy")
		}
		return received.ConsumeTraces(ctx, spans)
	})
	if err != nil {
		t.Fatal(err)
	}
	factory := otlpreceiver.NewFactory()
	config := factory.CreateDefaultConfig()
	over := map[string]any{"endpoint": address}
	if tls != nil {
		over["tls"] = tls
	}
	if err := confmap.NewFromStringMap(map[string]any{"protocols": map[string]any{"http": over}}).Unmarshal(config); err != nil {
		t.Fatal(err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	err = process.Rebind(func() error {
		collector, err := factory.CreateTraces(t.Context(), receiver.Settings{
			ID: component.NewID(factory.Type()), TelemetrySettings: componenttest.NewNopTelemetrySettings(),
		}, config, next)
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = collector.Shutdown(context.Background()) })
		return collector.Start(t.Context(), componenttest.NewNopHost())
	})
	if err != nil {
		t.Fatal(err)
	}
	return address, received
}

// OpenTelemetry's collector takes the spans, also compressed and over TLS, and gets those that it had no time for again.
func TestRealCollector(t *testing.T) {
	for _, test := range []struct {
		name, compression string
		secured           bool
	}{{"plain", "", false}, {"compressed", "gzip", false}, {"over TLS", "gzip", true}} {
		t.Run(test.name, func(t *testing.T) {
			scheme, tls := "http://", map[string]any(nil)
			if test.secured {
				scheme, tls = "https://", secured(t)
			}
			address, received := receive(t, tls)
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", scheme+address)
			t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", test.compression)
			t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
			traces, err := telemetry.NewTraces(t.Context(), slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			traces.Handler(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(),
				httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
			_, end := traces.Act(t.Context(), "sendEmail")
			end(true)
			traces.Stop(t.Context())

			if received.SpanCount() != 2 {
				t.Fatalf("the collector has %d spans", received.SpanCount())
			}
			resource := received.AllTraces()[0].ResourceSpans().At(0)
			if name, _ := resource.Resource().Attributes().Get("service.name"); name.Str() != "connect-svc" {
				t.Errorf("the spans are of %q", name.Str())
			}
			spans := resource.ScopeSpans().At(0).Spans()
			request, email := spans.At(0), spans.At(1)
			if request.Kind() != ptrace.SpanKindServer || request.TraceID().IsEmpty() || request.EndTimestamp() < request.StartTimestamp() {
				t.Errorf("the span of a request: %v, trace %s", request.Kind(), request.TraceID())
			}
			if email.Name() != "sendEmail" || email.Kind() != ptrace.SpanKindClient || email.Status().Code() != ptrace.StatusCodeError {
				t.Errorf("the span of an act that failed: %s, %v, %v", email.Name(), email.Kind(), email.Status().Code())
			}
		})
	}
}

// secured has the certificate of a test server, which the exporter is told to trust.
func secured(t *testing.T) map[string]any {
	t.Helper()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	certificate := server.TLS.Certificates[0]
	write := func(name, kind string, der []byte) string {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	key, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	authority := write("certificate.pem", "CERTIFICATE", certificate.Certificate[0])
	t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", authority)
	return map[string]any{"cert_file": authority, "key_file": write("key.pem", "PRIVATE KEY", key)}
}
