package main

import (
	"fmt"
	"runtime"

	"github.com/alecthomas/kong"

	"connect-svc/internal/app"
)

// version and commit are those of the sources. `make build` sets both, as .ci/version prints them.
var version, commit string

// built is what this program was built from.
func built() app.Build { return app.BuildOf(version, commit) }

// versionFlag is [kong.VersionFlag] without its variable: kong looks for variables in the text of that for each flag anew.
type versionFlag bool

func (versionFlag) BeforeReset(line *kong.Kong) error {
	_, err := fmt.Fprintln(line.Stdout, built())
	line.Exit(0)
	return err
}

type versionCommand struct{ output }

type versionJSON struct {
	app.Build
	ContractVersion string `json:"contract_version"`
	GoVersion       string `json:"go_version"`
}

func (c versionCommand) Run(p *program) error {
	value := versionJSON{built(), app.ContractVersion(), runtime.Version()}
	return c.say(p, value, "connect-svc %s, partner API %s, %s", value.Build, value.ContractVersion, value.GoVersion)
}
