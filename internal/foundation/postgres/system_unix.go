//go:build unix

package postgres

import (
	"errors"
	"net"
	"syscall"
)

// hungUp reports whether the server has closed the connection or has sent something unrequested, as it does when it shuts down. A
// statement on such a connection could seem to have been received.
func hungUp(conn net.Conn) bool {
	if secured, ok := conn.(interface{ NetConn() net.Conn }); ok { // TLS
		conn = secured.NetConn()
	}
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return true
	}
	hung := false
	err = raw.Control(func(fd uintptr) { // Read would wait for a read of the driver in the background
		var first [1]byte
		_, _, err := syscall.Recvfrom(int(fd), first[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		hung = !errors.Is(err, syscall.EAGAIN)
	})
	return hung || err != nil
}

// fileSystem returns what is free for programs that are not root, and all of the file system of a directory, in bytes; 0 if it is not known.
func fileSystem(dir string) (free, size uint64) {
	var stat syscall.Statfs_t
	if syscall.Statfs(dir, &stat) != nil {
		return 0, 0
	}
	unit := uint64(stat.Bsize)
	return uint64(stat.Bavail) * unit, stat.Blocks * unit //nolint:unconvert // it is signed on FreeBSD
}
