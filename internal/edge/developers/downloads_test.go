package developers

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/testing/wait"
)

const (
	bigName = "connect-svc_linux_amd64"
	bigSize = 1 << 30
)

// bigPrograms hands out a program that nobody finishes to download.
func bigPrograms() *Programs {
	return &Programs{
		open:      func(string) (fs.File, error) { return bigFile{io.NewSectionReader(zeros{}, 0, bigSize)}, nil },
		sums:      func() ([]byte, error) { return []byte(strings.Repeat("0", 64) + "  " + bigName + "\n"), nil },
		downloads: newDownloads(),
	}
}

type bigFile struct{ *io.SectionReader }

func (bigFile) Stat() (fs.FileInfo, error) { return fs.Stat(files, "pages/index.md") } // a regular file
func (bigFile) Close() error               { return nil }

type zeros struct{}

func (zeros) ReadAt(p []byte, _ int64) (int, error) {
	clear(p)
	return len(p), nil
}

// caller takes a download at a rate, in the time of a bubble.
type caller struct {
	*httptest.ResponseRecorder
	leaves  <-chan struct{}
	rate    int // bytes a second; 0: whatever comes
	taken   atomic.Int64
	broken  chan struct{} // closed when the server breaks off
	aborted chan struct{} // closed when the handler has ended without the whole
}

func (c *caller) Write(p []byte) (int, error) {
	if c.Code != http.StatusOK {
		return c.ResponseRecorder.Write(p)
	}
	if c.rate > 0 {
		select {
		case <-time.After(time.Duration(len(p)) * time.Second / time.Duration(c.rate)):
		case <-c.broken:
			return 0, errors.New("broken off")
		case <-c.leaves:
			return 0, errors.New("left")
		}
	}
	c.taken.Add(int64(len(p)))
	return len(p), nil
}

func (*caller) SetReadDeadline(time.Time) error { return nil }

func (c *caller) SetWriteDeadline(end time.Time) error {
	if end.Before(time.Now()) {
		close(c.broken)
	}
	return nil
}

// begun begins a download, and waits until it has a place or is refused.
func begun(t *testing.T, programs *Programs, network, rate int) *caller {
	t.Helper()
	return asked(t, programs, ProgramsPath+bigName, network, rate)
}

func asked(t *testing.T, of http.Handler, path string, network, rate int) *caller {
	t.Helper()
	c := &caller{ResponseRecorder: httptest.NewRecorder(), leaves: t.Context().Done(), rate: rate, broken: make(chan struct{}), aborted: make(chan struct{})}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	handler := telemetry.Requests(slog.New(slog.DiscardHandler), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		telemetry.EventOf(r.Context()).Network = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(network)}), 32)
		of.ServeHTTP(w, r)
	}))
	go func() {
		defer func() {
			if recover() == any(http.ErrAbortHandler) {
				close(c.aborted)
			}
		}()
		handler.ServeHTTP(c, r)
	}()
	synctest.Wait()
	return c
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// atRate begins downloads of networks at a rate, and has them run for a while.
func atRate(t *testing.T, programs *Programs, networks, each, rate int, d time.Duration) (all []*caller) {
	t.Helper()
	for network := range networks {
		for range each {
			c := begun(t, programs, network, rate)
			if c.Code != http.StatusOK {
				t.Fatalf("download %d: %d", len(all), c.Code)
			}
			all = append(all, c)
		}
	}
	<-time.After(d)
	synctest.Wait()
	return all
}

func brokenOf(all []*caller) (broken []int) {
	for i, c := range all {
		if isClosed(c.broken) && isClosed(c.aborted) {
			broken = append(broken, i)
		}
	}
	return broken
}

// All downloads together have a rate, of which a network with one has a good part beside a network with many.
func TestDownloadsShareTheRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		programs := bigPrograms()
		one := begun(t, programs, 200, 0)
		many := atRate(t, programs, 1, maxOfNetwork, 0, 10*time.Second)
		ofMany := int64(0)
		for _, c := range many {
			ofMany += c.taken.Load()
		}
		all := one.taken.Load() + ofMany
		if all > 10*maxRate+maxBurst || all < 9*maxRate || one.taken.Load() < all/4 || ofMany < all/4 {
			t.Errorf("one network took %d, another one %d with %d downloads", one.taken.Load(), ofMany, len(many))
		}
	})
}

// All that read the site have a rate together. A network that reads one file waits for none that reads many. Each has a part of the places.
func TestPagesShareTheRate(t *testing.T) {
	t.Parallel()
	site := *newSite(t)
	size := int64(len(site.files["openapi.yaml"].Content))
	synctest.Test(t, func(t *testing.T) {
		site.pace = newPace()
		site.pace.rate.AllowN(time.Now(), maxBurst) // the next bytes wait
		var all []*caller
		read := func(network, n int) {
			for range n {
				all = append(all, asked(t, &site, Path+"openapi.yaml", network, 0))
			}
		}
		read(1, maxHere+1)
		if c := all[maxHere]; c.Code != http.StatusServiceUnavailable || c.Header().Get("Retry-After") == "" {
			t.Errorf("a network with all its places gets %d %v", c.Code, c.Header())
		}
		for network := 2; network*maxHere < maxReaders; network++ {
			read(network, maxHere)
		}
		read(200, 1)
		one := all[len(all)-1]
		for len(all) <= maxReaders { // with the one that was refused
			read(10+len(all), 1)
		}
		if c := asked(t, &site, Path, 200, 0); c.Code != http.StatusServiceUnavailable {
			t.Errorf("beside all that may read, a second one of a network gets %d", c.Code)
		}
		<-time.After(time.Second / 4)
		sent := int64(0)
		for _, c := range all {
			sent += c.taken.Load()
		}
		if one.taken.Load() != size || sent > maxRate/4 || sent < maxRate/5 {
			t.Errorf("one network took %d of %d, all %d", one.taken.Load(), size, sent)
		}
		<-time.After(time.Minute)
		if c := asked(t, &site, Path, 1, 0); c.Code != http.StatusOK {
			t.Errorf("when all have read: %d", c.Code)
		}
		<-time.After(time.Minute)
	})
}

// A few networks whose readers take nothing do not keep the site from others: one that has no reader gets a place, up to a bound.
func TestReadersWhoTakeNothing(t *testing.T) {
	t.Parallel()
	site := *newSite(t)
	synctest.Test(t, func(t *testing.T) {
		site.pace = newPace()
		for n := range maxReaders {
			asked(t, &site, Path+"openapi.yaml", n/maxHere, 1)
		}
		other := asked(t, &site, Path+"openapi.yaml", 200, 0)
		<-time.After(time.Second)
		if size := int64(len(site.files["openapi.yaml"].Content)); other.Code != http.StatusOK || other.taken.Load() != size {
			t.Errorf("another network gets %d, and %d bytes of %d", other.Code, other.taken.Load(), size)
		}
		for n := range maxReaders {
			asked(t, &site, Path+"openapi.yaml", 100+n, 1)
		}
		for _, network := range []int{0, 100, 200} {
			if c := asked(t, &site, Path, network, 0); c.Code != http.StatusServiceUnavailable {
				t.Errorf("beside all that may read, network %d gets %d", network, c.Code)
			}
		}
	})
}

// A network has some of the places. Its slow downloads give way to its own next one, and to nobody else while there is room.
func TestDownloadsOfANetwork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		programs := bigPrograms()
		all := atRate(t, programs, 1, maxOfNetwork-1, 2*leastRate, time.Minute)
		all = append(all, begun(t, programs, 0, 1))
		if c := begun(t, programs, 0, 0); c.Code != http.StatusServiceUnavailable || c.Header().Get("Retry-After") == "" || c.Header().Get("ETag") != "" {
			t.Errorf("nobody is known to be slow: %d %v", c.Code, c.Header())
		}
		<-time.After(2 * patience)
		if c := begun(t, programs, 1, 0); c.Code != http.StatusOK || len(brokenOf(all)) != 0 {
			t.Errorf("there is room for another network: %d, broken off %v", c.Code, brokenOf(all))
		}
		if c := begun(t, programs, 0, 0); c.Code != http.StatusOK || fmt.Sprint(brokenOf(all)) != fmt.Sprint([]int{len(all) - 1}) {
			t.Errorf("the slow one gives way: %d, broken off %v", c.Code, brokenOf(all))
		}
	})
}

// Without a place, the slowest download gives way if its caller takes less than the least rate. A wait for others is not its caller's.
func TestSlowDownloadsGiveWay(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		rate int // of all but the first
		slow int // of the first
		way  bool
	}{
		"all have the least rate":        {rate: 2 * leastRate, slow: leastRate * 5 / 4},
		"all wait for the rate of all":   {},
		"a caller takes a little less":   {rate: 2 * leastRate, slow: leastRate / 2, way: true},
		"a caller takes next to nothing": {rate: 2 * leastRate, slow: 1, way: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				programs := bigPrograms()
				first := begun(t, programs, 200, test.slow)
				all := append(atRate(t, programs, maxDownloads-1, 1, test.rate, 30*time.Second), first)
				c := begun(t, programs, 201, 0)
				if got := c.Code == http.StatusOK; got != test.way || got != isClosed(first.aborted) || len(brokenOf(all)) > 1 {
					t.Errorf("%d, broken off %v", c.Code, brokenOf(all))
				}
			})
		})
	}
}

// Few networks cannot take all places, however fast they are: of one that has the most, the newest download gives way to another network.
func TestNetworksShareThePlaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		programs := bigPrograms()
		all := atRate(t, programs, maxDownloads/maxOfNetwork, maxOfNetwork, 0, time.Second)
		for range maxOfNetwork - 1 {
			if c := begun(t, programs, 200, 0); c.Code != http.StatusOK {
				t.Fatalf("a network with less than the others: %d, broken off %v", c.Code, brokenOf(all))
			}
		}
		broken := brokenOf(all)
		if c := begun(t, programs, 200, 0); c.Code != http.StatusServiceUnavailable || len(broken) != maxOfNetwork-1 {
			t.Errorf("it has as many as the others: %d, broken off %v", c.Code, broken)
		}
		for _, i := range broken {
			if i%maxOfNetwork != maxOfNetwork-1 {
				t.Errorf("%d is not the newest of its network", i)
			}
		}
	})
}

// A download outlasts the server's own limits. A caller that goes away leaves its place. One that gives way sees that its answer is cut, and
// goes on with a range.
func TestDownloadsOnAConnection(t *testing.T) {
	t.Parallel()
	for _, http2 := range []bool{false, true} {
		t.Run(fmt.Sprint("HTTP/2 ", http2), func(t *testing.T) {
			t.Parallel()
			programs := bigPrograms()
			server := httptest.NewUnstartedServer(telemetry.Requests(slog.New(slog.DiscardHandler), programs))
			if server.EnableHTTP2 = http2; http2 {
				server.StartTLS()
			} else {
				server.Config.WriteTimeout = 1 // nanosecond, which would end a handshake of TLS
				server.Start()
			}
			t.Cleanup(server.Close)
			get := func(part string) *http.Response {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+ProgramsPath+bigName, nil)
				if err != nil {
					t.Fatal(err)
				}
				if part != "" {
					r.Header.Set("Range", part)
					r.Header.Set("If-Range", `"`+strings.Repeat("0", 64)+`"`)
				}
				answer, err := server.Client().Do(r)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = answer.Body.Close() })
				return answer
			}
			running := func() []*download {
				programs.downloads.mu.Lock()
				defer programs.downloads.mu.Unlock()
				return programs.downloads.running
			}
			var answers []*http.Response
			for range maxOfNetwork {
				answers = append(answers, get(""))
			}
			if _, err := io.CopyN(io.Discard, answers[0].Body, 1<<20); err != nil {
				t.Errorf("in spite of the server's limit: %v", err)
			}
			if answer := ask(t, programs, http.MethodGet, ProgramsPath+bigName); answer.Code != http.StatusServiceUnavailable {
				t.Errorf("no place: %d", answer.Code)
			}
			for _, name := range []string{bigName, sumsName} { // take none
				if answer := ask(t, programs, http.MethodHead, ProgramsPath+name); answer.Code != http.StatusOK {
					t.Errorf("the head of %s: %d", name, answer.Code)
				}
			}
			late := running()[3]
			programs.downloads.mu.Lock()
			late.late = time.Hour
			programs.downloads.mu.Unlock()
			rest := get(fmt.Sprintf("bytes=%d-", bigSize-5))
			if body, err := io.ReadAll(rest.Body); rest.StatusCode != http.StatusPartialContent || !bytes.Equal(body, make([]byte, 5)) {
				t.Errorf("the rest: %d %q %v", rest.StatusCode, body, err)
			}
			if n, err := io.Copy(io.Discard, answers[3].Body); err == nil || n >= bigSize {
				t.Errorf("%d bytes of the one that gave way: %v", n, err)
			}
			for _, answer := range answers {
				_ = answer.Body.Close()
			}
			wait.Until(t, "the places are free", func() bool { return len(running()) == 0 })
		})
	}
}
