package postgres

import "net"

// hungUp returns false on Windows, where a program cannot peek at a socket. During a restart of PostgreSQL, a statement may fail
// there that would succeed elsewhere. Windows is for the sandbox and the demo, whose database does not restart.
func hungUp(net.Conn) bool { return false }

// fileSystem returns 0 on Windows.
func fileSystem(string) (free, size uint64) { return 0, 0 }
