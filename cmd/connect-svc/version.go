package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"connect-svc/internal/app"
)

// version is the release that this program was built from. `make build` sets it.
var version string

// build is what this program was built from.
type build struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`

	at time.Time // when the commit was made; the same wherever it is built
}

func (b build) String() string { return fmt.Sprintf("%s (commit %s)", b.Version, b.Commit) }

// built takes what `make build` did not set from what the Go tool records about every build.
func built() build {
	b := build{Version: version, Commit: "unknown"}
	info, known := debug.ReadBuildInfo()
	if !known {
		info = &debug.BuildInfo{}
	}
	if b.Version == "" {
		b.Version = info.Main.Version
	}
	if b.Version == "" || b.Version == "(devel)" {
		b.Version = "development"
	}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			b.Commit = setting.Value
		case "vcs.time":
			b.at, _ = time.Parse(time.RFC3339, setting.Value) // the Go tool's own form
		}
	}
	return b
}

type versionCommand struct{ output }

type versionJSON struct {
	build
	ContractVersion string `json:"contract_version"`
	GoVersion       string `json:"go_version"`
}

func (c versionCommand) Run(p *program) error {
	value := versionJSON{built(), app.ContractVersion(), runtime.Version()}
	return c.say(p, value, "connect-svc %s, partner API %s, %s", value.build, value.ContractVersion, value.GoVersion)
}
