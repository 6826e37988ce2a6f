//go:build release

package release

import (
	"crypto/rand"
	"debug/elf"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"aead.dev/minisign"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

func TestTwiceTheSameBytes(t *testing.T) {
	t.Parallel()
	public, private, err := minisign.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	text, err := private.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(t.TempDir(), "minisign.key")
	if err := os.WriteFile(key, text, 0o600); err != nil {
		t.Fatal(err)
	}
	first, second := checkout(t), filepath.Join(t.TempDir(), "another", "place")
	version := succeed(t, first, ".ci/version", "released")
	succeed(t, first, "git", "tag", version)
	succeed(t, first, "git", "clone", "--quiet", first, second)
	succeed(t, first, "make", "release", "KEY="+key)
	succeed(t, second, "sh", "-c", "umask 077; TZ=Asia/Tokyo exec make --jobs 2 release KEY="+key)

	made := filepath.Join(first, "bin/release")
	if output, err := run(t, first, "diff", "--recursive", "--brief", made, filepath.Join(second, "bin/release")); err != nil {
		t.Errorf("%v: %s", err, output)
	}
	number := strings.TrimPrefix(version, "v")
	holdsFiles(t, made, number)
	sums, signature := read(t, made, "SHA256SUMS"), read(t, made, "SHA256SUMS.minisig")
	if !minisign.Verify(public, []byte(sums), []byte(signature)) {
		t.Error("the signature is not that of the checksums")
	}
	if notes := read(t, made, "RELEASE_NOTES.md"); !strings.HasPrefix(notes, "## ["+number+"]") || strings.Count(notes, "\n## ") != 0 {
		t.Errorf("release notes %.80q…", notes)
	}
	holdsPrograms(t, made, version, succeed(t, first, "git", "rev-parse", "HEAD"))
	holdsImages(t, made, version)
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// holdsFiles checks which files there are, and that the checksums are theirs.
func holdsFiles(t *testing.T, made, number string) {
	t.Helper()
	name := "connect-svc_" + number + "_"
	want := []string{
		"connect-1.2.0.tgz", "connect-go-1.2.0.zip", "connect_svc_sdk-1.2.0-py3-none-any.whl",
		"connect-svc-" + number + "-1.x86_64.rpm", "connect-svc-" + number + "-1.aarch64.rpm",
	}
	for _, of := range []string{
		"amd64.deb", "arm64.deb", "linux_amd64.tar.gz", "linux_arm64.tar.gz", "darwin_amd64.tar.gz", "darwin_arm64.tar.gz",
		"windows_amd64.zip", "windows_arm64.zip",
	} {
		want = append(want, name+of)
	}
	for _, artifact := range want {
		want = append(want, artifact+".cdx.json")
		if !strings.Contains(read(t, made, artifact+".cdx.json"), `"serialNumber": "urn:uuid:`) {
			t.Errorf("the bill of %s has no serial number", artifact)
		}
	}
	for _, image := range []string{"image_amd64", "image_arm64", "image-sandbox_amd64", "image-sandbox_arm64"} {
		want = append(want, name+image+".cdx.json")
	}
	want = append(want, name+"images.tar", "RELEASE_NOTES.md", "SHA256SUMS", "SHA256SUMS.minisig")
	slices.Sort(want)
	entries, err := os.ReadDir(made)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, entry := range entries {
		got = append(got, entry.Name())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if lines := strings.Count(read(t, made, "SHA256SUMS"), "\n"); lines != len(want)-2 {
		t.Errorf("%d checksums of %d files", lines, len(want)-2)
	}
	succeed(t, made, "sha256sum", "--check", "--strict", "SHA256SUMS")
}

// holdsPrograms checks that programs and packages are of the version, and as old as their commit.
func holdsPrograms(t *testing.T, made, version, commit string) {
	t.Helper()
	dir, name := t.TempDir(), "connect-svc_"+version[1:]+"_linux_"
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		list := succeed(t, dir, "tar", "--utc", "--full-time", "-xvvf", filepath.Join(made, name+arch+".tar.gz"))
		if strings.Count(list, "0/0") != 5 || strings.Count(list, "2026-01-31 08:00:00") != 5 {
			t.Errorf("the archive's files:\n%s", list)
		}
		program, err := elf.Open(filepath.Join(dir, name+arch, "connect-svc"))
		if err != nil {
			t.Fatal(err)
		}
		defer program.Close()
		if program.Machine != machine {
			t.Errorf("the program for %s is for %s", arch, program.Machine)
		}
		if text := read(t, dir, name+arch+"/connect-svc"); !strings.Contains(text, commit) || !strings.Contains(text, "build\t-pgo=default.pgo\n") {
			t.Errorf("the program for %s does not know its commit, or is compiled without its profile", arch)
		}
		deb := filepath.Join(made, "connect-svc_"+version[1:]+"_"+arch+".deb")
		if got := succeed(t, dir, "dpkg-deb", "--show", "--showformat", "${Version} ${Architecture}", deb); got != version[1:]+" "+arch {
			t.Errorf("package %s", got)
		}
	}
	machine := succeed(t, dir, "dpkg", "--print-architecture")
	if got := succeed(t, dir, filepath.Join(name+machine, "connect-svc"), "version"); !strings.HasPrefix(got, "connect-svc "+version+" (commit "+commit+"), ") {
		t.Errorf("version: %s", got)
	}
}

// holdsImages checks that the layout has service and sandbox, each for both platforms, with all their layers.
func holdsImages(t *testing.T, made, version string) {
	t.Helper()
	dir := t.TempDir()
	succeed(t, dir, "tar", "-xf", filepath.Join(made, "connect-svc_"+version[1:]+"_images.tar"))
	all, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := all.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, named := range manifest.Manifests {
		index, err := all.ImageIndex(named.Digest)
		if err != nil {
			t.Fatal(err)
		}
		of, err := index.IndexManifest()
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range of.Manifests {
			image, err := index.Image(one.Digest)
			if err != nil {
				t.Fatal(err)
			}
			config, err := image.ConfigFile()
			if err != nil {
				t.Fatal(err)
			}
			if config.Architecture != one.Platform.Architecture || config.Config.Labels["org.opencontainers.image.version"] != version {
				t.Errorf("%s: architecture %s, labels %v", one.Platform, config.Architecture, config.Config.Labels)
			}
			if err := validate.Image(image); err != nil {
				t.Errorf("%s: %v", one.Platform, err)
			}
			got = append(got, named.Annotations["org.opencontainers.image.ref.name"]+" "+one.Platform.String())
		}
	}
	want := []string{
		"connect-svc:" + version + " linux/amd64", "connect-svc:" + version + " linux/arm64",
		"connect-svc-sandbox:" + version + " linux/amd64", "connect-svc-sandbox:" + version + " linux/arm64",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("images (-want +got):\n%s", diff)
	}
}
