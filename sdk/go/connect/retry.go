package connect

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

const (
	firstBackoff = 500 * time.Millisecond
	mostBackoff  = 30 * time.Second
	mostAnswer   = 8 << 20 // bytes: a page of 500 activities has about 150 KB
)

// answer is an answer that was read whole.
type answer struct {
	service string // its origin
	status  int
	header  http.Header
	body    []byte
}

// once sends one request and reads the answer, in the time that one request has.
func (c *Client) once(ctx context.Context, send func(context.Context) (*http.Response, error)) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	response, err := send(ctx)
	if err != nil {
		return answer{}, fmt.Errorf("connect: the service cannot be reached: %w", withoutURL(err))
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, mostAnswer))
	if err != nil {
		return answer{}, fmt.Errorf("connect: the answer broke off: %w", err)
	}
	return answer{c.config.BaseURL, response.StatusCode, response.Header, body}, nil
}

// kind is what may be done when a request fails.
type kind int

const (
	readCall  kind = iota // specification 7.4: again after 429, 5xx and failures of the network
	oauthCall             // specification 7.3: again after 5xx; a refresh has a rule of its own
)

// persist sends a request until it succeeds, is refused for good or has been tried often enough. It returns the last answer or the
// last failure.
func (c *Client) persist(ctx context.Context, k kind, send func(context.Context) (*http.Response, error)) (answer, error) {
	var waited time.Duration
	for failures := 0; ; {
		a, err := c.attempt(ctx, k, send)
		if ctx.Err() != nil {
			return a, err
		}
		switch {
		case err != nil && k == readCall, err == nil && a.status >= 500:
			if failures++; failures == c.config.MaxTries {
				return a, err
			}
			pause := c.backoff(failures)
			if notAttempted(a.header) {
				pause = max(pause, min(retryAfter(a.header), c.config.MaxWait))
			}
			if err := c.config.Sleep(ctx, pause); err != nil {
				return a, err
			}
		case err == nil && a.status == http.StatusTooManyRequests && k == readCall:
			if waited += retryAfter(a.header); waited > c.config.MaxWait {
				return a, nil
			}
		default:
			return a, err
		}
	}
}

func (c *Client) attempt(ctx context.Context, k kind, send func(context.Context) (*http.Response, error)) (answer, error) {
	if k != readCall {
		return c.once(ctx, send)
	}
	if err := c.pool.enter(ctx); err != nil {
		return answer{}, err
	}
	defer c.pool.leave()
	a, err := c.once(ctx, send)
	if err == nil {
		c.pool.learn(a)
	}
	return a, err
}

// backoff is the wait after so many failures: twice as long each time, the upper half of it by chance.
func (c *Client) backoff(failures int) time.Duration {
	d := min(firstBackoff<<min(failures-1, 10), mostBackoff)
	return d/2 + c.config.Jitter(d/2)
}

// notAttempted reports whether an error says that the request had no effect, so that its credential may be sent again.
func notAttempted(header http.Header) bool { return header.Get("Connect-Outcome") == "not-attempted" }

// retryAfter is what an answer asks for, in whole seconds, at least one (specification section 8), at most a day.
func retryAfter(header http.Header) time.Duration {
	seconds, err := strconv.Atoi(header.Get("Retry-After"))
	if err != nil || seconds < 1 {
		seconds = 1
	}
	return time.Duration(min(seconds, 24*60*60)) * time.Second
}
