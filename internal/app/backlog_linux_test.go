package app

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"connect-svc/internal/testing/wait"
)

// An attempt to connect is dropped, neither answered nor refused, and a connection that was made before is accepted.
func TestTakeNoMore(t *testing.T) {
	t.Parallel()
	a, _, _ := open(t)
	t.Cleanup(a.Close)
	early, err := net.Dial("tcp", a.PublicAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer early.Close()
	if !takeNoMore(a.public.socket) {
		t.Fatal("takeNoMore is false")
	}
	late, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(late)
	address := a.PublicAddr().(*net.TCPAddr)
	if err := unix.Connect(late, &unix.SockaddrInet4{Port: address.Port, Addr: [4]byte(address.IP.To4())}); err != unix.EINPROGRESS {
		t.Fatalf("connect returns %v", err)
	}
	var attempt *unix.TCPInfo
	wait.Until(t, "the kernel tries again", func() bool {
		if attempt, err = unix.GetsockoptTCPInfo(late, unix.IPPROTO_TCP, unix.TCP_INFO); err != nil {
			t.Fatal(err)
		}
		return attempt.State != unix.BPF_TCP_SYN_SENT || attempt.Retransmits > 0
	})
	if attempt.State != unix.BPF_TCP_SYN_SENT {
		t.Errorf("another attempt to connect is in state %d, want unanswered", attempt.State)
	}
	accepted, err := a.public.listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	if got, want := accepted.RemoteAddr().String(), early.LocalAddr().String(); got != want {
		t.Errorf("accepted %s, want %s", got, want)
	}
}
