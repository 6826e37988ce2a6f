package app

import (
	"net"
	"runtime"
	"testing"
	"time"
)

// Who attempts to connect waits in vain, and who is connected already is accepted.
func TestTakeNoMore(t *testing.T) {
	t.Parallel()
	a, _, _ := open(t)
	t.Cleanup(a.Close)
	early, err := net.Dial("tcp", a.PublicAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer early.Close()
	if takes := takeNoMore(a.public.socket); takes != (runtime.GOOS == "linux") {
		t.Fatalf("takeNoMore is %t on %s", takes, runtime.GOOS)
	}
	if runtime.GOOS == "linux" {
		if late, err := net.DialTimeout("tcp", a.PublicAddr().String(), 100*time.Millisecond); err == nil {
			_ = late.Close()
			t.Error("another connection was made")
		}
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
