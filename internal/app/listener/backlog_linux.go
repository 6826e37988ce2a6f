package listener

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// roundTrip is the time from the answer to an attempt to connect until the caller is connected.
const roundTrip = 200 * time.Millisecond

// acceptRest returns when everything has been accepted that was connected to a listener, and the kernel drops further attempts, or when
// ctx ends. The server goes on accepting meanwhile. Closing the listener at once would reset what waits to be accepted.
func acceptRest(ctx context.Context, listener net.Listener) {
	if !takeNoMore(listener) {
		return
	}
	<-time.After(roundTrip)
	for waiting(listener) > 0 && ctx.Err() == nil {
		<-time.After(pollTime)
	}
}

// takeNoMore has the kernel drop attempts to connect to a listener, and reports whether it does. A caller tries again after a second
// and is refused then, because the listener is closed. Open connections are not affected, nor are those that wait to be accepted:
// closing the listener would reset them, and lose requests.
func takeNoMore(listener net.Listener) bool {
	const flags, syn = 13, 0x02 // the offset in a TCP header, and the bit that only the first packet of a client has (RFC 9293, 3.1)
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: flags},
		{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: syn, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},      // drop it
		{Code: unix.BPF_RET | unix.BPF_K, K: 0xffff}, // let it through
	}
	return onSocket(listener, func(fd int) error {
		return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			&unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
	}) == nil
}

// onSocket calls act with the socket of a listener, which is open meanwhile.
func onSocket(listener net.Listener, act func(fd int) error) error {
	socket, isSocket := listener.(syscall.Conn)
	if !isSocket {
		return errors.ErrUnsupported
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	failure := raw.Control(func(fd uintptr) { err = act(int(fd)) }) // fails if the listener is closed
	return errors.Join(failure, err)
}

// waiting returns the number of connections that a listener has not accepted yet.
func waiting(listener net.Listener) (connections int) {
	_ = onSocket(listener, func(fd int) error { // 0 if the listener is closed
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		if err == nil {
			connections = int(info.Unacked) // the length of a listener's queue
		}
		return err
	})
	return connections
}

// openFiles returns how many files the process may open; 0: unknown. The Go runtime has raised the limit as far as it may.
func openFiles() uint64 {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return limit.Cur
}
