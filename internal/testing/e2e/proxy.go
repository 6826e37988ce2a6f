package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connect-svc/internal/testing/process"
)

// Proxied are two servers of the service in plain HTTP, and the folder of the proxy in front of them, which has the files of
// [WriteCertificate].
type Proxied struct {
	Dir           string
	Listen, Ready []string // addresses; Ready of the listeners for load balancers
	Replace       []string // what to replace in the proxy's configuration, in turn
}

// WriteCertificate writes what the proxies read: connect.pem with both, and connect-key.pem. It returns who trusts it.
func WriteCertificate(t *testing.T, dir string, pair *tls.Certificate) *x509.CertPool {
	t.Helper()
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})
	write(t, dir, "connect.pem", string(cert)+string(keyPEM))
	write(t, dir, "connect-key.pem", string(keyPEM))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cert)
	return roots
}

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// adapt reads a proxy's file of the documentation and puts the test's own into it. The replaced lines must exist.
func (p Proxied) adapt(t *testing.T, file string, replace ...string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", file))
	if err != nil {
		t.Fatal(err)
	}
	text := string(content)
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(text, replace[i]) {
			t.Fatalf("%s does not have %q", file, replace[i])
		}
		text = strings.ReplaceAll(text, replace[i], replace[i+1])
	}
	return strings.NewReplacer(p.Replace...).Replace(text)
}

// startProxy runs a proxy and returns where it listens.
func startProxy(t *testing.T, program string, args func(port string) []string) (address string) {
	t.Helper()
	process.Start(t, func(port string) process.Config {
		address = net.JoinHostPort("127.0.0.1", port)
		return process.Config{Args: args(port), Ready: func(ctx context.Context) error {
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
			if err == nil {
				_ = conn.Close()
			}
			return err
		}}
	}, program, "/usr/sbin/"+program) // Debian keeps them where only root looks
	return address
}

// StartHAProxy runs HAProxy with docs/haproxy.cfg, from the folder of a test in a folder of e2e, and returns where it listens.
func StartHAProxy(t *testing.T, p Proxied) string {
	t.Helper()
	return startProxy(t, "haproxy", func(port string) []string {
		replace := []string{"bind :443", "bind 127.0.0.1:" + port, "/etc/haproxy", p.Dir, "abns@connect", "abns@connect-" + port, "check port 9091", "check"}
		for n, listen := range p.Listen {
			_, ready, _ := net.SplitHostPort(p.Ready[n])
			replace = append(replace, fmt.Sprintf("10.0.0.1%d:8443", n+1), listen+" port "+ready)
		}
		return []string{"-db", "-f", write(t, p.Dir, "haproxy.cfg", p.adapt(t, "haproxy.cfg", replace...))}
	})
}

// StartNginx runs nginx with docs/nginx.conf, from the folder of a test in a folder of e2e, and returns where it listens.
func StartNginx(t *testing.T, p Proxied) string {
	t.Helper()
	return startProxy(t, "nginx", func(port string) []string {
		replace := []string{"listen 443", "listen 127.0.0.1:" + port, "/etc/nginx", p.Dir}
		for n, listen := range p.Listen {
			replace = append(replace, fmt.Sprintf("10.0.0.1%d:8443", n+1), listen)
		}
		included := write(t, p.Dir, "connect.conf", p.adapt(t, "nginx.conf", replace...))
		main := fmt.Sprintf("daemon off; master_process off; pid %[1]s/nginx.pid; error_log stderr; worker_rlimit_nofile 65536;\nevents { worker_connections 16384; }\nhttp { access_log off;\n", p.Dir)
		for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
			main += fmt.Sprintf("%s_temp_path %s/%s;\n", kind, p.Dir, kind)
		}
		return []string{"-p", p.Dir, "-e", "stderr", "-c", write(t, p.Dir, "nginx.conf", main+"include "+included+";\n}\n")}
	})
}
