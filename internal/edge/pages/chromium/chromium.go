// Package chromium finds the Chromium of this machine, opens a page in it, and measures pages.
//
// The tests of pages and `brand preview --check` have the same browser and the same measurements. A page that is shown drives itself by
// its script, so that the program needs no library that drives browsers.
package chromium

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// Faults is a JavaScript expression that measures the page at its present size and in its present colors. Its value is a promise of a
// list that describes each part that fails: text below the contrast of WCAG 2.2 AA (1.4.3), edges of fields and buttons below that of
// 1.4.11, targets below 2.5.8, and anything that makes the page scroll sideways (1.4.10).
//
//go:embed faults.js
var Faults string

// errNone means that there is no Chromium on this machine.
var errNone = errors.New("no Chromium or Chrome is found: install one, such as Debian's package chromium-headless-shell")

// Find returns the path of a Chromium. Error: [errNone].
func Find() (string, error) {
	// Without windows, which nobody sees, a page takes half as long.
	names := []string{
		"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "headless-shell", "chrome", "msedge",
	}
	switch runtime.GOOS {
	case "darwin":
		names = append(names, "/Applications/Chromium.app/Contents/MacOS/Chromium", "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")
	case "windows":
		for _, folder := range []string{"ProgramFiles", "ProgramFiles(x86)", "LocalAppData"} {
			names = append(names, os.Getenv(folder)+`\Google\Chrome\Application\chrome.exe`, os.Getenv(folder)+`\Microsoft\Edge\Application\msedge.exe`)
		}
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errNone
}

// Show opens a page of this machine in a Chromium without a window and with an empty profile, until the context ends. The browser reaches
// no other machine. Error: [errNone], or why it ended before the context.
func Show(ctx context.Context, address string) error {
	path, err := Find()
	if err != nil {
		return err
	}
	profile, err := os.MkdirTemp("", "connect-svc-chromium-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(profile)
	flags := []string{
		"--headless", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-extensions", "--disable-background-networking",
		"--disable-component-update", "--no-proxy-server", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--user-data-dir=" + profile,
	}
	if os.Geteuid() == 0 {
		flags = append(flags, "--no-sandbox") // Chromium's sandbox refuses to start as root
	}
	command := exec.CommandContext(ctx, path, append(flags, address)...) //nolint:gosec // a browser of this machine, and a page of ours
	command.WaitDelay = time.Second                                      // for what holds its pipes
	endTogether(command)
	err = command.Run()
	switch {
	case ctx.Err() != nil:
		return nil
	case command.ProcessState != nil: // it has started
		return fmt.Errorf("%s ended by itself: %s", path, command.ProcessState)
	}
	return err
}
