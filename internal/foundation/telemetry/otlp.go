package telemetry

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"connect-svc/internal/foundation/work"
)

// maxOTLPAnswer is how much of a collector's answer is read.
const maxOTLPAnswer = 64 << 10

// otlp sends spans to a collector by OTLP over HTTP. It is an otlptrace.Client; OpenTelemetry's own links gRPC.
type otlp struct {
	client  *http.Client
	url     string
	headers http.Header
	gzip    bool
	pause   time.Duration // after the first attempt that failed; it doubles each time
}

// newOTLP reads the standard variables of exporters, OTEL_EXPORTER_OTLP_TRACES_* before OTEL_EXPORTER_OTLP_*. An error names the
// variable and not its value.
func newOTLP() (*otlp, error) {
	o := &otlp{headers: http.Header{"Content-Type": {"application/x-protobuf"}, "User-Agent": {"connect-svc"}}, pause: time.Second}
	for _, read := range []func() error{o.readEndpoint, o.readHeaders, o.readCompression, o.readClient} {
		if err := read(); err != nil {
			return nil, err
		}
	}
	return o, nil
}

func exporterSetting(name string) string {
	return cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_"+name), os.Getenv("OTEL_EXPORTER_OTLP_"+name))
}

// readEndpoint takes the endpoint of traces as it is. A common endpoint is the base of a path.
func (o *otlp) readEndpoint() error {
	o.url = os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
	if o.url == "" {
		o.url = strings.TrimSuffix(cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"), "https://localhost:4318"), "/") + "/v1/traces"
	}
	parsed, err := url.Parse(o.url)
	if err != nil || parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Host == "" {
		return errors.New("OTEL_EXPORTER_OTLP_ENDPOINT: want a URL such as http://localhost:4318")
	}
	return nil
}

// readHeaders reads pairs such as name=value,other=value, whose values may be percent-encoded.
func (o *otlp) readHeaders() error {
	for pair := range strings.SplitSeq(exporterSetting("HEADERS"), ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || err != nil {
			return errors.New("OTEL_EXPORTER_OTLP_HEADERS: want name=value,name=value")
		}
		o.headers.Set(strings.TrimSpace(name), value)
	}
	return nil
}

func (o *otlp) readCompression() error {
	switch compression := exporterSetting("COMPRESSION"); compression {
	case "", "none":
	case "gzip":
		o.gzip = true
		o.headers.Set("Content-Encoding", compression)
	default:
		return errors.New("OTEL_EXPORTER_OTLP_COMPRESSION: want gzip or none")
	}
	return nil
}

// readClient reads the time limit and the certificates.
func (o *otlp) readClient() error {
	milliseconds, err := strconv.Atoi(cmp.Or(exporterSetting("TIMEOUT"), "10000"))
	if err != nil || milliseconds <= 0 {
		return errors.New("OTEL_EXPORTER_OTLP_TIMEOUT: want milliseconds")
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if file := exporterSetting("CERTIFICATE"); file != "" {
		authorities, err := os.ReadFile(file)
		config.RootCAs = x509.NewCertPool()
		if err != nil || !config.RootCAs.AppendCertsFromPEM(authorities) {
			return errors.New("OTEL_EXPORTER_OTLP_CERTIFICATE: want a file of PEM certificates")
		}
	}
	if file := exporterSetting("CLIENT_CERTIFICATE"); file != "" {
		pair, err := tls.LoadX509KeyPair(file, exporterSetting("CLIENT_KEY"))
		if err != nil {
			return errors.New("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE: want a PEM certificate, and its key in OTEL_EXPORTER_OTLP_CLIENT_KEY")
		}
		config.Certificates = []tls.Certificate{pair}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = config
	o.client = &http.Client{Transport: transport, Timeout: time.Duration(milliseconds) * time.Millisecond}
	return nil
}

func (o *otlp) Start(context.Context) error { return nil }

func (o *otlp) Stop(context.Context) error {
	o.client.CloseIdleConnections()
	return nil
}

// UploadTraces tries again until ctx ends if the collector cannot be reached, or asks for it.
func (o *otlp) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans}) // on the wire the same as an ExportTraceServiceRequest
	if err != nil {
		return err
	}
	if o.gzip {
		var compressed bytes.Buffer
		writer := gzip.NewWriter(&compressed)
		_, _ = writer.Write(body) // a buffer returns no errors
		_ = writer.Close()
		body = compressed.Bytes()
	}
	for pause := o.pause; ; pause *= 2 {
		again, err := o.post(ctx, body)
		if err == nil || !again || !work.Pause(ctx, pause) {
			return err
		}
	}
}

// post makes one attempt, and reports whether another one may succeed. Its error does not contain the URL.
func (o *otlp) post(ctx context.Context, body []byte) (again bool, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, o.url, bytes.NewReader(body))
	if err != nil {
		return false, errors.New("the collector's URL cannot be used")
	}
	request.Header = o.headers.Clone()
	response, err := o.client.Do(request)
	if failure := (*url.Error)(nil); errors.As(err, &failure) {
		return true, fmt.Errorf("the collector cannot be reached: %w", failure.Err)
	}
	defer response.Body.Close()                                              //nolint:errcheck // it was read
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, maxOTLPAnswer)) // so that the connection can be used again
	if response.StatusCode/100 == 2 {
		return false, nil
	}
	again = slices.Contains([]int{429, 502, 503, 504}, response.StatusCode) // as OTLP says
	return again, fmt.Errorf("the collector answered with status %d", response.StatusCode)
}
