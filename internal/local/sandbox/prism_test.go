//go:build check

package sandbox

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// Prism, a validating proxy for OpenAPI, finds nothing to complain of between the Go SDK and the sandbox: neither in what the
// SDK sends nor in what the sandbox answers.
func TestPrism(t *testing.T) {
	t.Parallel()
	r := start(t)
	proxy := &prism{address: startPrism(t, r), answers: map[string]int{}}
	r.partner = proxy
	for _, scenario := range partnerScenarios {
		t.Run(scenario.name, func(t *testing.T) { scenario.play(t, r) })
	}
	for _, violation := range proxy.violations {
		t.Error(violation)
	}
	if len(proxy.answers) < 6 {
		t.Errorf("it has seen %v, which are not all operations that the SDK uses", proxy.answers)
	}
}

// startPrism has Prism stand before the sandbox, and returns its address.
func startPrism(t *testing.T, r *running) string {
	t.Helper()
	installed := strings.TrimSpace(string(succeed(t, exec.CommandContext(t.Context(), "../../../.ci/npm", "testdata/prism"))))
	program := exec.Command(installed+"/node_modules/.bin/prism", "proxy", "../../../api/openapi.yaml", r.described.BaseUrl, "--host", "127.0.0.1", "--port", "0")
	program.Env = append(os.Environ(), "NODE_EXTRA_CA_CERTS="+r.described.CaFile)
	var complaint bytes.Buffer
	program.Stderr = &complaint
	printed, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	t.Cleanup(func() {
		_ = program.Process.Kill()
		<-read
		_ = program.Wait() // of a signal
	})
	address := make(chan string, 1)
	go func() {
		defer close(read)
		defer close(address)
		for lines := bufio.NewScanner(printed); lines.Scan(); {
			if listens := regexp.MustCompile(`listening on (http://\S+)`).FindStringSubmatch(lines.Text()); listens != nil {
				address <- listens[1]
				break
			}
		}
		_, _ = io.Copy(io.Discard, printed) // it waits for somebody to read
	}()
	found, listens := <-address
	if !listens {
		t.Fatalf("Prism does not listen\n%s", complaint.String())
	}
	return found
}

// prism sends requests for the sandbox through Prism.
type prism struct {
	address string

	mu         sync.Mutex
	answers    map[string]int // by method and the last part of the path that is not an id
	violations []string
}

var anID = regexp.MustCompile(`/[0-9a-f-]{36}`)

func (p *prism) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Host, r.URL.Scheme, r.URL.Host = "", "http", strings.TrimPrefix(p.address, "http://")
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers[r.Method+" "+anID.ReplaceAllString(r.URL.Path, "")]++
	if found := response.Header.Get("sl-violations"); found != "" {
		p.violations = append(p.violations, r.Method+" "+r.URL.Path+" "+response.Status+": "+found)
	}
	return response, nil
}
