package app

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"time"
)

// Build is what a program was built from.
type Build struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`

	At time.Time `json:"-"` // when the commit was made; the same wherever it is built
}

func (b Build) String() string { return fmt.Sprintf("%s (commit %s)", b.Version, b.Commit) }

// BuildOf takes what is not set from what the Go tool records about every build. The commit that the Go tool records goes first.
func BuildOf(version, commit string) Build {
	b := Build{Version: version, Commit: commit}
	info, known := debug.ReadBuildInfo()
	if !known {
		info = &debug.BuildInfo{}
	}
	b.Version = cmp.Or(b.Version, info.Main.Version)
	if b.Version == "" || b.Version == "(devel)" {
		b.Version = "development"
	}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			b.Commit = setting.Value
		case "vcs.time":
			b.At, _ = time.Parse(time.RFC3339, setting.Value) // the Go tool's own form
		}
	}
	b.Commit = cmp.Or(b.Commit, "unknown")
	return b
}
