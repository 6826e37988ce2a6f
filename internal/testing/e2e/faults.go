package e2e

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"
)

// Faults stands in front of the service, counts requests by the last element of their path, and does to the next of them
// what a test planted.
type Faults struct {
	service http.Handler

	mu       sync.Mutex
	planted  []Fault
	requests map[string]int
}

// Fault happens to the next request whose path ends so.
type Fault struct {
	Path string `json:"path"`
	Kind string `json:"kind"`
}

// The kinds of faults.
const (
	FaultUnavailable = "unavailable" // the service says that it cannot: 503 or 500; nothing happened
	FaultSwallowed   = "swallowed"   // it did its work, and then a 500 came instead of the answer
	FaultLost        = "lost"        // it did its work, and then the connection broke
)

// Plant has a fault of a kind happen to the next request whose path ends so.
func (f *Faults) Plant(path, kind string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.planted = append(f.planted, Fault{path, kind})
}

// Seen is how many requests there were whose path ends so.
func (f *Faults) Seen(end string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.requests[end]
}

func (f *Faults) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	path, kind := r.URL.Path, ""
	f.requests[path[strings.LastIndex(path, "/")+1:]]++
	if i := slices.IndexFunc(f.planted, func(planted Fault) bool { return strings.HasSuffix(path, planted.Path) }); i >= 0 {
		kind = f.planted[i].Kind
		f.planted = slices.Delete(f.planted, i, i+1)
	}
	f.mu.Unlock()
	switch kind {
	case "":
		f.service.ServeHTTP(w, r)
	case FaultUnavailable:
		failed(w, r)
	case FaultSwallowed:
		f.service.ServeHTTP(httptest.NewRecorder(), r)
		failed(w, r)
	case FaultLost:
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
