//go:build faults

package storm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strconv"
	"strings"
	"sync"

	"github.com/google/uuid"

	"connect-svc/internal/domain/client"
	"connect-svc/internal/foundation/scope"
)

// programs are those that an operator may use at present.
type programs struct {
	mu    sync.RWMutex
	paths []string
}

// are waits for commands that run.
func (p *programs) are(paths ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paths = paths
}

// any is one of them, until it is done.
func (p *programs) any() (path string, done func()) {
	p.mu.RLock()
	return p.paths[rand.IntN(len(p.paths))], p.mu.RUnlock
}

// command has a program do something, as an operator does, and returns what it prints. The error has what the program said.
func (s *storm) command(ctx context.Context, env []string, program string, args ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, program, args...)
	command.Env = env
	output, err := command.Output()
	if failed := new(exec.ExitError); errors.As(err, &failed) {
		if credentials.Match(failed.Stderr) || strings.Contains(string(failed.Stderr), "panic") {
			s.Error("a command panicked, or printed a credential")
		}
		err = fmt.Errorf("%s: %w: %s", strings.Join(args[:2], " "), err, strings.TrimSpace(string(failed.Stderr)))
	}
	return output, err
}

// migrate goes up, or one step down: args are "up", or "down" and "--yes". It needs PostgreSQL itself.
func (s *storm) migrate(ctx context.Context, program string, args ...string) error {
	env := []string{"CONNECT_DATABASE_URL=" + s.database.url(s.database.way)}
	_, err := s.command(ctx, env, program, append([]string{"migrate"}, args...)...)
	return err
}

var plenty = client.Policy{RequestsPerMinute: 1_000_000, Burst: 100_000, ConcurrentReads: 1000}

// register makes a partner with a webhook.
func (s *storm) register(name string, policy client.Policy, more ...string) *partner {
	s.Helper()
	args := []string{
		"client", "create", "--output", "json", "--name", name, "--callback", callback, "--webhook-url", s.receiver.url,
		"--requests-per-minute", strconv.Itoa(policy.RequestsPerMinute), "--burst", strconv.Itoa(policy.Burst),
		"--concurrent-reads", strconv.Itoa(policy.ConcurrentReads),
	}
	args = append(args, more...)
	for _, one := range scope.All.Names() {
		args = append(args, "--scope", one)
	}
	program, done := s.programs.any()
	defer done()
	output, err := s.command(s.Context(), s.env, program, args...)
	if err != nil {
		s.Fatal(err)
	}
	var created struct {
		ID      uuid.UUID `json:"client_id"`
		Secret  string    `json:"client_secret"`
		Webhook string    `json:"webhook_secret"`
	}
	if err := json.Unmarshal(output, &created); err != nil {
		s.Fatal(err)
	}
	s.receiver.trust(s.T, created.Webhook)
	return &partner{created.ID, created.Secret}
}
