package telemetry

import (
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// The standard variables say where spans go and how. Only spans that the collector cannot take just now are sent again.
func TestOTLP(t *testing.T) {
	statuses := []int{http.StatusServiceUnavailable, http.StatusOK, http.StatusBadRequest}
	var got []*http.Request
	var spans tracepb.TracesData
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := gzip.NewReader(r.Body)
		if err != nil {
			t.Error(err)
			return
		}
		text, _ := io.ReadAll(body)
		if err := proto.Unmarshal(text, &spans); err != nil {
			t.Error(err)
		}
		if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/x-protobuf" || r.Header.Get("Content-Encoding") != "gzip" ||
			len(spans.ProtoReflect().GetUnknown()) > 0 { // OTLP 1.7, sections "OTLP/HTTP Request" and "Binary Protobuf Encoding"
			t.Errorf("%s %v, %d unknown bytes", r.Method, r.Header, len(spans.ProtoReflect().GetUnknown()))
		}
		got = append(got, r)
		w.WriteHeader(statuses[len(got)-1])
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL+"/base/")
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=common")
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "api-key=a%20b, tenant=c=d")
	t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
	o, err := newOTLP()
	if err != nil {
		t.Fatal(err)
	}
	o.pause = time.Nanosecond
	if err := o.UploadTraces(t.Context(), []*tracepb.ResourceSpans{{SchemaUrl: "first"}}); err != nil {
		t.Error(err)
	}
	if err := o.UploadTraces(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "400") {
		t.Errorf("what the collector rejects: %v", err)
	}
	if len(got) != 3 || got[1].URL.Path != "/base/v1/traces" || got[1].Header.Get("Api-Key") != "a b" || got[1].Header.Get("Tenant") != "c=d" {
		t.Fatalf("the collector got %d requests, the second %+v", len(got), got[1])
	}
	collector.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := o.UploadTraces(ctx, nil); err == nil || strings.Contains(err.Error(), "127.0.0.1:") && strings.Contains(err.Error(), "/base") {
		t.Errorf("without a collector: %v", err)
	}
}

func TestOTLPSettings(t *testing.T) {
	authorities := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(authorities, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"ENDPOINT": "localhost:4318", "HEADERS": "name", "COMPRESSION": "zstd", "TIMEOUT": "10s",
		"CERTIFICATE": authorities, "CLIENT_CERTIFICATE": authorities,
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_"+name, value)
			if _, err := newOTLP(); err == nil || !strings.HasPrefix(err.Error(), "OTEL_EXPORTER_OTLP_"+name+":") || strings.Contains(err.Error(), value+" ") {
				t.Errorf("%v", err)
			}
		})
	}
}
