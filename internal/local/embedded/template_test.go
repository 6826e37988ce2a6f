package embedded

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"testing"
)

// copies starts servers on copies at the same time, and returns them. The template goes with the test.
func copies(t *testing.T, name string, n int, prepare func(context.Context, string) error) []*Server {
	t.Helper()
	servers, errs := make([]*Server, n), make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { servers[i], errs[i] = StartCopy(t.Context(), Config{}, name, prepare) })
	}
	all.Wait()
	for _, server := range servers {
		if server != nil {
			t.Cleanup(func() { _ = server.Stop() })
		}
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	template, err := servers[0].place.templateOf(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = os.RemoveAll(template), os.Remove(template+".lock") })
	return servers
}

// Servers that start at the same time make one template. Each has a copy of its own.
func TestCopies(t *testing.T) {
	t.Parallel()
	var prepared atomic.Int32
	name := rand.Text()
	servers := copies(t, name, 3, func(_ context.Context, url string) error {
		prepared.Add(1)
		execute(t, url, "create table kept as select 42 as n")
		return nil
	})
	execute(t, servers[0].URL(), "update kept set n = 7")
	for i, want := range []int{7, 42, 42} {
		if got := query[int](t, servers[i].URL(), "select n from kept"); got != want {
			t.Errorf("copy %d has %d, want %d", i, got, want)
		}
	}
	later := copies(t, name, 1, func(context.Context, string) error { return errors.New("prepared again") })
	if got := query[int](t, later[0].URL(), "select n from kept"); got != 42 || prepared.Load() != 1 {
		t.Errorf("a later copy has %d, and the template was made %d times", got, prepared.Load())
	}
}

// If a template cannot be kept, a server begins with a new database at once.
func TestCopyWhereNothingCanBeKept(t *testing.T) {
	t.Parallel()
	name := rand.Text()
	first := open(t, Config{Ephemeral: true})
	template, err := first.place.templateOf(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(template+".lock", 0o755); err != nil { // a directory cannot be locked
		t.Fatal(err)
	}
	server := copies(t, name, 1, func(context.Context, string) error { return errors.New("prepared") })[0]
	if !query[bool](t, server.URL(), "select true") {
		t.Error("it does not answer")
	}
}

// Without a template a server begins with a new database, and leaves nothing that looks like a template.
func TestCopyWithoutTemplate(t *testing.T) {
	t.Parallel()
	name := rand.Text()
	server := copies(t, name, 1, func(_ context.Context, url string) error {
		execute(t, url, "create table half as select 1 as n")
		return errors.New("it fails")
	})[0]
	if !query[bool](t, server.URL(), "select to_regclass('half') is null") {
		t.Error("it has what a failed preparation left")
	}
	template, err := server.place.templateOf(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{template, template + ".new"} {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s is there", path)
		}
	}
}
