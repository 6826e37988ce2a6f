package demo

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connect-svc/internal/foundation/timezone"
	"connect-svc/internal/testing/wait"
)

// The first connection is 30 days old on the user's calendar at each hour of a year, also where the clocks were changed
// meanwhile.
func TestSinceConnected(t *testing.T) {
	t.Parallel()
	for _, p := range samplePeople(time.Now()) {
		location := timezone.Location(p.timezone)
		start := time.Date(2026, time.January, 1, 0, 30, 0, 0, time.UTC)
		for now := start; now.Before(start.AddDate(1, 0, 0)); now = now.Add(time.Hour) {
			got := timezone.Day(now.Add(-sinceConnected(now, location)).In(location))
			if want := timezone.Day(now.In(location)).AddDate(0, 0, -connectedDays); !got.Equal(want) {
				t.Fatalf("%s: at %s connected on %s, want %s", p.name, now, got, want)
			}
		}
	}
}

// The first day that the partner sees of the user who consents has something to see, whenever the demo begins.
func TestHalfADayIsOver(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	for now := begin; now.Before(begin.AddDate(1, 0, 0)); now = now.Add(15 * time.Minute) {
		robin := samplePeople(now)[1]
		if hour := now.In(timezone.Location(robin.timezone)).Hour(); hour < 13 || hour > 18 {
			t.Fatalf("at %s it is %d o'clock in %s", now, hour, robin.timezone)
		}
	}
}

// A file that a start left empty, because it was killed or the disk was full, is made anew: above all the operator's token, since an
// empty one would let everybody in.
func TestFilesCutOff(t *testing.T) {
	t.Parallel()
	d := demo{config: Config{Dir: t.TempDir()}}
	for _, file := range []string{"operator-token", "partner.json"} {
		if err := os.WriteFile(d.path(file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	token, err := openOperatorToken(d.path("operator-token"))
	if err != nil || len(token) < 32 {
		t.Errorf("the operator's token has %d characters: %v", len(token), err)
	}
	if again, err := openOperatorToken(d.path("operator-token")); err != nil || again != token {
		t.Errorf("the next start has another token: %v", err)
	}
	if _, found, err := d.findRegistration(t.Context()); err != nil || found {
		t.Errorf("the partner's registration: found %t, %v", found, err)
	}
}

// The demo adds to what is recorded, and not to what partners see: a correction of today counts once, however long the demo runs.
func TestGrowsWhatIsRecorded(t *testing.T) {
	t.Parallel()
	r := start(t, Config{Ephemeral: true, Every: time.Millisecond, Limits: wait.Patient})
	token, err := os.ReadFile(filepath.Join(r.Dir, "operator-token"))
	if err != nil {
		t.Fatal(err)
	}
	call := func(method, path, body string, into any) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, r.Private+"/operator/v1/users"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
		if body != "" {
			request.Header.Set("Content-Type", "application/json")
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if err := json.NewDecoder(response.Body).Decode(into); err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("%s %s: %d, %v", method, path, response.StatusCode, err)
		}
	}
	var robin struct { // whose day is half over: it does not end meanwhile
		Data []struct {
			ID       string `json:"user_id"`
			Timezone string
		}
	}
	call(http.MethodGet, "?email=robin@example.com", "", &robin)
	today := time.Now().In(timezone.Location(robin.Data[0].Timezone)).Format(time.DateOnly)
	user := "/" + robin.Data[0].ID
	recorded := func() int {
		t.Helper()
		var activity struct {
			Days []struct{ Steps struct{ Recorded int } }
		}
		call(http.MethodGet, user+"/activity?from="+today+"&to="+today, "", &activity)
		return activity.Days[0].Steps.Recorded
	}
	before := recorded()
	call(http.MethodPost, user+"/adjustments", `{"dataset":"daily_steps","date":"`+today+`","delta":50000,"note":"a second device"}`, new(any))
	last := 0
	for range 3 {
		wait.Until(t, "more steps", func() bool { return recorded() > max(before, last) })
		last = recorded()
	}
	if last-before >= 50_000 {
		t.Errorf("%d steps are recorded, after %d: the correction was recorded, too", last, before)
	}
}

// An offboarded example partner is back at the next start.
func TestOffboardedPartner(t *testing.T) {
	t.Parallel()
	config := Config{Dir: t.TempDir(), Port: freePorts(t)}
	registered := func() (r registration) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(config.Dir, "partner.json"))
		if err == nil {
			err = json.Unmarshal(text, &r)
		}
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := start(t, config)
	before := registered()
	token, err := os.ReadFile(filepath.Join(config.Dir, "operator-token"))
	if err != nil {
		t.Fatal(err)
	}
	offboard, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.Private+"/operator/v1/clients/"+before.ID.String()+"/offboard", nil)
	if err != nil {
		t.Fatal(err)
	}
	offboard.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	response, err := http.DefaultClient.Do(offboard)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if err := r.stop(); err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("status %d, %v", response.StatusCode, err)
	}
	start(t, config)
	if after := registered(); after.ID == before.ID {
		t.Error("the partner is the one that was offboarded")
	}
}
