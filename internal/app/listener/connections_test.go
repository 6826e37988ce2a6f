package listener

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"connect-svc/internal/foundation/network"
)

// knock is a new connection from an address.
type knock struct {
	net.Conn
	from   string
	closed bool
}

func (k *knock) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(k.from), 1))
}

func (k *knock) Close() error {
	k.closed = true
	if k.Conn == nil {
		return nil
	}
	return k.Conn.Close()
}

// modelled is a connection as TestConnections sees it.
type modelled struct {
	*connection
	from     string
	requests []*modelledRequest
	running  int
	answers  bool
	streams  bool // of HTTP/2
	gone     bool
	kept     int // places, after it
}

type modelledRequest struct {
	*waiter
	counted, asked, works, stopped bool
}

// waits is a connection that waits, or a request of it.
type waits struct {
	*modelled
	request *modelledRequest
}

// Something new replaces what has waited for the longest in the network that has the most places, and nothing of a network that has fewer
// than its own: a connection, or the request alone if the connection has others to answer. Whole requests are not ended. The test compares
// each choice with one that looks at everything.
func TestConnections(t *testing.T) {
	t.Parallel()
	const proxy = "10.0.0.1"
	proxies := network.Proxies{netip.MustParsePrefix("10.0.0.0/8")}
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(2, 12).Draw(t, "most")
		c := newConnections(most, proxies)
		var all []*modelled
		var line []waits // in the order in which they began
		want := Counts{Places: most}
		together := func(a, b *modelled) bool {
			return a == b || a.from != proxy && network.Of(netip.MustParseAddr(a.from)) == network.Of(netip.MustParseAddr(b.from))
		}
		taken := func(by func(*modelled) bool) (places int) {
			for _, m := range all {
				if by(m) && !m.gone {
					places += max(1, m.running)
				}
			}
			return places
		}
		working := func(by func(*modelled) bool) (n int) {
			for _, m := range all {
				for _, q := range m.requests {
					if by(m) && q.works {
						n++
					}
				}
			}
			return n
		}
		kept := func(by func(*modelled) bool) (places int) {
			for _, m := range all {
				if by(m) {
					places += m.kept
				}
			}
			return places
		}
		everywhere := func(*modelled) bool { return true }
		leaveLine := func(by func(waits) bool) { line = slices.DeleteFunc(line, by) }
		vanish := func(m *modelled) {
			if m.streams && !m.gone {
				m.kept = m.running
			}
			m.gone = true
			leaveLine(func(w waits) bool { return w.modelled == m })
		}
		// room ends what must be ended for a place, and says whether there is one.
		room := func(newcomer *modelled) bool {
			ofNetwork := func(a *modelled) int { return taken(func(m *modelled) bool { return together(a, m) }) }
			dropped := kept(func(m *modelled) bool { return together(newcomer, m) })
			for {
				full := ofNetwork(newcomer)+dropped >= max(1, (most-kept(everywhere)+dropped+1)/2) // a thirty-second of them is 1
				if !full && taken(everywhere) < most {
					return true
				}
				candidates := slices.DeleteFunc(slices.Clone(line), func(w waits) bool {
					if full {
						return !together(w.modelled, newcomer) || w.request != nil
					}
					return !together(w.modelled, newcomer) && ofNetwork(w.modelled) <= ofNetwork(newcomer)
				})
				if len(candidates) == 0 && ofNetwork(newcomer)+dropped == 0 {
					return true
				}
				if len(candidates) == 0 {
					want.Refused++
					return false
				}
				victim := slices.MaxFunc(candidates, func(a, b waits) int {
					return cmp.Or(cmp.Compare(ofNetwork(a.modelled), ofNetwork(b.modelled)), cmp.Compare(slices.Index(line, b), slices.Index(line, a)))
				})
				want.Replaced++
				if !victim.answers {
					vanish(victim.modelled)
					continue
				}
				victim.request.counted, victim.request.stopped = false, true
				victim.running--
				leaveLine(func(w waits) bool { return w == victim })
			}
		}
		one := func(act func(*rapid.T, *modelled)) func(*rapid.T) {
			return func(t *rapid.T) {
				if len(all) > 0 {
					act(t, rapid.SampledFrom(all).Draw(t, "connection"))
				}
			}
		}
		stopped := map[*waiter]bool{}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				want.Open, want.unread, want.taken, want.kept, want.working = 0, 0, taken(everywhere), kept(everywhere), working(everywhere)
				for _, m := range all {
					if !m.gone {
						want.Open++
					}
					if m.unread {
						want.unread++
					}
					if m.gone != m.closed || m.gone != m.Conn.(*knock).closed {
						t.Fatalf("a connection is closed: %t, want %t", m.closed, m.gone)
					}
					for _, q := range m.requests {
						if stopped[q.waiter] != q.stopped {
							t.Fatalf("a request is stopped: %t, want %t", stopped[q.waiter], q.stopped)
						}
					}
				}
				if got := c.counts(); got != want || want.working > max(1, most*3/4) {
					t.Fatalf("%+v, want %+v", got, want)
				}
				if want.taken+want.kept+want.working == 0 && len(c.networks) > 0 {
					t.Fatal("networks without connections are left")
				}
			},
			"open": func(t *rapid.T) {
				m := &modelled{
					from:    rapid.SampledFrom([]string{"192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2", proxy}).Draw(t, "from"),
					streams: rapid.Bool().Draw(t, "HTTP/2"),
				}
				fits := room(m)
				if m.connection = c.admit(&knock{from: m.from}); (m.connection != nil) != fits {
					t.Fatalf("admitted %t, want %t", m.connection != nil, fits)
				}
				if fits {
					all, line = append(all, m), append(line, waits{m, nil})
				}
			},
			"ask": one(func(t *rapid.T, m *modelled) {
				if m.gone {
					return
				}
				if len(m.requests) == 0 {
					c.observe(m.connection, http.StateActive)
					leaveLine(func(w waits) bool { return w.modelled == m })
				}
				if rapid.Bool().Draw(t, "its head is still being read") {
					return
				}
				q, body := &modelledRequest{waiter: &waiter{of: m.connection}}, rapid.Bool().Draw(t, "body")
				q.stop = func() { stopped[q.waiter] = true }
				fits := m.running == 0 || room(m)
				if fits && !m.gone {
					m.running++
					q.counted = true
					if body {
						line = append(line, waits{m, q})
					}
				}
				if got := c.begin(q.waiter, body, m.streams); got != fits {
					t.Fatalf("it has a place: %t, want %t", got, fits)
				}
				m.requests = append(m.requests, q)
			}),
			"work": one(func(t *rapid.T, m *modelled) {
				for _, q := range m.requests {
					if q.asked {
						continue
					}
					late := rapid.IntRange(0, 9).Draw(t, "late") == 0
					leaveLine(func(w waits) bool { return w.request == q })
					q.asked, m.answers = true, true
					wantWorks := q.counted && !late && !m.gone
					if wantWorks && working(func(other *modelled) bool { return together(m, other) }) >= max(1, most*3/4)-working(everywhere) {
						wantWorks = false
						want.Refused++
					}
					works, open := c.work(q.waiter, !late)
					if works != wantWorks || open == m.gone {
						t.Fatalf("it works: %t, want %t; the connection is open: %t, want %t", works, wantWorks, open, !m.gone)
					}
					q.works = works
					return
				}
			}),
			"end": one(func(t *rapid.T, m *modelled) {
				if len(m.requests) == 0 {
					return
				}
				q, whole := m.requests[0], len(m.requests) > 1 || rapid.Bool().Draw(t, "whole") // HTTP/1 has no others
				c.end(q.waiter, whole)
				m.requests = m.requests[1:]
				leaveLine(func(w waits) bool { return w.request == q })
				if q.counted && !m.gone {
					m.running--
				}
				if m.running == 0 && !m.gone && !whole {
					m.answers = false
					leaveLine(func(w waits) bool { return w.modelled == m && w.request == nil })
					line = append(line, waits{m, nil})
				}
				if len(m.requests) == 0 && !m.gone {
					c.observe(m.connection, http.StateIdle)
					m.answers = false
					leaveLine(func(w waits) bool { return w.modelled == m })
					line = append(line, waits{m, nil})
				}
			}),
			"close": one(func(_ *rapid.T, m *modelled) {
				_, _ = m.Close(), m.Close()
				vanish(m)
			}),
		})
	})
}

// The rules of TestConnections, in one case each.
func TestRoom(t *testing.T) {
	t.Parallel()
	c := newConnections(8, nil)
	admit := func(from byte) *connection { return c.admit(&knock{from: fmt.Sprintf("192.0.2.%d", from)}) }
	ask := func(b *connection, body bool) *waiter {
		q := &waiter{of: b, stop: func() {}}
		c.observe(b, http.StateActive)
		if !c.begin(q, body, false) {
			t.Error("a request has no place")
		}
		return q
	}
	var first [8]*connection
	for n, from := range []byte{1, 1, 1, 1, 2, 3, 7, 8} {
		first[n] = admit(from)
	}
	replaced := func(act string, want ...int) {
		t.Helper()
		for n, b := range first {
			if b.closed != slices.Contains(want, n) {
				t.Errorf("%s: connection %d is closed: %t", act, n, b.closed)
			}
		}
	}
	slow := ask(first[0], true)
	admit(4)
	replaced("a connection of the network with the most", 1) // 0 began to wait for its caller after it
	for _, b := range first[2:4] {
		if works, open := c.work(ask(b, false), true); !works || !open {
			t.Errorf("a whole request: works %t, open %t", works, open)
		}
	}
	admit(5)
	replaced("a request without its body, and none that is whole", 0, 1)
	if works, open := c.work(slow, true); works || open {
		t.Errorf("a request whose connection was replaced: works %t, open %t", works, open)
	}
	if admit(1) != nil {
		t.Error("a network with two places gets a third, instead of another one's only place")
	}
	_ = first[5].Close()
	ask(first[2], true) // beside the one that works
	admit(6)
	replaced("a request beside one that works", 0, 1, 5)
	if got := c.counts(); first[2].running != 1 || got.Open != 8 || got.taken != 8 || got.Refused != 1 {
		t.Errorf("it is not replaced alone: %d run, %+v", first[2].running, got)
	}
	c = newConnections(8, nil)
	for range 6 {
		admit(1)
	}
	if got := c.counts(); got.Open != 4 || got.Replaced != 2 {
		t.Errorf("one network has more than half of the places: %+v", got)
	}
	c = newConnections(4, nil)
	rest := admit(1)
	c.end(ask(rest, false), false) // its body is read after the answer
	admit(1)
	if admit(1); !rest.closed {
		t.Error("a connection of which only the rest of a body is read is not replaced")
	}
	c = newConnections(2, nil)
	for from := range byte(3) {
		b := admit(from)
		if b == nil {
			t.Fatal("the only connection of a network is refused, where nothing waits")
		}
		ask(b, false)
	}
}

// A network that drops connections with their streams has those places again once net/http has forgotten them, and not before. Each such
// network leaves half of the rest to the others, and a small part of all in any case.
func TestDroppedStreamsTakePlaces(t *testing.T) {
	t.Parallel()
	for streams, want := range map[bool][]int{true: {32, 16, 8, 4, 2, 2, 2}, false: {100, 100}} {
		synctest.Test(t, func(t *testing.T) {
			c := newConnections(64, nil)
			drop := func() (admitted []int) {
				for network := range want {
					n := 0
					for range 100 {
						b := c.admit(&knock{from: fmt.Sprintf("192.0.2.%d", network)})
						if b == nil {
							continue
						}
						n++
						q := &waiter{of: b}
						c.begin(q, true, streams)
						_ = b.Close()
						c.work(q, false)
						c.end(q, true)
					}
					admitted = append(admitted, n)
				}
				return admitted
			}
			if got := drop(); !slices.Equal(got, want) {
				t.Errorf("streams %t: connections of each network: %v, want %v", streams, got, want)
			}
			<-time.After(idleTimeout - time.Second)
			if got := drop(); streams && slices.Max(got) > 0 {
				t.Errorf("connections before the idle timeout: %v", got)
			}
			<-time.After(idleTimeout)
			c.mu.Lock()
			known, kept := len(c.networks), c.kept
			c.mu.Unlock()
			if known > 0 || kept > 0 {
				t.Errorf("%d networks are known, and %d places kept", known, kept)
			}
			if got := drop(); !slices.Equal(got, want) {
				t.Errorf("streams %t: connections after the idle timeout: %v, want %v", streams, got, want)
			}
			<-time.After(idleTimeout)
		})
	}
}

// One network may have as many requests at work as it leaves free. Places that do not work are left for connections.
func TestWork(t *testing.T) {
	t.Parallel()
	c := newConnections(32, nil)
	fill := func(from byte) (works int) {
		for range 40 {
			b := c.admit(&knock{from: fmt.Sprintf("192.0.2.%d", from)})
			if b == nil {
				t.Fatalf("a connection of network %d is refused", from)
			}
			c.observe(b, http.StateActive)
			q := &waiter{of: b}
			c.begin(q, false, false)
			if got, open := c.work(q, true); got {
				works++
			} else {
				if !open {
					t.Fatal("a whole request is not answered")
				}
				c.end(q, true)
				c.observe(b, http.StateIdle)
			}
		}
		return works
	}
	var got []int
	for from := range byte(6) {
		got = append(got, fill(from))
	}
	if want := []int{12, 6, 3, 2, 1, 0}; !slices.Equal(got, want) { // of 24
		t.Errorf("at work of each network: %v, want %v", got, want)
	}
}

// A proxy's connection carries many callers: it does not pause for one of them.
func TestProxiesAreNotPaced(t *testing.T) {
	t.Parallel()
	c := newConnections(9, network.Proxies{netip.MustParsePrefix("10.0.0.0/8")})
	for from, paced := range map[string]bool{"10.0.0.1": false, "::ffff:10.0.0.1": false, "192.0.2.1": true} {
		if b := c.admit(&knock{from: from}); (b.pace != nil) != paced {
			t.Errorf("%s: paced %t, want %t", from, b.pace != nil, paced)
		}
	}
}

// The bound comes from the memory and the files that there are.
func TestPlaces(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		memory int64
		files  uint64
		want   int
	}{
		{43 << 20, 1 << 20, 917},
		{512 << 20 * 9 / 10 / 4, 1 << 20, 2457}, // of a container of 512 MiB, as docs/operations.md says
		{512 << 20, 1 << 20, 10_922},
		{512 << 20, 0, 10_922},
		{2 << 30, 1024, 512},
		{2 << 30, 1<<64 - 1, 43_690},
		{256 << 10, 1 << 20, 64},
	} {
		if got := placesOf(test.memory, test.files); got != test.want {
			t.Errorf("%d bytes, %d files: %d, want %d", test.memory, test.files, got, test.want)
		}
	}
}
