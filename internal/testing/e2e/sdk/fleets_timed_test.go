//go:build timed

package sdk_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"

	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/pgtest"
)

// Three processes with the usual registration and one table: at most one of a hundred requests is refused, and what the policy allows is
// used.
func TestPythonPace(t *testing.T) {
	t.Parallel()
	folder, err := filepath.Abs("../../../../sdk/python")
	if err != nil {
		t.Fatal(err)
	}
	paceOfFleets(t, folder, "/usr/bin/python3", "-B", "tests/fleet.py")
}

func TestTypeScriptPace(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if output, err := exec.CommandContext(t.Context(), "../../../../.ci/typescript", folder).CombinedOutput(); err != nil {
		t.Fatalf("the package cannot be made: %v\n%s", err, output)
	}
	paceOfFleets(t, folder, "node", "compiled/fleet.js")
}

func paceOfFleets(t *testing.T, folder string, program ...string) {
	for name, atOnce := range map[string]int{"3 x 10": 10, "3 x 3": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const processes, reads = 3, 510 // of each
			e := e2e.New(t)
			u := newSDKUser(t, e, newPGStore(t, e.DB.URL), func(c *pgtest.Client) { c.RequestsPerMinute, c.Burst, c.ConcurrentReads = 600, 60, 10 })
			day := u.connect(t).HistoryFrom
			partner, err := json.Marshal(map[string]string{
				"baseUrl": u.Base, "clientId": u.Partner.ID.String(), "clientSecret": u.Partner.Secret, "callbackUrl": u.Partner.CallbackURL,
			})
			if err != nil {
				t.Fatal(err)
			}
			trusted := authority(t, e)
			environment := append(os.Environ(), "PYTHONPATH="+folder, "DATABASE_URL="+e.DB.URL, "SSL_CERT_FILE="+trusted, "NODE_EXTRA_CA_CERTS="+trusted,
				"PARTNER="+string(partner), "KEY="+sdkKey, "DAY="+day.String())
			var sent, refused [processes]int
			var begun, ended [processes]float64 // seconds of the epoch: it takes time until an interpreter begins
			var all sync.WaitGroup
			for i := range processes {
				all.Go(func() {
					arguments := append(slices.Clone(program[1:]), "10", strconv.Itoa(atOnce), strconv.Itoa(reads))
					fleet := exec.CommandContext(t.Context(), program[0], arguments...)
					fleet.Dir, fleet.Env, fleet.Stderr = folder, environment, os.Stderr
					output, err := fleet.Output()
					if err != nil {
						t.Error(err)
					}
					if _, err := fmt.Sscan(string(output), &sent[i], &refused[i], &begun[i], &ended[i]); err != nil {
						t.Errorf("%q: %v", output, err)
					}
				})
			}
			all.Wait()
			took, requests, denied := slices.Max(ended[:])-slices.Min(begun[:]), sent[0]+sent[1]+sent[2], refused[0]+refused[1]+refused[2]
			rate := processes * reads / took / 10
			t.Logf("%d requests in %.1f s, %d of them 429 (%.2f %%), at %.3f of 600 a minute", requests, took, denied, 100*float64(denied)/float64(requests), rate)
			if 100*denied > requests || rate < 0.9 {
				t.Error("want 1 % of 429, and 0.9 of the rate")
			}
		})
	}
}
