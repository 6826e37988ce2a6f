//go:build check

package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// Eight batches at once, the largest that there can be and ordinary ones, are all taken by the program as it is released, within
// the memory of a container: that of deploy/kubernetes, and a quarter of it.
func TestMemoryOfBatches(t *testing.T) {
	t.Parallel()
	program := buildReleased(t)
	const token = operatorToken
	steps := func(user string, n int) string {
		var rows strings.Builder
		day := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
		for i := range 9_000 {
			fmt.Fprintf(&rows, `{"user_id":%q,"date":%q,"steps":%d},`, user, day.AddDate(0, 0, i).Format(time.DateOnly), i+n)
		}
		return `{"daily_steps":[` + strings.TrimSuffix(rows.String(), ",") + `]}`
	}
	notes := func(user string, n int) string {
		note := strings.Repeat("é", 740)
		var rows strings.Builder
		for i := range 10_000 {
			fmt.Fprintf(&rows, `{"correction_id":"00000000-0000-4000-8000-%06d%06d","user_id":%q,"date":"2026-03-09","delta":1,"note":%q},`,
				n, i, user, note)
		}
		return `{"step_corrections":[` + strings.TrimSuffix(rows.String(), ",") + `]}`
	}
	for _, test := range []struct {
		name   string
		memory int // MiB, of the container
		body   func(user string, n int) string
	}{
		{"the largest", 512, notes},
		{"9,000 days of steps", 128, steps},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, cmd, kill := serveIn(t, program, test.memory, "CONNECT_OPERATOR_TOKEN="+token)
			defer kill()
			send := func(method, path, body string) (status int, answer string) {
				request, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.private+path, strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				request.Header.Set("Authorization", "Bearer "+token)
				request.Header.Set("Content-Type", "application/json")
				response, err := http.DefaultClient.Do(request)
				if err != nil {
					return 0, err.Error()
				}
				defer response.Body.Close()
				text, _ := io.ReadAll(response.Body)
				return response.StatusCode, string(text)
			}
			var bodies, users []string
			for n := range 8 {
				user := fmt.Sprintf("3f0a4bd6-9d5c-4d8a-9a53-7d1f6f1f8a%02d", n)
				users = append(users, fmt.Sprintf(`{"user_id":%q,"email":"u%d@example.com","timezone":"UTC","registered_on":"2026-01-31"}`, user, n))
				bodies = append(bodies, test.body(user, n))
			}
			if status, answer := send(http.MethodPut, "/operator/v1/users", `{"users":[`+strings.Join(users, ",")+`]}`); status != http.StatusOK {
				t.Fatalf("users: %d %s", status, answer)
			}
			var senders sync.WaitGroup
			for _, body := range bodies {
				senders.Go(func() {
					status, answer := http.StatusServiceUnavailable, ""
					for began := time.Now(); time.Since(began) < wait.Limit; { // a busy machine exceeds the time of a request, and nothing is stored
						if status, answer = send(http.MethodPost, "/operator/v1/activity", body); status < http.StatusInternalServerError {
							break
						}
					}
					if status != http.StatusOK {
						t.Errorf("%d %.300s", status, answer)
					}
				})
			}
			senders.Wait()
			most := peak(t, cmd)
			t.Logf("bodies of %d kB: %d MiB at most", len(bodies[0])>>10, most)
			if most > test.memory {
				t.Errorf("%d MiB at most, in a container of %d MiB", most, test.memory)
			}
		})
	}
}

// buildReleased builds the program without the race detector, which takes memory of its own.
func buildReleased(t *testing.T) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "connect-svc")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return program
}

// serveIn runs the program with the memory limit of a container, in MiB, until kill.
func serveIn(t *testing.T, program string, container int, env ...string) (s *service, cmd *exec.Cmd, kill func()) {
	t.Helper()
	cmd = exec.CommandContext(t.Context(), program, "serve")
	cmd.Env = with(allSettings(t, pgtest.New(t)), append(env, fmt.Sprintf("GOMEMLIMIT=%dKiB", container*1024*9/10))...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s = new(service)
	ended := s.watch(t, stderr)
	return s, cmd, func() {
		_ = cmd.Process.Kill()
		<-ended
		_ = cmd.Wait() // it was killed
	}
}

var peakMemory = regexp.MustCompile(`(?m)^VmHWM:\s+(\d+) kB$`)

// peak is the most that a process has had in memory, in MiB.
func peak(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	found := peakMemory.FindSubmatch(text)
	if found == nil {
		t.Fatalf("no peak in %s", text)
	}
	kilobytes, err := strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return kilobytes >> 10
}
