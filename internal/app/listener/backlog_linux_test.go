package listener

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/testing/wait"
	"connect-svc/internal/testing/wiretest"
)

// lateListener is slow to accept, as on a machine that is busy: connections wait for a signal.
type lateListener struct {
	*net.TCPListener
	accept chan struct{}
}

func (l lateListener) Accept() (net.Conn, error) {
	<-l.accept
	return l.TCPListener.Accept()
}

// A connection that waits to be accepted when a stop begins is served, however long that takes.
func TestDrainServesWhatWaits(t *testing.T) {
	t.Parallel()
	var config net.ListenConfig
	config.SetMultipathTCP(false) // as the service's own
	open, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	late := lateListener{open.(*net.TCPListener), make(chan struct{})}
	s, err := Open(t.Context(), Config{
		Name: "test", Listener: late, Places: 9, Limits: wait.Patient, Handler: http.NotFoundHandler(), Logger: telemetry.NewLogger(io.Discard, nil),
	})
	if err != nil {
		t.Fatal(err)
	}
	ended, drained := make(chan error, 1), make(chan struct{})
	go func() { ended <- s.Run() }()
	conn, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	wait.Until(t, "it waits", func() bool { return waiting(open) == 1 })
	go func() {
		s.Drain(t.Context())
		close(drained)
	}()
	<-time.After(2 * roundTrip)
	close(late.accept)
	if status, _ := wiretest.Keep1(conn).Ask(t, "/"); status != http.StatusNotFound {
		t.Errorf("%d", status)
	}
	<-drained
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// As many connections may wait to be accepted under the package's unit as elsewhere: the kernel drops further attempts, and a caller tries again
// after a second. Go asks /proc for that number, and the unit says how much of /proc there is.
func TestUnitLeavesRoomForWhatWaits(t *testing.T) {
	t.Parallel()
	const most = "MOST_THAT_MAY_WAIT"
	s, err := Open(t.Context(), Config{Name: "test", Address: "127.0.0.1:0", Places: 9, Limits: wait.Patient, Logger: telemetry.NewLogger(io.Discard, nil)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var info *unix.TCPInfo
	if err := onSocket(s.socket, func(fd int) (err error) {
		info, err = unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if want, inside := os.LookupEnv(most); inside {
		if got := fmt.Sprint(info.Sacked); got != want { // of a listener, the most that may wait
			t.Errorf("%s may wait, want %s", got, want)
		}
		return
	}
	unit, err := os.ReadFile("../../../deploy/package/connect-svc.service")
	if err != nil {
		t.Fatal(err)
	}
	options := []string{"rw"}
	for setting, option := range map[string]string{"ProcSubset": "subset=", "ProtectProc": "hidepid="} {
		if value := regexp.MustCompile(`(?m)^` + setting + `=(\w+)$`).FindSubmatch(unit); value != nil {
			options = append(options, option+string(value[1]))
		}
	}
	inside := []string{"--user", "--map-root-user", "--mount", "--pid", "--fork", "sh", "-c", `mount -t proc -o "$0" proc /proc && exec "$@"`}
	if exec.CommandContext(t.Context(), "unshare", append(inside, "rw", "true")...).Run() != nil {
		return // there can be no other /proc here
	}
	command := exec.CommandContext(t.Context(), "unshare", append(inside, strings.Join(options, ","), os.Args[0], "-test.run", "^"+t.Name()+"$")...)
	command.Env = append(os.Environ(), most+"="+fmt.Sprint(info.Sacked))
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("under the unit: %v: %s", err, out)
	}
}
