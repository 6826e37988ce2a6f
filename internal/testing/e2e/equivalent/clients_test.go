//go:build check

package equivalent_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/wiretest"
)

// ask is a question for a client in another process, as JSON.
type ask struct {
	Method string     `json:"method"`
	Path   string     `json:"path"`
	Fields [][]string `json:"fields"`
	Body   string     `json:"body"`
}

// reply is what such a client prints.
type reply struct {
	Status  int        `json:"status"`
	Headers [][]string `json:"headers"`
	Body    string     `json:"body"`
}

// clients send a question in the ways that they have. Each takes the address, the file of the certificate and the question, and prints a reply.
var clients = map[string][]string{
	"Node fetch":              {"node", "testdata/fetch.mjs"},
	"Node fetch, streaming":   {"node", "testdata/fetch.mjs", "stream"},
	"Node http":               {"node", "testdata/http.mjs"},
	"Node http, chunked":      {"node", "testdata/http.mjs", "chunked"},
	"Node http2":              {"node", "testdata/http2.mjs"},
	"Node http2, in frames":   {"node", "testdata/http2.mjs", "frames"},
	"Python http.client":      {"python3", "testdata/client.py"},
	"Python, chunked":         {"python3", "testdata/client.py", "chunked"},
	"PHP stream":              {"php", "testdata/stream.php"},
	"curl with HTTP 1.1":      {"testdata/curl.sh", "--http1.1"},
	"curl with HTTP 2":        {"testdata/curl.sh", "--http2"},
	"curl, chunked":           {"testdata/curl.sh", "--http1.1", "-H", "Transfer-Encoding: chunked"},
	"curl, expecting":         {"testdata/curl.sh", "--http1.1", "-H", "Expect: 100-continue"},
	"curl, expecting, HTTP 2": {"testdata/curl.sh", "--http2", "-H", "Expect: 100-continue"},
}

// Each client's form of a request has the answer of the usual form.
func TestClients(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	roots := t.TempDir()
	e2e.WriteCertificate(t, roots, w.pair)
	for name, command := range clients {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, q := range w.questions {
				if q.name == "developers" && strings.HasPrefix(name, "Node fetch") {
					continue // it unzips the answer
				}
				usual := wiretest.HTTP1(t, wiretest.Dial(t, w.secured, "http/1.1"), shapeOf(q).text())
				q.same(t, usual, play(t, command, w.secured, filepath.Join(roots, "connect.pem"), q))
			}
		})
	}
}

func play(t *testing.T, command []string, address, roots string, q question) wiretest.Answer {
	t.Helper()
	sent := ask{Method: q.method, Path: q.path, Fields: [][]string{}, Body: q.body}
	for i := 0; i < len(q.fields); i += 2 {
		sent.Fields = append(sent.Fields, q.fields[i:i+2])
	}
	text, err := json.Marshal(sent)
	if err != nil {
		t.Fatal(err)
	}
	program := exec.CommandContext(t.Context(), command[0], command[1:]...)
	var stdout, stderr bytes.Buffer
	program.Stdin, program.Stdout, program.Stderr = bytes.NewReader(text), &stdout, &stderr
	program.Env = append(os.Environ(), "CONNECT_ADDRESS="+address, "CONNECT_HOST="+host, "CONNECT_ROOTS="+roots, "NODE_EXTRA_CA_CERTS="+roots)
	if err := program.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", q.name, err, stderr.String())
	}
	var got reply
	if err := json.Unmarshal(stdout.Bytes(), &got); err != nil {
		t.Fatalf("%s: %v: %s", q.name, err, stdout.String())
	}
	answer := wiretest.Answer{Status: got.Status, Header: http.Header{}}
	for _, char := range got.Body { // each stands for a byte
		answer.Body += string([]byte{byte(char)})
	}
	for _, pair := range got.Headers {
		answer.Header.Add(pair[0], pair[1])
	}
	return answer
}
