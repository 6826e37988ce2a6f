package pages

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"connect-svc/internal/domain/account"
	"connect-svc/internal/edge/pages/chromium"
	"connect-svc/internal/foundation/brand"
	"connect-svc/internal/foundation/locale"
)

// plan is how the pages of the preview are measured: each at all widths, all sizes of letters, and in all schemes.
type plan struct {
	Pages      []string // paths, without the first slash
	Widths     []int    // in pixels
	Scales     []int    // of letters, in percent
	Schemes    []string
	AllowWidth int // at which Allow must be within the height
	Height     int
}

// everything is the plan for [Check]. 390 x 664 is what Safari shows with its bars on a phone of today.
func everything(tags []string) plan {
	p := plan{Widths: []int{320, 390, 1280}, Scales: []int{100, 200}, Schemes: []string{"light", "dark"}, AllowWidth: 390, Height: 664}
	for _, tag := range tags {
		for _, s := range samples() {
			p.Pages = append(p.Pages, tag+"/"+s.Name)
		}
		for _, email := range account.Samples {
			p.Pages = append(p.Pages, tag+"/"+email.Name)
		}
	}
	return p
}

// maxCheck is the longest time that a check takes.
const maxCheck = 10 * time.Minute

// Check measures every page and email of a preview in a browser of this machine: in every language, at 320, 390 and 1280 px, with
// letters of 100 and 200 %, in light and in dark. It returns what is wrong, and how many pages it has measured. Errors: see
// [chromium.Show].
func Check(ctx context.Context, of brand.Brand, texts *locale.Catalogue) (problems []string, measured int, err error) {
	if texts == nil {
		texts = locale.Default()
	}
	p := everything(texts.Tags())
	problems, err = check(ctx, of, texts, p)
	return problems, len(p.Pages), err
}

func check(ctx context.Context, of brand.Brand, texts *locale.Catalogue, p plan) (problems []string, err error) {
	preview, err := Preview(of, texts)
	if err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, maxCheck, errors.New("the browser takes longer than 10 minutes"))
	defer cancel()
	found, end := make(chan string), make(chan string, 1)
	sent := func(to chan string) http.HandlerFunc {
		return func(_ http.ResponseWriter, r *http.Request) {
			text, _ := io.ReadAll(io.LimitReader(r.Body, 4<<10))
			select {
			case to <- strings.Join(strings.Fields(string(text)), " "):
			case <-ctx.Done():
			}
		}
	}
	mux := http.NewServeMux()
	mux.Handle("/", preview)
	mux.HandleFunc("GET /check/plan", func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(p) })
	mux.HandleFunc("GET /check/faults.js", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, chromium.Faults) })
	mux.Handle("POST /check/found", sent(found))
	mux.Handle("POST /check/end", sent(end))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	defer server.Close()
	go func() { _ = server.Serve(listener) }() // until it is closed

	ended := make(chan error, 1)
	go func() { ended <- chromium.Show(ctx, fmt.Sprintf("http://%s/preview/check.html", listener.Addr())) }()
	for {
		select {
		case problem := <-found:
			problems = append(problems, problem)
		case fault := <-end:
			cancel()
			if err := <-ended; err != nil || fault != "" {
				return nil, cmp.Or(err, fmt.Errorf("the pages cannot be measured: %s", fault))
			}
			slices.Sort(problems)
			return problems, nil
		case err := <-ended:
			if err == nil {
				err = context.Cause(ctx)
			}
			return nil, err
		}
	}
}
