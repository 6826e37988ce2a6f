//go:build !unix

package chromium

import "os/exec"

// endTogether has nothing to do: no script starts the browser here.
func endTogether(*exec.Cmd) {}
