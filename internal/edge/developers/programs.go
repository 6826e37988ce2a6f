package developers

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"connect-svc/internal/edge/site/static"
	"connect-svc/internal/foundation/telemetry"
	"connect-svc/sdk/released"
	"golang.org/x/mod/module"
	"golang.org/x/tools/txtar"
)

// ProgramsPath is where the program is that runs a sandbox: SHA256SUMS, and the files that it lists.
const ProgramsPath = Path + "sandbox/"

const (
	sumsName = "SHA256SUMS"
	maxSums  = 64 << 10 // bytes of it
)

// programName matches the files of a release with the program, and [OwnPrograms].
var programName = regexp.MustCompile(`^connect-svc(_[0-9A-Za-z.+~-]+)?_(linux|darwin|windows)_(amd64|arm64)(\.tar\.gz|\.zip|\.exe)?$`)

// Programs hands out the program with which partners run a sandbox. It is the same before and after a reload.
type Programs struct {
	open      func(name string) (fs.File, error)
	sums      func() ([]byte, error)
	downloads *downloads
	unpacked  *Programs // what is also there without being listed; nil: nothing
}

// OwnPrograms hands out the running program, for its own platform alone. Packages and images have an archive of it beside it. It then
// lists the archive, and still hands out the program at its own address. It returns nil if the file cannot be read, which a program need not be
// to run.
func OwnPrograms() *Programs {
	own, _ := os.Executable() // "" has nothing beside it
	return ownPrograms(filepath.Join(filepath.Dir(own), "..", "share", "connect-svc", "programs"))
}

func ownPrograms(archives string) *Programs {
	running := runningProgram()
	packed, err := ReleasedPrograms(archives)
	if err != nil || running == nil {
		return running
	}
	running.downloads, packed.unpacked = packed.downloads, running
	return packed
}

func runningProgram() *Programs {
	file, err := os.Open("/proc/self/exe") // also if an upgrade has replaced the file
	if err != nil {
		own, _ := os.Executable() // "" cannot be opened
		if file, err = os.Open(own); err != nil {
			return nil
		}
	}
	info, err := file.Stat()
	if err != nil {
		return nil
	}
	name := fmt.Sprintf("connect-svc_%s_%s", runtime.GOOS, runtime.GOARCH)
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	whole := func() *io.SectionReader { return io.NewSectionReader(file, 0, info.Size()) }
	return &Programs{
		open: func(asked string) (fs.File, error) {
			if asked != name {
				return nil, fs.ErrNotExist
			}
			return ownFile{whole(), info}, nil
		},
		sums: sync.OnceValues(func() ([]byte, error) {
			hash := sha256.New()
			_, err := io.Copy(hash, whole())
			return fmt.Appendf(nil, "%x  %s\n", hash.Sum(nil), name), err
		}),
		downloads: newDownloads(),
	}
}

// ownFile is the running program for one download.
type ownFile struct {
	*io.SectionReader
	info fs.FileInfo
}

func (f ownFile) Stat() (fs.FileInfo, error) { return f.info, nil }
func (ownFile) Close() error                 { return nil }

// ReleasedPrograms hands out the programs of a release: those files of the folder that its SHA256SUMS lists. A later release may replace
// them meanwhile.
func ReleasedPrograms(folder string) (*Programs, error) {
	open := func(name string) (fs.File, error) { return os.OpenInRoot(folder, name) }
	p := &Programs{open: open, downloads: newDownloads(), sums: func() ([]byte, error) {
		file, err := open(sumsName)
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }()
		return io.ReadAll(io.LimitReader(file, maxSums))
	}}
	sums, err := p.sums()
	if err != nil {
		return nil, errors.New("has no readable " + sumsName)
	}
	count := 0
	for line := range strings.Lines(string(sums)) {
		if _, name, _ := strings.Cut(strings.TrimSpace(line), "  "); programName.MatchString(name) {
			file, err := open(name)
			if err != nil {
				return nil, errors.New("lacks " + name + ", which its " + sumsName + " lists")
			}
			_ = file.Close()
			count++
		}
	}
	if count == 0 {
		return nil, errors.New("has no program: its " + sumsName + " lists none")
	}
	return p, nil
}

// ServeHTTP serves the paths below [ProgramsPath]. Mount it behind telemetry.Requests.
func (p *Programs) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	event := telemetry.EventOf(r.Context())
	event.Operation = ProgramsPath
	headers(w.Header())
	name := strings.TrimPrefix(r.URL.Path, ProgramsPath)
	sums, err := p.sums()
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		refuse(w, "There is nothing here.", http.StatusNotFound)
	case err != nil:
		event.Cause = err
		refuse(w, "The programs cannot be read.", http.StatusServiceUnavailable)
	case name == sumsName:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-cache")
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(sums))
	case sumOf(sums, name) == "" && p.unpacked != nil:
		p.unpacked.ServeHTTP(w, r)
	default:
		p.serve(w, r, name, sumOf(sums, name))
	}
}

// sumOf returns the checksum of a program in SHA256SUMS, empty for anything else.
func sumOf(sums []byte, name string) string {
	if !programName.MatchString(name) {
		return ""
	}
	for line := range strings.Lines(string(sums)) {
		sum, listed, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if hash, err := hex.DecodeString(sum); listed == name && err == nil && len(hash) == sha256.Size {
			return sum
		}
	}
	return ""
}

func (p *Programs) serve(w http.ResponseWriter, r *http.Request, name, sum string) {
	if sum == "" {
		refuse(w, "There is nothing here.", http.StatusNotFound)
		return
	}
	file, err := p.open(name)
	if err != nil {
		telemetry.EventOf(r.Context()).Cause = err
		refuse(w, "The program cannot be read.", http.StatusServiceUnavailable)
		return
	}
	defer func() { _ = file.Close() }()
	content, seeks := file.(io.ReadSeeker)
	if info, err := file.Stat(); err != nil || !seeks || !info.Mode().IsRegular() {
		refuse(w, "There is nothing here.", http.StatusNotFound)
		return
	}
	answer := w
	if r.Method == http.MethodGet {
		d := p.downloads.begin(w, r)
		if d == nil {
			telemetry.EventOf(r.Context()).Code = "busy"
			w.Header().Set("Retry-After", "10")
			refuse(w, "Others are downloading. Please try again.", http.StatusServiceUnavailable)
			return
		}
		defer func() {
			if p.downloads.end(d) {
				telemetry.EventOf(r.Context()).Code = "gave_way"
				panic(http.ErrAbortHandler) // so that nobody takes what was sent for the whole
			}
		}()
		answer = d
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("ETag", `"`+sum+`"`)
	http.ServeContent(answer, r, "", time.Time{}, content)
}

func refuse(w http.ResponseWriter, text string, status int) {
	w.Header().Set("Cache-Control", "no-store")
	http.Error(w, text, status)
}

// Placeholders in the sources for the service's own address and module.
const (
	nobodysURL    = "https://connect.invalid"
	nobodysModule = "connect.invalid/connect-go"
)

// defaultModule returns the path of the Go SDK's module at a service: its host and /connect-go. If the host cannot be part of a
// module path, such as localhost or an IP address, it returns the path in the sources.
func defaultModule(baseURL string) string {
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

// addSDKs adds each released version of the npm package, of the Go module for the module proxy protocol
// (https://go.dev/ref/mod#goproxy-protocol), and of the wheel of Python with its index (PEP 503). Files with a version in their name never
// change, and two services with one module path serve the same bytes. The Go module's first version is the exception: its README has the
// service's address.
func (s *Site) addSDKs() error {
	escaped, err := module.EscapePath(s.config.SDKModule)
	if err != nil {
		return err
	}
	all, err := released.All()
	if err != nil {
		return err
	}
	var list, wheels []byte
	for _, sdks := range all { // the last one is the latest
		list = fmt.Appendf(list, "v%s\n", sdks.Version)
		if err := s.addVersion(sdks, "go/"+escaped); err != nil {
			return err
		}
		if sdks.Python == nil {
			continue
		}
		wheel, err := wheelOf(txtar.Parse(sdks.Python))
		if err != nil {
			return err
		}
		name := "connect_svc_sdk-" + sdks.Version + "-py3-none-any.whl"
		s.files["python/"+name] = newArchive("application/zip", wheel)
		wheels = fmt.Appendf(wheels, "<a href=\"../../%s#sha256=%x\" data-requires-python=\"&gt;=3.10\">%[1]s</a>\n", name, sha256.Sum256(wheel))
	}
	for name, links := range map[string][]byte{"": []byte("<a href=\"connect-svc-sdk/\">connect-svc-sdk</a>\n"), "connect-svc-sdk/": wheels} {
		s.files["python/simple/"+name] = newFile("text/html; charset=utf-8", fmt.Appendf(nil,
			"<!doctype html>\n<meta name=\"pypi:repository-version\" content=\"1.0\">\n<title>connect-svc-sdk</title>\n%s", links))
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

// wheelOf returns a wheel, uncompressed for the reason of [tarballOf]. It adds the list of its files
// (https://packaging.python.org/en/latest/specifications/binary-distribution-format/).
func wheelOf(files *txtar.Archive) ([]byte, error) {
	record, list := "", []byte(nil)
	for _, f := range files.Files {
		sum := sha256.Sum256(f.Data)
		list = fmt.Appendf(list, "%s,sha256=%s,%d\n", f.Name, base64.RawURLEncoding.EncodeToString(sum[:]), len(f.Data))
		if folder, found := strings.CutSuffix(f.Name, ".dist-info/WHEEL"); found {
			record = folder + ".dist-info/RECORD"
		}
	}
	list = fmt.Appendf(list, "%s,,\n", record)
	var packed bytes.Buffer
	archive := zip.NewWriter(&packed)
	for _, f := range append(slices.Clone(files.Files), txtar.File{Name: record, Data: list}) {
		header := zip.FileHeader{Name: f.Name, Modified: time.Date(1980, time.January, 1, 0, 0, 0, 0, time.UTC)} // a zip has none before
		header.SetMode(0o644)
		w, err := archive.CreateHeader(&header)
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
	path, ok := strings.CutPrefix("https://"+s.config.SDKModule, s.config.BaseURL+"/")
	return ok && r.Method == http.MethodGet && r.URL.RawQuery == "go-get=1" && strings.HasPrefix(r.URL.Path+"/", "/"+path+"/")
}
