package postgres

import "net"

// hungUp is false on Windows, where a socket cannot be looked at without reading from it. So a statement that meets a restart of
// PostgreSQL may fail there that would succeed elsewhere. Windows is for the sandbox and the demo, whose database stays.
func hungUp(net.Conn) bool { return false }
