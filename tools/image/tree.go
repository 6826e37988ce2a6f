package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// entry is a file, or a folder if its mode says so.
type entry struct {
	mode    fs.FileMode
	owner   int // also the group
	content []byte
}

// tree has entries by their absolute path.
type tree map[string]entry

// layer is the tree as one layer of an image. The folders above an entry are root's.
func (t tree) layer(at time.Time) (v1.Layer, error) {
	for _, name := range slices.Collect(maps.Keys(t)) {
		for folder := path.Dir(name); folder != "/"; folder = path.Dir(folder) {
			if _, found := t[folder]; !found {
				t[folder] = entry{mode: fs.ModeDir | 0o755}
			}
		}
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, name := range slices.Sorted(maps.Keys(t)) { // a folder comes before what is in it
		e := t[name]
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: strings.TrimPrefix(name, "/"), Size: int64(len(e.content)), Mode: int64(e.mode.Perm()),
			Uid: e.owner, Gid: e.owner, ModTime: at,
		}
		if e.mode.IsDir() {
			header.Typeflag, header.Name = tar.TypeDir, header.Name+"/"
		}
		if e.mode&fs.ModeSticky != 0 {
			header.Mode |= 0o1000
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil })
}

// add puts a file of the Debian at root into the tree, under the same path; a link becomes what it leads to.
func (t tree) add(root, name string) error {
	info, err := os.Stat(root + name)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(root + name)
	if err != nil {
		return err
	}
	t[name] = entry{mode: info.Mode().Perm(), content: content}
	return nil
}

// addAll adds the files below a folder that Debian packages brought. Other files, such as those of an extension of PostgreSQL that was built
// on this machine, stay out of the image.
func (t tree) addAll(root, folder string) error {
	owners, err := ownersOf(root)
	if err != nil {
		return err
	}
	return filepath.WalkDir(root+folder, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(path, root)
		if owners.of(root, name) == "" {
			return nil
		}
		info, err := os.Stat(path)
		if err != nil || info.IsDir() {
			return err
		}
		return t.add(root, name)
	})
}

// service is the layer of the program, with the bill of materials of all that the image has.
func (s source) service(database tree) (tree, error) {
	program, err := os.ReadFile(s.Program)
	if err != nil {
		return nil, err
	}
	bill, err := s.bill(database)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(s.Folder+".cdx.json", bill, 0o644); err != nil { //nolint:gosec // nothing secret
		return nil, err
	}
	var authorities bytes.Buffer
	for root := range bundle.Roots() {
		if err := pem.Encode(&authorities, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	files := tree{
		"/connect-svc":                        {mode: 0o755, content: program},
		"/usr/share/doc/connect-svc.cdx.json": {mode: 0o644, content: bill},
		"/etc/ssl/certs/ca-certificates.crt":  {mode: 0o644, content: authorities.Bytes()},
		"/etc/passwd":                         {mode: 0o644, content: []byte("connect-svc:x:65532:65532::/:/\n")},
		"/etc/group":                          {mode: 0o644, content: []byte("connect-svc:x:65532:\n")},
		"/keys":                               {mode: fs.ModeDir | 0o700, owner: account}, // for a volume: `keys create` writes the keyset there
		"/tmp":                                {mode: fs.ModeDir | fs.ModeSticky | 0o777},
	}
	if s.Sandbox {
		return files, nil
	}
	programs, err := os.ReadDir(s.Programs)
	if err != nil {
		return nil, err
	}
	for _, f := range programs {
		content, err := os.ReadFile(filepath.Join(s.Programs, f.Name()))
		if err != nil {
			return nil, err
		}
		files["/share/connect-svc/programs/"+f.Name()] = entry{mode: 0o644, content: content}
	}
	return files, nil
}
