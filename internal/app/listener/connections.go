package listener

import (
	"cmp"
	"container/heap"
	"container/list"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

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

// connections are those that a listener has open. Each takes a place, and so does each request on it beside another. Some wait for
// their callers and can be replaced: a connection without a request, also one that is in its handshake or sends the head of a request, and a
// request whose body is not whole. Something new that finds no place replaces what has waited for the longest in the network that has the most
// places, or in its own if that has half of all. A request that is whole works, and is not replaced. At most three quarters of the places work, so that the rest can be
// replaced. One network may have as many requests at work as it leaves free: half if it is alone, a third beside another such network. A
// trusted proxy carries the requests of many networks, so each of its connections counts as a network of its own.
type connections struct {
	proxies network.Proxies

	mu       sync.Mutex
	networks map[netip.Prefix]*peers
	waiting  waitingPeers
	turn     uint64 // how often something has begun to wait
	Counts
}

// Counts of a listener, for metrics.
type Counts struct {
	Open     int
	Places   int    // that may be taken
	Replaced uint64 // connections and requests that waited for their callers, ended for something new
	Refused  uint64 // new connections and requests, because nothing could be replaced or too many requests work

	taken   int // places: one of each connection, and one of each request beside another of its connection
	kept    int // places of connections that have ended, whose memory net/http keeps
	working int // requests
	unread  int // connections with a request that may not have been read: new ones, for example
}

// peers are the connections of a network.
type peers struct {
	proxy   bool
	network netip.Prefix // the zero value: of a proxy, or unknown
	taken   int          // places, as in Counts
	kept    int          // as in Counts
	working int          // requests
	waiting list.List    // of *waiter; the first has waited for the longest
	place   int          // in waitingPeers, if some wait
}

// waiter waits for its caller at times: a connection without a request, or a request whose body is not whole.
type waiter struct {
	of      *connection
	element *list.Element // in peers; nil: it does not wait
	since   uint64        // the turn in which it began to wait

	// Of a request alone.
	stop    func() // ends the reading of the body
	counted bool   // in running
	working bool
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
	var replaced replaced
	defer replaced.close()
	c.mu.Lock()
	defer c.mu.Unlock()
	peer, _ := netip.ParseAddrPort(conn.RemoteAddr().String())
	p := &peers{proxy: c.proxies.Trust(peer.Addr())}
	if !p.proxy {
		p.network = network.Of(peer.Addr())
		p = cmp.Or(c.networks[p.network], p)
	}
	if !c.makeRoom(p, &replaced) {
		return nil
	}
	b := &connection{Conn: conn, of: c, peers: p, unread: true, gone: make(chan struct{})}
	b.idle.of = b
	if !p.proxy {
		b.pace = new(pace)
	}
	if p.network.IsValid() {
		c.networks[p.network] = p
	}
	c.Open++
	c.unread++
	c.take(p, 1)
	c.setWaiting(&b.idle, true)
	return b
}

// replaced are connections to close without the lock, and not by TLS, which would wait until the caller has read that.
type replaced []*connection

func (r *replaced) close() {
	for _, b := range *r {
		_ = b.Conn.Close()
	}
}

// makeRoom reports whether there is a place for one of p. It ends for it what waits, but nothing of a smaller network. If its own network
// has its share, it ends only a connection of that without a request: a network that replaced its own requests would take the memory of all
// (see remove). It closes a connection that has had no whole request since it was idle. On another it ends only the request that waits, so
// that the answers to the others arrive. A network that has no place gets one in any case: where nothing waits, answers are about to leave.
func (c *connections) makeRoom(p *peers, replaced *replaced) bool {
	for {
		// Its share is half of what is not kept of others, and a thirty-second of all in any case.
		full := p.taken+p.kept >= max((c.Places+31)/32, (c.Places-(c.kept-p.kept)+1)/2)
		if !full && c.taken < c.Places {
			return true
		}
		most := p
		if !full && len(c.waiting) > 0 && c.waiting[0].taken > p.taken {
			most = c.waiting[0]
		}
		w := most.longest()
		if full {
			w = p.longestIdle()
		}
		if w == nil && p.taken+p.kept == 0 {
			return true
		}
		if w == nil {
			c.Refused++
			return false
		}
		c.setWaiting(w, false)
		switch b := w.of; {
		case b.closed: // its requests have yet to find out
			continue
		case b.answers:
			c.leave(w)
			w.stop()
		default:
			c.remove(b)
			*replaced = append(*replaced, b)
		}
		c.Replaced++
	}
}

// take takes places, or gives them back.
func (c *connections) take(p *peers, places int) {
	c.taken += places
	p.taken += places
	if p.waiting.Len() > 0 {
		heap.Fix(&c.waiting, p.place)
	}
	c.forget(p)
}

// forget forgets a network that has nothing here. A request may outlast its connection, and the network may be known anew by then.
func (c *connections) forget(p *peers) {
	if p.taken+p.kept+p.working == 0 && c.networks[p.network] == p {
		delete(c.networks, p.network)
	}
}

// remove gives back the places of a connection. If it ends with requests of HTTP/2, its network cannot have them again before the idle
// timeout: when net/http ends their streams, it starts the timer of that anew, which keeps the memory of them all.
func (c *connections) remove(b *connection) {
	b.closed = true
	close(b.gone)
	c.Open--
	c.setUnread(b, false)
	c.setWaiting(&b.idle, false)
	places := max(1, b.running)
	if p := b.peers; b.running > 0 && b.streams {
		p.kept += places
		c.kept += places
		time.AfterFunc(idleTimeout, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			p.kept -= places
			c.kept -= places
			c.forget(p)
		})
	}
	c.take(b.peers, -places)
}

func (c *connections) setUnread(b *connection, unread bool) {
	if b.unread != unread {
		b.unread = unread
		c.unread += map[bool]int{true: 1, false: -1}[unread]
	}
}

// setWaiting keeps the order of those that wait.
func (c *connections) setWaiting(w *waiter, waiting bool) {
	p := w.of.peers
	before := p.waiting.Len()
	if w.element != nil {
		p.waiting.Remove(w.element)
		w.element = nil
	}
	if waiting {
		c.turn++
		w.since = c.turn
		w.element = p.waiting.PushBack(w)
	}
	switch after := p.waiting.Len(); {
	case before == 0 && after > 0:
		heap.Push(&c.waiting, p)
	case before > 0 && after == 0:
		heap.Remove(&c.waiting, p.place)
	case after > 0:
		heap.Fix(&c.waiting, p.place)
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
		b.answers = b.answers && state == http.StateActive
		c.setUnread(b, state == http.StateActive)
		c.setWaiting(&b.idle, state == http.StateIdle)
	}
}

// begin counts a request that has yet to be read. It waits if it has a body. The first one of a connection uses the connection's place,
// and each further one takes another; begin reports false if there is none.
func (c *connections) begin(q *waiter, body, stream bool) bool {
	var replaced replaced
	defer replaced.close()
	c.mu.Lock()
	defer c.mu.Unlock()
	b := q.of
	c.setUnread(b, false)
	if b.running > 0 && !b.closed {
		if !c.makeRoom(b.peers, &replaced) {
			return false
		}
		if b.running > 0 && !b.closed { // making room may have ended those
			c.take(b.peers, 1)
		}
	}
	if !b.closed {
		c.setWaiting(&b.idle, false)
		b.streams = stream
		b.running++
		q.counted = true
		c.setWaiting(q, body)
	}
	return true
}

// work has a request work if it is whole and not too many requests work. open is false if the connection was replaced meanwhile: nothing
// has been done for the request, and no answer would arrive.
func (c *connections) work(q *waiter, whole bool) (works, open bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.setWaiting(q, false)
	b := q.of
	b.answers = true
	if !q.counted || !whole || b.closed {
		return false, !b.closed
	}
	if b.peers.working >= max(1, c.Places*3/4)-c.working {
		c.Refused++
		return false, true
	}
	c.working++
	b.peers.working++
	q.working = true
	return true, true
}

// end is called when a request has been handled. If its body is not whole, the rest may be read before the answer leaves: then the
// connection waits for its caller.
func (c *connections) end(q *waiter, whole bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.setWaiting(q, false)
	b := q.of
	if q.working {
		c.working--
		b.peers.working--
	}
	c.leave(q)
	if b.running == 0 && !b.closed && !whole {
		b.answers = false
		c.setWaiting(&b.idle, true)
	}
	c.forget(b.peers)
}

// leave gives back the place of a request.
func (c *connections) leave(q *waiter) {
	if b := q.of; q.counted && !b.closed {
		q.counted = false
		b.running--
		if b.running > 0 {
			c.take(b.peers, -1)
		}
	}
}

func (c *connections) counts() Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Counts
}

func (p *peers) longest() *waiter {
	if front := p.waiting.Front(); front != nil {
		return front.Value.(*waiter)
	}
	return nil
}

// longestIdle returns the connection without a request that has waited for the longest.
func (p *peers) longestIdle() *waiter {
	for element := p.waiting.Front(); element != nil; element = element.Next() {
		if w := element.Value.(*waiter); w == &w.of.idle {
			return w
		}
	}
	return nil
}

// waitingPeers are the networks of which something waits, as a [heap.Interface]. The first has the most places.
type waitingPeers []*peers

func (h waitingPeers) Len() int { return len(h) }

func (h waitingPeers) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(h[j].taken, h[i].taken), cmp.Compare(h[i].longest().since, h[j].longest().since)) < 0
}

func (h waitingPeers) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

// Push implements [heap.Interface].
func (h *waitingPeers) Push(p any) {
	p.(*peers).place = len(*h)
	*h = append(*h, p.(*peers))
}

// Pop implements [heap.Interface].
func (h *waitingPeers) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
