package developers

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/foundation/work"
	"golang.org/x/time/rate"
)

// Bounds of the downloads of a server, and of the site.
const (
	maxDownloads = 64               // at the same time
	maxOfNetwork = 8                // of them for one network
	maxReaders   = 64               // of the site at the same time, and as many that are alone in their network: each holds a place of the server
	maxHere      = 16               // of them in one network
	maxRate      = 8 << 20          // bytes a second of all together, and of the site's; encrypting them takes a tenth of a processor
	maxBurst     = 256 << 10        // bytes; more than [http.ServeContent] writes at once
	leastRate    = 64 << 10         // bytes a second that a caller has to take
	patience     = 5 * time.Second  // by which it may be late
	downloadTime = 10 * time.Minute // after that a download is broken off, and may go on with a range
)

// pace is a rate of bytes. Networks take turns for the next ones, so one that is sent much waits behind itself.
type pace struct {
	turns *work.Queue // one place
	rate  *rate.Limiter

	mu      sync.Mutex
	all     int
	readers map[netip.Prefix]int
}

func newPace() *pace {
	return &pace{turns: work.NewQueue(1, work.Unbounded), rate: rate.NewLimiter(maxRate, maxBurst), readers: map[netip.Prefix]int{}}
}

// enter counts a reader of the site in, and reports whether there was room. Call leave afterwards.
func (p *pace) enter(network netip.Prefix) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if here := p.readers[network]; here >= maxHere || here > 0 && p.all >= maxReaders || p.all >= 2*maxReaders {
		return false
	}
	p.all++
	p.readers[network]++
	return true
}

func (p *pace) leave(network netip.Prefix) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all--
	if p.readers[network]--; p.readers[network] == 0 {
		delete(p.readers, network)
	}
}

// await waits for the turn of the caller of ctx, and for the rate.
func (p *pace) await(ctx context.Context, bytes int) error {
	if err := p.turns.Acquire(ctx); err != nil {
		return err
	}
	defer p.turns.Release()
	return p.rate.WaitN(ctx, bytes)
}

// of is the context of a request, whose caller is its network.
func of(r *http.Request) context.Context {
	return work.WithCaller(r.Context(), work.Caller{Kind: work.Strangers, Name: telemetry.EventOf(r.Context()).Network.String()})
}

// paced is a response at a pace.
type paced struct {
	http.ResponseWriter
	pace    *pace
	context context.Context
}

func (p paced) Write(piece []byte) (int, error) {
	if err := p.pace.await(p.context, len(piece)); err != nil {
		return 0, err
	}
	return p.ResponseWriter.Write(piece)
}

// downloads share places and a pace between networks. A download whose caller takes less than the least rate gives way to a new one that
// finds no place. If none is slow, the network with the most downloads gives way to one that has fewer.
type downloads struct {
	*pace

	mu      sync.Mutex
	running []*download // the one that began first is first
}

// download is the response with a file. Only its caller makes it late: a wait for the other downloads does not count.
type download struct {
	http.ResponseWriter
	all     *downloads
	context context.Context
	cancel  func()
	network netip.Prefix

	// The fields below are guarded by the mutex of all.
	late    time.Duration // how much longer than with the least rate the caller took, up to the write that runs
	writes  time.Time     // when that began; zero: none runs
	gaveWay bool
}

func newDownloads() *downloads { return &downloads{pace: newPace()} }

// begin returns a download with a place, or nil. [downloads.end] returns the place.
func (all *downloads) begin(w http.ResponseWriter, r *http.Request) *download {
	network := telemetry.EventOf(r.Context()).Network
	all.mu.Lock()
	defer all.mu.Unlock()
	if !all.makeRoom(network, time.Now()) {
		return nil
	}
	ctx, cancel := context.WithCancel(of(r))
	d := &download{ResponseWriter: w, all: all, context: ctx, cancel: cancel, network: network}
	d.endAt(time.Now().Add(downloadTime)) // in place of the server's limits, which are short
	all.running = append(all.running, d)
	return d
}

func (d *download) endAt(deadline time.Time) {
	connection := http.NewResponseController(d.ResponseWriter)
	_ = errors.Join(connection.SetReadDeadline(deadline), connection.SetWriteDeadline(deadline))
}

// makeRoom reports whether there is a place for a download of a network.
func (all *downloads) makeRoom(network netip.Prefix, now time.Time) bool {
	networks := map[netip.Prefix][]*download{}
	for _, d := range all.running {
		networks[d.network] = append(networks[d.network], d)
	}
	mine, candidates := networks[network], all.running
	if len(mine) >= maxOfNetwork {
		candidates = mine
	} else if len(all.running) < maxDownloads {
		return true
	}
	slowest := slowestOf(candidates, now)
	if slowest.lateness(now) <= patience {
		most := slices.MaxFunc(slices.Collect(maps.Values(networks)), func(a, b []*download) int { return cmp.Compare(len(a), len(b)) })
		if len(mine) >= maxOfNetwork || len(most) < len(mine)+2 {
			return false
		}
		slowest = slowestOf(most, now)
	}
	slowest.gaveWay = true
	slowest.cancel()
	slowest.endAt(time.Unix(0, 0)) // ends its write; the handler still runs, as it has not called end
	all.remove(slowest)
	return true
}

// slowestOf returns the download that is the latest. Of several, it is the one that began last, which has the least to lose.
func slowestOf(candidates []*download, now time.Time) (slowest *download) {
	for _, d := range candidates {
		if slowest == nil || d.lateness(now) >= slowest.lateness(now) {
			slowest = d
		}
	}
	return slowest
}

func (d *download) lateness(now time.Time) time.Duration {
	if d.writes.IsZero() {
		return d.late
	}
	return d.late + now.Sub(d.writes)
}

// Write waits for the turn of the network, and for the rate of all, before it sends.
func (d *download) Write(piece []byte) (int, error) {
	if err := d.all.await(d.context, len(piece)); err != nil {
		return 0, err
	}
	d.all.mu.Lock()
	d.writes = time.Now()
	d.all.mu.Unlock()
	n, err := d.ResponseWriter.Write(piece)
	d.all.mu.Lock()
	defer d.all.mu.Unlock()
	d.late = max(0, d.lateness(time.Now())-time.Duration(n)*time.Second/leastRate)
	d.writes = time.Time{}
	return n, err
}

// end returns the place of a download, and reports whether it gave way to another one.
func (all *downloads) end(d *download) (gaveWay bool) {
	all.mu.Lock()
	defer all.mu.Unlock()
	d.cancel()
	all.remove(d)
	return d.gaveWay
}

func (all *downloads) remove(d *download) {
	all.running = slices.DeleteFunc(all.running, func(other *download) bool { return other == d })
}
