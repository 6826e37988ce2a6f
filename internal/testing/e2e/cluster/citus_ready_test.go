//go:build citus

package cluster_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"connect-svc/internal/testing/pgtest"
)

// A node that is away does not stop the servers on other nodes: each node knows the migrations.
func TestReadyWithoutANodeOnACluster(t *testing.T) {
	db := pgtest.New(t)
	f := newFleet(t, db)
	for _, url := range db.URLs[1:] {
		f.join(t, url)
	}
	for gone, url := range db.URLs {
		restart(t, url, func() {
			for at, a := range f.apps {
				if at == gone {
					continue
				}
				answer := httptest.NewRecorder()
				a.PrivateHandler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://127.0.0.1/readyz", nil))
				if answer.Code != http.StatusOK {
					t.Errorf("without node %d, the server on node %d: %d %s", gone, at, answer.Code, answer.Body)
				}
			}
		})
	}
}
