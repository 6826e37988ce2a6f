package main

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"connect-svc/internal/testing/mailtest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/process"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// makeAll builds packages and images once, for all tests.
func makeAll(t *testing.T) {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), "make", "-C", "../..", "packages", "image").CombinedOutput()
	if err != nil {
		t.Fatalf("make: %v\n%s", err, output)
	}
}

// contained are the arguments of bwrap for a program in a root of its own, as a container or a service manager has it: as an
// account without rights that sees its root's files, read-only, its own processes, and of this machine only the network.
func contained(t *testing.T, root string, uid int, environ map[string]string, mounts, command []string) []string {
	t.Helper()
	for _, name := range []string{"proc", "dev", "tmp", "run"} {
		if err := os.MkdirAll(filepath.Join(root, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"--unshare-all", "--share-net", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv",
		"--uid", strconv.Itoa(uid), "--gid", strconv.Itoa(uid),
		"--ro-bind", root, "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/run", "--chdir", "/"}
	for name, value := range environ {
		args = append(args, "--setenv", name, value)
	}
	args = append(args, mounts...)
	return append(append(args, "--"), command...)
}

// answers is nil when a request is answered with 200.
func answers(ctx context.Context, url, token string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: status %d", url, response.StatusCode)
	}
	return nil
}

// unpacked is the root that a container of the image would have, and its configuration.
func unpacked(t *testing.T, folder string) (root string, config v1.Config) {
	t.Helper()
	index, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("manifest %+v, %v", manifest, err)
	}
	image, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	file, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	root = t.TempDir()
	reader := mutate.Extract(image)
	defer reader.Close()
	for archive := tar.NewReader(reader); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return root, file.Config
		}
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(root, filepath.Clean("/"+header.Name))
		if header.Typeflag == tar.TypeDir {
			if err := os.MkdirAll(name, 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, content, header.FileInfo().Mode()); err != nil { //nolint:gosec // our own image
			t.Fatal(err)
		}
	}
}

// The installed program runs: from the packages under the settings of the unit, and from the images.
func TestInstalled(t *testing.T) {
	t.Parallel()
	makeAll(t)
	t.Run("deb", testDeb)
	t.Run("rpm", testRPM)
	t.Run("image", testImage)
	t.Run("sandbox", testSandboxImage)
}

func testImage(t *testing.T) {
	t.Parallel()
	root, config := unpacked(t, "../../bin/image")
	if config.User != "65532:65532" || config.StopSignal != "SIGTERM" || config.Labels["org.opencontainers.image.version"] == "" {
		t.Errorf("configuration %+v", config)
	}
	for _, name := range []string{"etc/ssl/certs/ca-certificates.crt", "usr/share/doc/connect-svc.cdx.json", "share/connect-svc/programs/connect-svc_linux_" + runtime.GOARCH + ".tar.gz"} {
		if info, err := os.Stat(filepath.Join(root, name)); err != nil || info.Size() < 10_000 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	serves(t, root, 65532, append(config.Entrypoint, config.Cmd...), nil)
}

// serves migrates a database, makes a keyset and serves until it is ready, with the program at the head of a command line in a
// root of its own.
func serves(t *testing.T, root string, uid int, command []string, environ map[string]string) {
	t.Helper()
	keys := t.TempDir()
	settings := map[string]string{
		"CONNECT_BASE_URL":      "https://connect.example.com",
		"CONNECT_DATABASE_URL":  pgtest.NewEmpty(t).URL,
		"CONNECT_SMTP_URL":      "smtp://" + mailtest.Start(t, mailtest.Config{}).Address,
		"CONNECT_MAIL_FROM":     "no-reply@example.com",
		"CONNECT_KEYSET_FILE":   "/run/credentials/keyset.json",
		"CREDENTIALS_DIRECTORY": "/run/credentials",
		"CONNECT_LISTEN":        "127.0.0.1:0",
	}
	for name, value := range environ {
		settings[name] = value
	}
	mounts := []string{"--bind", keys, "/run/credentials"}
	for _, args := range [][]string{{"migrate", "up"}, {"keys", "create", "--out", "/run/credentials/keyset.json"}} {
		run := exec.CommandContext(t.Context(), "bwrap", contained(t, root, uid, settings, mounts, append(command[:1:1], args...))...)
		if output, err := run.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", args[0], err, output)
		}
	}
	process.Start(t, func(port string) process.Config {
		settings["CONNECT_PRIVATE_LISTEN"] = "127.0.0.1:" + port
		return process.Config{
			Args:  contained(t, root, uid, settings, mounts, command),
			Ready: func(ctx context.Context) error { return answers(ctx, "http://127.0.0.1:"+port+"/readyz", "") },
		}
	}, "bwrap")
}

// testSandboxImage starts the sandbox, whose driver answers once it has made users in the PostgreSQL of its own.
func testSandboxImage(t *testing.T) {
	t.Parallel()
	root, config := unpacked(t, "../../bin/image-sandbox")
	holdsBill(t, root)
	const token = "only-for-this-container"
	process.Start(t, func(port string) process.Config {
		command := append(config.Entrypoint, strings.Fields("sandbox --listen 0.0.0.0:0 --private-listen 0.0.0.0:"+port)...)
		return process.Config{
			Args: contained(t, root, 65532, map[string]string{"CONNECT_DRIVER_TOKEN": token}, nil, command),
			Ready: func(ctx context.Context) error {
				return answers(ctx, "http://127.0.0.1:"+port+"/sandbox/requests", token)
			},
		}
	}, "bwrap")
}

// holdsBill checks that the bill of materials has each file of an image with its hash, but for those that `make image` writes itself.
func holdsBill(t *testing.T, root string) {
	t.Helper()
	const name = "/usr/share/doc/connect-svc.cdx.json"
	bom := new(cdx.BOM)
	if err := cdx.NewBOMDecoder(strings.NewReader(read(t, root, name)), cdx.BOMFileFormatJSON).Decode(bom); err != nil {
		t.Fatal(err)
	}
	listed, packages := map[string]string{}, map[string]string{}
	for _, c := range *bom.Components {
		packages[c.Name] = c.Version
		if c.Components != nil {
			for _, file := range *c.Components {
				listed[file.Name] = (*file.Hashes)[0].Value
			}
		}
	}
	for _, part := range []string{"std", "libc6", "dash", "tzdata"} {
		if packages[part] == "" {
			t.Errorf("the bill of materials has no %s", part)
		}
	}
	own := []string{name, "/connect-svc", "/etc/ssl/certs/ca-certificates.crt", "/etc/passwd", "/etc/group"}
	n := 0
	if err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		in := strings.TrimPrefix(file, root)
		if err != nil || d.IsDir() || slices.Contains(own, in) {
			return err
		}
		n++
		if sum := sha256.Sum256([]byte(read(t, root, in))); listed[in] != hex.EncodeToString(sum[:]) {
			t.Errorf("%s is listed with the hash %q", in, listed[in])
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if n < 100 {
		t.Errorf("the image has %d files", n)
	}
}
