package listener

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"testing"

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
	idle     bool
	requests []int // the places that each has taken
}

// A new connection, or a request beside another, replaces the connection that has been idle for the longest: of its own network if that
// has half of all places, otherwise of the network that has the most. None that has a request is closed. The test compares each choice
// with one that looks at all connections.
func TestConnections(t *testing.T) {
	t.Parallel()
	const proxy = "10.0.0.1"
	proxies := network.Proxies{netip.MustParsePrefix("10.0.0.0/8")}
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(2, 12).Draw(t, "most")
		c := newConnections(most, proxies)
		var all []*modelled // in the order in which they became idle
		want := Counts{Places: most}
		together := func(a, b *modelled) bool {
			from, other := a.Conn.(*knock).from, b.Conn.(*knock).from
			return a == b || from != proxy && network.Of(netip.MustParseAddr(from)) == network.Of(netip.MustParseAddr(other))
		}
		taken := func(by func(*modelled) bool) (places int) {
			for _, m := range all {
				if !by(m) {
					continue
				}
				if !m.closed {
					places++
				}
				for _, n := range m.requests {
					places += max(0, n)
				}
			}
			return places
		}
		ofNetwork := func(of *modelled) int { return taken(func(m *modelled) bool { return together(of, m) }) }
		inAll := func() int { return taken(func(*modelled) bool { return true }) }
		// room says which connection something new must replace, if any, and whether it has a place.
		room := func(of *modelled) (victim *modelled, fits bool) {
			candidates, full := slices.Clone(all), inAll() >= most
			if ofNetwork(of) >= (most+1)/2 {
				candidates, full = slices.DeleteFunc(candidates, func(m *modelled) bool { return !together(of, m) }), true
			}
			candidates = slices.DeleteFunc(candidates, func(m *modelled) bool { return !m.idle || m.closed })
			switch {
			case !full:
				return nil, true
			case len(candidates) == 0:
				want.Refused++
				return nil, false
			}
			want.Replaced++
			return slices.MaxFunc(candidates, func(a, b *modelled) int {
				return cmp.Or(cmp.Compare(ofNetwork(a), ofNetwork(b)), cmp.Compare(slices.Index(all, b), slices.Index(all, a)))
			}), true
		}
		replaced := func(t *rapid.T, victim *modelled) {
			if victim == nil {
				return
			}
			if _, answers := c.begin(victim.connection); !victim.Conn.(*knock).closed || answers {
				t.Fatal("another one was closed, or its next request would be answered")
			}
			c.observe(victim, http.StateIdle) // net/http has yet to find out
		}
		one := func(act func(*rapid.T, *modelled)) func(*rapid.T) {
			return func(t *rapid.T) {
				if len(all) == 0 {
					return
				}
				act(t, rapid.SampledFrom(all).Draw(t, "connection"))
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				want.Open, want.taken, want.unread = 0, inAll(), 0
				for _, m := range all {
					if !m.closed {
						want.Open++
					}
					if m.unread {
						want.unread++
					}
				}
				if got := c.counts(); got != want || want.taken > most {
					t.Fatalf("%+v, want %+v", got, want)
				}
				if want.taken == 0 && (len(c.networks) > 0 || len(c.idle) > 0) {
					t.Fatal("networks without connections are left")
				}
			},
			"open": func(t *rapid.T) {
				from := rapid.SampledFrom([]string{"192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2", proxy}).Draw(t, "from")
				m := &modelled{connection: &connection{Conn: &knock{from: from}, closed: true}}
				victim, fits := room(m)
				b := c.admit(m.Conn)
				if (b != nil) != fits {
					t.Fatalf("admitted %t, want %t", b != nil, fits)
				}
				replaced(t, victim)
				if fits {
					all = append(all, &modelled{connection: b, idle: true})
				}
			},
			"ask": one(func(t *rapid.T, m *modelled) {
				if m.closed {
					return
				}
				if len(m.requests) == 0 {
					c.observe(m.connection, http.StateActive)
					m.idle = false
				}
				if rapid.Bool().Draw(t, "is still being read") {
					return
				}
				var victim *modelled
				want := 0
				if len(m.requests) > 0 {
					var fits bool
					victim, fits = room(m)
					want = map[bool]int{true: 1, false: -1}[fits]
				}
				places, answers := c.begin(m.connection)
				if !answers || places != want {
					t.Fatalf("it takes %d places, want %d", places, want)
				}
				replaced(t, victim)
				m.requests = append(m.requests, places)
			}),
			"answer": one(func(_ *rapid.T, m *modelled) {
				if len(m.requests) == 0 {
					return
				}
				c.end(m.connection, m.requests[0])
				m.requests = m.requests[1:]
				if len(m.requests) == 0 && !m.closed {
					c.observe(m.connection, http.StateIdle)
					m.idle = true
					all = append(slices.DeleteFunc(all, func(other *modelled) bool { return m == other }), m)
				}
			}),
			"close": one(func(_ *rapid.T, m *modelled) { _, _ = m.Close(), m.Close() }),
		})
	})
}

// The rules of TestConnections, in one case each.
func TestRoom(t *testing.T) {
	t.Parallel()
	c := newConnections(6, nil)
	admit := func(from byte) *connection { return c.admit(&knock{from: fmt.Sprintf("192.0.2.%d", from)}) }
	for range 4 {
		admit(1)
	}
	if got := c.counts(); got.Open != 3 {
		t.Errorf("one network has %d connections, while half of the places are free", got.Open)
	}
	c = newConnections(6, nil)
	var first [6]*connection
	for n, from := range []byte{1, 1, 1, 2, 2, 3} {
		first[n] = admit(from)
	}
	replaced := func(act string, n int) {
		t.Helper()
		if _, answers := c.begin(first[n]); !first[n].closed || answers {
			t.Errorf("%s does not replace connection %d, or its next request would be answered", act, n)
		}
	}
	admit(1)
	replaced("another of a network with half of the places", 0)
	admit(4)
	replaced("one of a new network", 1) // two of network 1 are left, one of them new, and two of network 2
	c.observe(first[2], http.StateActive)
	if places, answers := c.begin(first[2]); places != 0 || !answers {
		t.Errorf("the first request takes %d places, answered %t", places, answers)
	}
	if places, answers := c.begin(first[2]); places != 1 || !answers {
		t.Errorf("the second request takes %d places, answered %t", places, answers)
	}
	if got := c.counts(); got.Open != 5 || got.taken != 6 {
		t.Errorf("beside two requests of one connection: %+v", got)
	}
	if first[4].closed || first[5].closed {
		t.Error("the only connection of a network was replaced, or one that was idle for less time")
	}
	for n := range 20 {
		if b := admit(byte(100 + n)); b != nil {
			c.observe(b, http.StateActive)
		}
	}
	if got := c.counts(); got.taken != 6 || got.Refused == 0 || first[2].closed {
		t.Errorf("all have requests: %+v, the first of them is closed: %t", got, first[2].closed)
	}
	if places, _ := c.begin(first[2]); places != -1 {
		t.Errorf("a third request takes %d places", places)
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
		{115 << 20, 1 << 20, 2453},
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
