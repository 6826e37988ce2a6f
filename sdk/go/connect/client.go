package connect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	connectsdk "connect.invalid/connect-go"
)

// openTimeout bounds the dialling of the service, and the handshake with it, each: less than a request, so that it is known that none left.
const openTimeout = 10 * time.Second

// Config says who the partner is. Fields with a default may be left out.
type Config struct {
	BaseURL      string             // the service: an https origin without a path
	ClientID     string             // from the registration, as are the next two
	ClientSecret string             //
	CallbackURL  string             // exactly as it is registered
	Scopes       []connectsdk.Scope // what users are asked for: all of it or nothing
	Store        Store              // default: [NewMemoryStore], which forgets when the process ends

	// HTTPClient sends the requests, without following redirects. It must not repeat requests by itself. Whether a refresh token has left
	// is told by the hooks of net/http/httptrace, which an [http.Transport] calls, also below a RoundTripper that passes the context on.
	// Default: one of the package's own, which dials and makes the handshake of TLS in 10 s each.
	HTTPClient *http.Client

	Timeout         time.Duration // of one request with its answer; default 30 s
	MaxTries        int           // of one request that fails with a 5xx or by the network; default 4
	MaxWait         time.Duration // the most that one read waits for its own 429s, in sum; default 5 min
	ConcurrentReads int           // reads of this process at a time, at most; default 10

	// Now, Sleep and Jitter are the clock, for tests. Sleep returns early with the error of its context. Jitter returns a
	// duration from 0 to below its argument. Default: the real ones.
	Now    func() time.Time
	Sleep  func(context.Context, time.Duration) error
	Jitter func(time.Duration) time.Duration
}

// Version is that of the module. The requests name it in their User-Agent.
const Version = "1.2.0"

func named(_ context.Context, r *http.Request) error {
	r.Header.Set("User-Agent", "connect-go/"+Version)
	return nil
}

// Client speaks to the service for one registration. Make one for a process with [New]; it is safe for concurrent use.
type Client struct {
	config Config
	api    *connectsdk.Client
	pool   *pool
	// repeats: the requests are sent by net/http itself, and by nothing between it and us.
	repeats bool

	mu       sync.Mutex
	flights  map[string]*flight // refreshes under way in this process, by key
	underWay sync.WaitGroup
}

// New checks the configuration. It sends nothing.
func New(config Config) (*Client, error) {
	base, err := url.Parse(config.BaseURL)
	if err != nil || base.Scheme != "https" || base.Host == "" || base.User != nil || base.RawQuery != "" || base.Fragment != "" ||
		base.Path != "" {
		return nil, errors.New("connect: BaseURL must be an https origin, such as https://connect.example.com")
	}
	callback, err := url.Parse(config.CallbackURL)
	if err != nil || callback.Scheme != "https" || callback.Host == "" {
		return nil, errors.New("connect: CallbackURL must be the registered https address")
	}
	if config.ClientID == "" || config.ClientSecret == "" {
		return nil, errors.New("connect: ClientID and ClientSecret are required")
	}
	if len(config.Scopes) == 0 {
		return nil, errors.New("connect: Scopes must name at least one scope")
	}
	for _, scope := range config.Scopes {
		if !scope.Valid() {
			return nil, fmt.Errorf("connect: unknown scope %q", scope)
		}
	}
	setDefaults(&config)
	api, err := connectsdk.NewClient(config.BaseURL, connectsdk.WithHTTPClient(config.HTTPClient), connectsdk.WithRequestEditorFn(named))
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	_, repeats := cmp.Or(config.HTTPClient.Transport, http.DefaultTransport).(*http.Transport)
	return &Client{config: config, api: api, flights: map[string]*flight{}, pool: newPool(config), repeats: repeats}, nil
}

func setDefaults(config *Config) {
	if config.Store == nil {
		config.Store = NewMemoryStore()
	}
	var client http.Client
	if config.HTTPClient != nil {
		client = *config.HTTPClient
	} else {
		client.Transport = &http.Transport{
			Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 32, IdleConnTimeout: 90 * time.Second,
			DialContext: (&net.Dialer{Timeout: openTimeout}).DialContext, TLSHandshakeTimeout: openTimeout,
		}
	}
	// A redirect would carry a code or a refresh token to another address, and send it twice.
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	config.HTTPClient = &client
	config.Timeout = cmp.Or(max(config.Timeout, 0), 30*time.Second)
	config.MaxTries = cmp.Or(max(config.MaxTries, 0), 4)
	config.MaxWait = cmp.Or(max(config.MaxWait, 0), 5*time.Minute)
	config.ConcurrentReads = cmp.Or(max(config.ConcurrentReads, 0), 10)
	if config.Now == nil {
		config.Now = time.Now
	}
	if config.Sleep == nil {
		config.Sleep = sleep
	}
	if config.Jitter == nil {
		config.Jitter = func(most time.Duration) time.Duration { return rand.N(most) }
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Wait returns when no refresh is under way any more. Call it before the process ends, after the last read began: a
// refresh that is cut off costs the connection. It takes no longer than three minutes.
func (c *Client) Wait() { c.underWay.Wait() }

// basic authenticates the client: both parts form-encoded, then joined (specification 5.1).
func (c *Client) basic(_ context.Context, r *http.Request) error {
	r.SetBasicAuth(url.QueryEscape(c.config.ClientID), url.QueryEscape(c.config.ClientSecret))
	return nil
}

// scopes is the scope parameter.
func (c *Client) scopes() string {
	names := make([]string, len(c.config.Scopes))
	for i, scope := range c.config.Scopes {
		names[i] = string(scope)
	}
	return strings.Join(names, " ")
}
