package listener

import (
	"cmp"
	"container/heap"
	"container/list"
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"

	"connect-svc/internal/foundation/network"
)

// connectionMemory is what a connection costs, with TLS, one request and its garbage: 34 to 48 kB were measured, and the kernel needs a
// few. Another request on a connection of HTTP/2 costs 27 kB.
const connectionMemory = 48 << 10

// Places returns how many connections a listener may have if they may use so many bytes, and half of the files that the process may open.
func Places(memory int64) int { return placesOf(memory, openFiles()) }

// placesOf is [Places]; 0 files: unknown.
func placesOf(memory int64, files uint64) int {
	most := memory / connectionMemory
	if files > 0 {
		most = min(most, int64(min(files, 1<<40))/2)
	}
	return int(max(most, 64))
}

// connections are those that a listener has open. Each takes a place, and so does each request on it beside another. There are so many
// places in all, and one network may take half. If there is none, a new connection or request replaces the connection that has been idle
// for the longest: of its own network, if that has half, otherwise of the network that has the most. If none is idle, the new one is
// refused. A connection is idle while it has no request, new ones included. A trusted proxy carries the requests of many networks, so
// each of its connections counts as a network of its own.
type connections struct {
	proxies network.Proxies

	mu       sync.Mutex
	networks map[netip.Prefix]*peers
	idle     idlePeers
	turn     uint64 // how often a connection has become idle
	Counts
}

// Counts of a listener, for metrics.
type Counts struct {
	Open     int
	Places   int    // that may be taken
	Replaced uint64 // idle connections, closed for something new
	Refused  uint64 // new connections and requests, because none was idle

	taken  int // places: one of each connection, and one of each request beside another of its connection
	unread int // connections with a request that may not have been read: new ones, for example
}

// peers are the connections of a network.
type peers struct {
	proxy   bool
	network netip.Prefix // the zero value: of a proxy, or unknown
	taken   int          // places, as in Counts
	idle    list.List    // of *connection; the first has been idle for the longest
	place   int          // in idlePeers, if some are idle
}

// boundListener accepts as many connections as there is room for.
type boundListener struct {
	net.Listener
	connections *connections
}

// Accept implements [net.Listener].
func (l boundListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if admitted := l.connections.admit(conn); admitted != nil {
			return admitted, nil
		}
		_ = conn.Close()
	}
}

func newConnections(places int, proxies network.Proxies) *connections {
	return &connections{Counts: Counts{Places: places}, proxies: proxies, networks: map[netip.Prefix]*peers{}}
}

// admit gives a new connection a place. It returns nil if the connection is refused.
func (c *connections) admit(conn net.Conn) *connection {
	b, replaced := c.add(conn)
	if replaced != nil {
		_ = replaced.Conn.Close() // not by TLS, which would wait until the caller has read that
	}
	return b
}

func (c *connections) add(conn net.Conn) (b, replaced *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	peer, _ := netip.ParseAddrPort(conn.RemoteAddr().String())
	p := &peers{proxy: c.proxies.Trust(peer.Addr())}
	if !p.proxy {
		p.network = network.Of(peer.Addr())
		p = cmp.Or(c.networks[p.network], p)
	}
	replaced, fits := c.makeRoom(p)
	if !fits {
		return nil, nil
	}
	b = &connection{Conn: conn, of: c, peers: p, unread: true}
	if !p.proxy {
		b.pace = new(pace)
	}
	if p.network.IsValid() {
		c.networks[p.network] = p
	}
	c.Open++
	c.unread++
	c.take(p, 1)
	c.setIdle(b, true)
	return b, replaced
}

// makeRoom reports whether there is a place for one of p. It may have to close an idle connection for it, which it returns.
func (c *connections) makeRoom(p *peers) (replaced *connection, fits bool) {
	switch {
	case p.taken >= (c.Places+1)/2:
		replaced = p.longestIdle()
	case c.taken >= c.Places && len(c.idle) > 0:
		replaced = c.idle[0].longestIdle()
	case c.taken < c.Places:
		return nil, true
	}
	if replaced == nil {
		c.Refused++
		return nil, false
	}
	c.Replaced++
	c.remove(replaced)
	return replaced, true
}

// take takes places, or gives them back.
func (c *connections) take(p *peers, places int) {
	c.taken += places
	p.taken += places
	if p.idle.Len() > 0 {
		heap.Fix(&c.idle, p.place)
	}
	if p.taken == 0 {
		delete(c.networks, p.network)
	}
}

func (c *connections) remove(b *connection) {
	b.closed = true
	c.Open--
	c.setUnread(b, false)
	c.setIdle(b, false)
	c.take(b.peers, -1)
}

func (c *connections) setUnread(b *connection, unread bool) {
	if b.unread != unread {
		b.unread = unread
		c.unread += map[bool]int{true: 1, false: -1}[unread]
	}
}

// setIdle keeps the order of those that are idle.
func (c *connections) setIdle(b *connection, idle bool) {
	p := b.peers
	before := p.idle.Len()
	if b.idle != nil {
		p.idle.Remove(b.idle)
		b.idle = nil
	}
	if idle {
		c.turn++
		b.since = c.turn
		b.idle = p.idle.PushBack(b)
	}
	switch after := p.idle.Len(); {
	case before == 0 && after > 0:
		heap.Push(&c.idle, p)
	case before > 0 && after == 0:
		heap.Remove(&c.idle, p.place)
	case after > 0:
		heap.Fix(&c.idle, p.place)
	}
}

// observe follows the requests of connections. It is a [http.Server.ConnState].
func (c *connections) observe(conn net.Conn, state http.ConnState) {
	b := underTLS(conn)
	if b == nil || state != http.StateActive && state != http.StateIdle {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !b.closed {
		c.setUnread(b, state == http.StateActive)
		c.setIdle(b, state == http.StateIdle)
	}
}

type noPlaceKey struct{}

// WithoutPlace marks the context of a request that got no place.
func WithoutPlace(ctx context.Context) context.Context {
	return context.WithValue(ctx, noPlaceKey{}, true)
}

// GotNoPlace reports whether there was no place for a request (see [Config.Places]). Its handler refuses it.
func GotNoPlace(r *http.Request) bool { return r.Context().Value(noPlaceKey{}) != nil }

// bound counts the requests that run, and marks those that got no place.
func (c *connections) bound(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if b := connectionOf(r); b != nil {
			places, answers := c.begin(b)
			if !answers {
				panic(http.ErrAbortHandler)
			}
			defer c.end(b, places)
			if places < 0 {
				r = r.WithContext(WithoutPlace(r.Context()))
			}
		}
		next.ServeHTTP(w, r)
	})
}

// begin counts a request. The first one of a connection uses the connection's place, and each further one takes another. places is how
// many it took, or -1 if the request is refused. answers is false if the connection was replaced while the request was read: the
// request is dropped, and nothing has been done for it.
func (c *connections) begin(b *connection) (places int, answers bool) {
	replaced, places, answers := c.beginLocked(b)
	if replaced != nil {
		_ = replaced.Conn.Close()
	}
	return places, answers
}

func (c *connections) beginLocked(b *connection) (replaced *connection, places int, answers bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.setUnread(b, false)
	if b.closed {
		return nil, 0, false
	}
	b.running++
	if b.running == 1 {
		return nil, 0, true
	}
	replaced, fits := c.makeRoom(b.peers)
	if !fits {
		return nil, -1, true
	}
	c.take(b.peers, 1)
	return replaced, 1, true
}

func (c *connections) end(b *connection, places int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b.running--
	if places > 0 {
		c.take(b.peers, -places)
	}
}

func (c *connections) counts() Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Counts
}

func (p *peers) longestIdle() *connection {
	if front := p.idle.Front(); front != nil {
		return front.Value.(*connection)
	}
	return nil
}

// idlePeers are the networks with idle connections, as a [heap.Interface]. The first has the most connections.
type idlePeers []*peers

func (h idlePeers) Len() int { return len(h) }

func (h idlePeers) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(h[j].taken, h[i].taken), cmp.Compare(h[i].longestIdle().since, h[j].longestIdle().since)) < 0
}

func (h idlePeers) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

// Push implements [heap.Interface].
func (h *idlePeers) Push(p any) {
	p.(*peers).place = len(*h)
	*h = append(*h, p.(*peers))
}

// Pop implements [heap.Interface].
func (h *idlePeers) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
