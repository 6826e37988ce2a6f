package servers_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/admin/servers"
)

// A server replaces one of its host, or one of its Deployment, that was lost before it started; each server only one.
func TestDown(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	server := func(host string, started, seen time.Duration) servers.Server {
		return servers.Server{ID: uuid.New(), Host: host, StartedAt: now.Add(started), SeenAt: now.Add(seen), Ago: -seen}
	}
	const pod, later, third = "connect-svc-7d9f8b6c5d-bcdfg", "connect-svc-7d9f8b6c5d-x2z4k", "connect-svc-5f6d7c8b9d-zzz99"
	for name, test := range map[string]struct {
		list []servers.Server
		want string
	}{
		"all are up":                     {[]servers.Server{server("a", -time.Hour, 0), server("b", -time.Hour, 0)}, ""},
		"one is lost":                    {[]servers.Server{server("a", -time.Hour, -time.Minute*5), server("b", -time.Hour, 0)}, "a"},
		"its host has another one":       {[]servers.Server{server("a", -time.Hour, -time.Minute*5), server("a", -time.Minute, 0)}, ""},
		"beside one that was there":      {[]servers.Server{server("a", -time.Hour, -time.Minute*5), server("a", -time.Hour, 0)}, "a"},
		"two lost, and one started":      {[]servers.Server{server("a", -time.Hour, -time.Minute*9), server("a", -time.Hour, -time.Minute*5), server("a", -time.Minute, 0)}, "a"},
		"another host started":           {[]servers.Server{server("a", -time.Hour, -time.Minute*5), server("b", -time.Minute, 0)}, "a"},
		"a pod for a pod":                {[]servers.Server{server(pod, -time.Hour, -time.Minute*5), server(later, -time.Minute, 0)}, ""},
		"a pod of the next version":      {[]servers.Server{server(pod, -time.Hour, -time.Minute*5), server(third, -time.Minute, 0)}, ""},
		"a pod that was there":           {[]servers.Server{server(pod, -time.Hour, -time.Minute*5), server(later, -time.Hour, 0)}, pod},
		"a pod for a pod, with ports":    {[]servers.Server{server(pod+":8443", -time.Hour, -time.Minute*5), server(later+":8443", -time.Minute, 0)}, ""},
		"another port of its host":       {[]servers.Server{server("a:8443", -time.Hour, -time.Minute*5), server("a:8444", -time.Minute, 0)}, "a:8443"},
		"one that replaced is lost, too": {[]servers.Server{server("a", -time.Hour, -time.Hour/2), server("a", -time.Minute*9, -time.Minute*5)}, "a a"},
	} {
		var hosts []string
		for _, one := range servers.Down(test.list) {
			hosts = append(hosts, one.Host)
		}
		if got := strings.Join(hosts, " "); got != test.want {
			t.Errorf("%s: %q are down, want %q", name, got, test.want)
		}
	}
}
