package partner

import (
	"sync"

	"connect-svc/internal/fairqueue"
	"connect-svc/internal/oauth"
)

// callers gives a client its own line in the queue for the database once its credentials have proved right. All others share
// one line, so that nobody can fill another client's line, or have many.
type callers struct {
	mu    sync.Mutex
	right map[oauth.Credentials]struct{}
}

// maxCallers bounds the memory that replaced secrets take.
const maxCallers = 10_000

// name is the name of a client's line.
func (c *callers) name(client oauth.Credentials) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, right := c.right[client]; right {
		return client.ClientID.String()
	}
	return fairqueue.Unknown
}

// learn notes what an act has found out.
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
