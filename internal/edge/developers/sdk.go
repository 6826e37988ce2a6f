package developers

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"golang.org/x/mod/module"
	"golang.org/x/tools/txtar"

	"connect-svc/internal/edge/site/static"
	"connect-svc/sdk/released"
)

// Placeholders in the sources for the service's own address and module.
const (
	nobodysURL    = "https://connect.invalid"
	nobodysModule = "connect.invalid/connect-go"
)

// DefaultModule returns the path of the Go SDK's module at a service: its host and /connect-go. If the host cannot be part of a
// module path, such as localhost or an IP address, it returns the path in the sources.
func DefaultModule(baseURL string) string {
	base, err := url.Parse(baseURL)
	if err != nil {
		return nobodysModule
	}
	path := base.Hostname() + "/connect-go"
	if _, err := netip.ParseAddr(base.Hostname()); err == nil || CheckModule(path) != nil {
		return nobodysModule
	}
	return path
}

// CheckModule checks a module path for the Go SDK. It refuses paths with a later major version, such as x.example/y/v2, which would
// contradict the SDK's version.
func CheckModule(path string) error {
	if err := module.CheckPath(path); err != nil {
		return errors.New("is not a module path")
	}
	if _, major, _ := module.SplitPathVersion(path); major != "" {
		return errors.New("ends with a version")
	}
	return nil
}

// own puts the service's address and module into a page or a source.
func (s *Site) own(text []byte) []byte {
	text = bytes.ReplaceAll(text, []byte(nobodysModule), []byte(s.config.SDKModule))
	return bytes.ReplaceAll(text, []byte(nobodysURL), []byte(s.config.BaseURL))
}

// addSDKs adds each released version of the npm package, and of the Go module for the module proxy protocol
// (https://go.dev/ref/mod#goproxy-protocol). Files with a version in their name never change: two services with one module path serve the
// same bytes.
func (s *Site) addSDKs() error {
	escaped, err := module.EscapePath(s.config.SDKModule)
	if err != nil {
		return err
	}
	all, err := released.All()
	if err != nil {
		return err
	}
	var list []byte
	for _, sdks := range all { // the last one is the latest
		list = fmt.Appendf(list, "v%s\n", sdks.Version)
		if err := s.addVersion(sdks, "go/"+escaped); err != nil {
			return err
		}
	}
	s.files["go/"+escaped+"/@v/list"] = newFile("text/plain; charset=utf-8", list)
	return nil
}

func (s *Site) addVersion(sdks released.SDKs, modulePath string) error {
	tarball, err := tarballOf(txtar.Parse(sdks.TypeScript))
	if err != nil {
		return err
	}
	s.files["sdk/connect-"+sdks.Version+".tgz"] = newArchive("application/gzip", tarball)

	version, source := "v"+sdks.Version, txtar.Parse(sdks.Go)
	for i, f := range source.Files {
		f.Data = bytes.ReplaceAll(f.Data, []byte(nobodysModule), []byte(s.config.SDKModule))
		if sdks.Version == "1.0.0" { // its README has the service's address
			f.Data = s.own(f.Data)
		}
		source.Files[i] = f
		if f.Name == "go.mod" {
			s.files[modulePath+"/@v/"+version+".mod"] = newFile("text/plain; charset=utf-8", f.Data)
		}
	}
	zipped, err := zipOf(source, s.config.SDKModule+"@"+version)
	if err != nil {
		return err
	}
	info := newFile("application/json", fmt.Appendf(nil, `{"Version":%q}`, version))
	s.files[modulePath+"/@v/"+version+".info"] = info
	s.files[modulePath+"/@latest"] = info
	s.files[modulePath+"/@v/"+version+".zip"] = newArchive("application/zip", zipped)
	return nil
}

// newArchive returns a file that is sent without a content coding, which package managers could mistake for the archive's own
// compression.
func newArchive(mediaType string, content []byte) *file {
	return &file{File: static.NewPacked(mediaType, content), forever: true}
}

// tarballOf returns an uncompressed tarball. Partners' lock files contain its hash, which must not depend on the compressor of the Go
// release that built the service.
func tarballOf(files *txtar.Archive) ([]byte, error) {
	var packed bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&packed, gzip.NoCompression)
	if err != nil {
		return nil, err
	}
	archive := tar.NewWriter(compressed)
	for _, f := range files.Files {
		if err := archive.WriteHeader(&tar.Header{Name: f.Name, Mode: 0o644, Size: int64(len(f.Data)), Format: tar.FormatUSTAR}); err != nil {
			return nil, err
		}
		if _, err := archive.Write(f.Data); err != nil {
			return nil, err
		}
	}
	err = errors.Join(archive.Close(), compressed.Close())
	return packed.Bytes(), err
}

// zipOf returns a module zip file (https://go.dev/ref/mod#zip-files). Its hash in go.sum is that of the files.
func zipOf(files *txtar.Archive, root string) ([]byte, error) {
	var packed bytes.Buffer
	archive := zip.NewWriter(&packed)
	for _, f := range files.Files {
		w, err := archive.Create(root + "/" + f.Name)
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(f.Data); err != nil {
			return nil, err
		}
	}
	err := archive.Close()
	return packed.Bytes(), err
}

// AsksForModule reports whether the go command asks for the source of the Go SDK's module or of a package in it
// (https://go.dev/ref/mod#vcs-find). It asks the module's host, which may not be ours, on the default port.
func (s *Site) AsksForModule(r *http.Request) bool {
	path, found := strings.CutPrefix("https://"+s.config.SDKModule, s.config.BaseURL+"/")
	return found && r.Method == http.MethodGet && r.URL.RawQuery == "go-get=1" && strings.HasPrefix(r.URL.Path+"/", "/"+path+"/")
}

func (s *Site) serveModule(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	content := html.EscapeString(s.config.SDKModule + " mod " + s.config.BaseURL + Path + "go")
	_, _ = fmt.Fprintf(w, "<!doctype html>\n<meta name=\"go-import\" content=\"%s\">\n", content) // fails only if the client has gone
}
