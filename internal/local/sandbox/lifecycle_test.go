package sandbox

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connect-svc/gen/sandboxapi"
	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/testing/process"
)

// Two at once know nothing of each other, and when one stops nothing of it is left.
func TestSideBySide(t *testing.T) {
	t.Parallel()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	first := start(t, func(c *Config) { c.CAFile = ca })
	second := start(t, func(c *Config) { c.Listen = "localhost:0" })
	if first.described.CaFile != ca || !strings.HasPrefix(second.described.BaseUrl, "https://localhost:") {
		t.Errorf("ca_file %s, base_url %s", first.described.CaFile, second.described.BaseUrl)
	}
	if text, err := os.ReadFile(ca); err != nil || !strings.Contains(string(text), "BEGIN CERTIFICATE") {
		t.Errorf("the authority: %s, %v", text, err)
	}
	for _, r := range []*running{first, second} {
		r.newPartner(t, sandboxapi.KindActive).connect(t)
	}
	database := first.database.Dir()
	if err := first.stop(); err != nil {
		t.Error(err)
	}
	for _, path := range []string{ca, first.dir, database} {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", path, err)
		}
	}
	select {
	case <-first.database.Done():
	default:
		t.Error("PostgreSQL runs")
	}
	for _, address := range []net.Addr{first.public.Addr(), first.private.Addr(), first.receiver.Addr(), first.smtp.Addr(), first.mailPage.Addr()} {
		if err := process.Rebind(func() error {
			l, err := net.Listen("tcp", address.String())
			if err == nil {
				_ = l.Close()
			}
			return err
		}); err != nil {
			t.Errorf("a port is taken: %v", err)
		}
	}
	second.newPartner(t, sandboxapi.KindSparse).connect(t)
	if got := second.send(t, http.DefaultClient, "GET", second.described.MailUrl, "", ""); got.Status != 200 {
		t.Errorf("the caught mail: %d", got.Status)
	}
}

// A sandbox that cannot start says why in one line, and leaves nothing.
func TestCannotStart(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	good := Config{
		Listen: "127.0.0.1:0", PrivateListen: "127.0.0.1:0", CallbackURL: "https://partner.example/callback",
		Logger: telemetry.NewLogger(io.Discard, slog.LevelError),
		Ready:  func(sandboxapi.Sandbox) error { t.Error("it is ready"); return nil },
	}
	for name, change := range map[string]func(*Config){
		"--listen":         func(c *Config) { c.Listen = taken.Addr().String() },
		"--private-listen": func(c *Config) { c.PrivateListen = taken.Addr().String() },
		"--ca-file":        func(c *Config) { c.CAFile = filepath.Join(temporary, "nowhere", "ca.pem") },
		"url must be":      func(c *Config) { c.WebhookURL = "http://partner.example" },
		`client "x\n"`:     func(c *Config) { c.Clients = []Client{{"x\n", "https://partner.example/callback"}} },
	} {
		config := good
		change(&config)
		if err := Run(t.Context(), config); err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Run(ended, good); err != nil {
		t.Errorf("called off: %v", err)
	}
	refused := good
	refused.Ready = func(sandboxapi.Sandbox) error { return io.ErrShortWrite }
	if err := Run(t.Context(), refused); err == nil || !strings.Contains(err.Error(), io.ErrShortWrite.Error()) {
		t.Errorf("nobody to tell: %v", err)
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}
