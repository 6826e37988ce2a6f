// Package released has each version of the SDKs that was released, byte for byte. Partners' lock files have its hash, so a file of this
// folder never changes and never goes once a release of the program has it. `make sdk-release` adds the version of sdk/typescript/package.json.
package released

import (
	"compress/gzip"
	"embed"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
)

// They are compressed, as the program has all of them.
//
//go:embed *.txtar.gz
var files embed.FS

// SDKs are all SDKs of one version, each in the format of golang.org/x/tools/txtar: the Go module below its root, the npm package as npm packs
// it, below the folder package, and the files of the wheel of Python, without the list of them.
type SDKs struct {
	Version                string // without the v
	Go, TypeScript, Python []byte // there is none of Python before 1.2.0
}

// All returns all versions, the oldest one first.
func All() (all []SDKs, err error) {
	names, err := fs.Glob(files, "go-*.txtar.gz")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		release := SDKs{Version: strings.TrimSuffix(strings.TrimPrefix(name, "go-"), ".txtar.gz")}
		if release.Go, err = read(name); err != nil {
			return nil, err
		}
		if release.TypeScript, err = read("typescript-" + release.Version + ".txtar.gz"); err != nil {
			return nil, err
		}
		if release.Python, err = read("python-" + release.Version + ".txtar.gz"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		all = append(all, release)
	}
	slices.SortFunc(all, func(a, b SDKs) int { return semver.Compare("v"+a.Version, "v"+b.Version) })
	return all, nil
}

func read(name string) ([]byte, error) {
	file, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	text, err := gzip.NewReader(file)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(text)
}
