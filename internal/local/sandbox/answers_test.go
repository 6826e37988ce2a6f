package sandbox

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"connect-svc/gen/sandboxapi"
)

// Every error that the partners' document has can be forced, and is then as documented to the last header, which the
// transport of the partner checks. It comes before every check: none of these requests has credentials.
func testEveryFailureCanBeForced(t *testing.T, r *running) {
	forced := map[string]int{}
	for route, op := range r.answers.operations {
		method, path, _ := strings.Cut(route, " ")
		path = strings.ReplaceAll(path, "{grant_id}", uuid.NewString())
		for f := range op.failures {
			forced[op.id]++
			r.force(t, op.id, int32(f.status), f.code)
			request, err := http.NewRequestWithContext(t.Context(), method, r.described.BaseUrl+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if status, code := r.answered(t, request); status != f.status || code != f.code {
				t.Errorf("%s: %d %s, want %v", op.id, status, code, f)
			}
		}
	}
	if diff := cmp.Diff(map[string]int{
		"requestToken": 5, "revokeToken": 4, "disconnectGrant": 3,
		"readDailyActivity": 7, "readCyclingDaily": 7, "readCyclingActivities": 8,
	}, forced); diff != "" {
		t.Errorf("failures by operation (-want +got):\n%s", diff)
	}
	if left := r.answers.forced["requestToken"]; len(left) > 0 {
		t.Errorf("still forced: %v", left)
	}
}

// They come in order and as often as they were asked for, to their operation alone, until they are forgotten.
func testForcedAnswersInOrder(t *testing.T, r *running) {
	force := func(operation string, status int, code string, times int) {
		t.Helper()
		want[nothing](t, r, 204, "POST", "/sandbox/answers",
			fmt.Sprintf(`{"operation_id":%q,"status":%d,"code":%q,"times":%d}`, operation, status, code, times))
	}
	ask := func(method, path string) string {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, r.described.BaseUrl+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		status, code := r.answered(t, request)
		return fmt.Sprintf("%d %s", status, code)
	}
	const steps = "/connect-svc/v1/grants/8c7be7a0-9d0b-4c1e-8f6b-2f8f4f6a1c55/daily-activity"
	force("readDailyActivity", 429, "rate_limited", 3)
	force("readDailyActivity", 503, "data_unavailable", 1)
	force("readCyclingDaily", 404, "not_found", 1)
	head, err := r.partner.RoundTrip(httptest.NewRequestWithContext(t.Context(), "HEAD", r.described.BaseUrl+steps, nil))
	if err != nil {
		t.Fatal(err)
	}
	_ = head.Body.Close()
	got := []string{head.Status}
	for _, path := range []string{steps, steps + "?from=x", steps + "/", "/connect-svc/v1/grants//daily-activity", steps, steps} {
		got = append(got, ask("GET", path))
	}
	got = append(got, ask("DELETE", steps))
	if diff := cmp.Diff([]string{
		"429 Too Many Requests", "429 rate_limited", "429 rate_limited", "404 not_found", "404 not_found", "503 data_unavailable", "401 invalid_access_token", "404 not_found",
	}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	want[nothing](t, r, 204, "DELETE", "/sandbox/answers", "")
	if got := ask("GET", strings.Replace(steps, "daily-activity", "cycling-daily", 1)); got != "401 invalid_access_token" {
		t.Errorf("after they were forgotten: %s", got)
	}
}

// The budget knows nothing of a forced answer.
func testForcedAnswersAreNotCounted(t *testing.T, r *running) {
	p := r.newPartner(t, sandboxapi.KindActive)
	read := p.readRequest(t, p.connect(t))
	want[nothing](t, r, 204, "POST", "/sandbox/answers", `{"operation_id":"readDailyActivity","status":429,"code":"rate_limited","times":100}`)
	for range 100 {
		if status, _ := p.answered(t, read); status != 429 {
			t.Fatalf("status %d", status)
		}
	}
	response, err := p.partner.RoundTrip(read)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if left := response.Header.Get("RateLimit-Remaining"); response.StatusCode != 200 || left != "59" {
		t.Errorf("the first read: %d, %s left", response.StatusCode, left)
	}
}
