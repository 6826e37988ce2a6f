package partner

import (
	"sync"

	"connect-svc/internal/fairqueue"
	"connect-svc/internal/oauth"
)

// callers gives each client a line of its own in the queue for the database, once its credentials were found to be right.
// Before that it shares one with all who only say who they are: so nobody can fill the line of another, or have many.
type callers struct {
	mu    sync.Mutex
	right map[oauth.Credentials]struct{}
}

// maxCallers bounds the memory of secrets that were replaced long ago.
const maxCallers = 10_000

// name is the line of a client.
func (c *callers) name(client oauth.Credentials) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, right := c.right[client]; right {
		return client.ClientID.String()
	}
	return fairqueue.Unknown
}

// learn what an act has found out.
func (c *callers) learn(client oauth.Credentials, right bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !right {
		delete(c.right, client)
		return
	}
	if c.right == nil || len(c.right) >= maxCallers {
		c.right = map[oauth.Credentials]struct{}{}
	}
	c.right[client] = struct{}{}
}
