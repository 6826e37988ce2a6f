package app

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	"github.com/google/uuid"
)

// faults stands in front of the service, counts requests by the last element of their path, and does to the next of them
// what a test planted.
type faults struct {
	service http.Handler

	mu       sync.Mutex
	planted  []fault
	requests map[string]int
}

// fault happens to the next request whose path ends so.
type fault struct {
	Path string `json:"path"`
	Kind string `json:"kind"`
}

// The kinds of faults.
const (
	faultUnavailable = "unavailable" // the service says that it cannot: 503 or 500; nothing happened
	faultSwallowed   = "swallowed"   // it did its work, and then a 500 came instead of the answer
	faultLost        = "lost"        // it did its work, and then the connection broke
)

func (f *faults) plant(planted ...fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.planted = append(f.planted, planted...)
}

// seen is how many requests there were whose path ends so.
func (f *faults) seen(end string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.requests[end]
}

func (f *faults) take(path string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests[path[strings.LastIndex(path, "/")+1:]]++
	for i, planted := range f.planted {
		if strings.HasSuffix(path, planted.Path) {
			f.planted = append(f.planted[:i:i], f.planted[i+1:]...)
			return planted.Kind
		}
	}
	return ""
}

func (f *faults) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch f.take(r.URL.Path) {
	case "":
		f.service.ServeHTTP(w, r)
	case faultUnavailable:
		failed(w, r)
	case faultSwallowed:
		f.service.ServeHTTP(httptest.NewRecorder(), r)
		failed(w, r)
	case faultLost:
		f.service.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	}
}

// failed is the answer that the document has for it.
func failed(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", "no-store")
	header.Set("Pragma", "no-cache")
	header.Set("Referrer-Policy", "no-referrer")
	if strings.HasPrefix(r.URL.Path, "/oauth/") || r.Method == http.MethodDelete {
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = w.Write([]byte(`{"error":"server_error","error_description":"The request could not be completed."}`))
		return
	}
	id := uuid.NewString()
	header.Set("X-Request-ID", id)
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = w.Write([]byte(`{"error":{"code":"data_unavailable","message":"The data is temporarily unavailable."},"request_id":"` + id + `"}`))
}
