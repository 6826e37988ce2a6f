//go:build check

package sdk_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The Python SDK plays all scenarios, with threads and with asyncio, on Debian's Python and its packages.
func TestScenariosPython(t *testing.T) {
	t.Parallel()
	folder, err := filepath.Abs("../../../../sdk/python")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"threads", "asyncio"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			playAll(t, language{pools: true, http2: true, goaway: true, command: func() *exec.Cmd {
				program := exec.Command("/usr/bin/python3", "-B", "testdata/driver.py", kind)
				program.Env = []string{"PYTHONPATH=" + folder}
				return program
			}})
		})
	}
}

// The blocks of the guides that refresh play the scenarios that say something of them, as they stand there, but for the time limits of a
// request.
func TestScenariosGuidePython(t *testing.T) {
	t.Parallel()
	code := blocksOf(t, "python", "timeout=(10, 30)", "timeout=limits")
	playAll(t, language{byHand: true, command: func() *exec.Cmd {
		program := exec.Command("/usr/bin/python3", "-c", code)                                   // Debian's own, which has the package of requests
		for _, name := range []string{"BASE_URL", "CLIENT_ID", "CLIENT_SECRET", "CALLBACK_URL"} { // until it is told
			program.Env = append(program.Env, "CONNECT_"+name+"=")
		}
		return program
	}})
}

func TestScenariosGuidePHP(t *testing.T) {
	t.Parallel()
	code := strings.TrimPrefix(blocksOf(t, "php", "CURLOPT_CONNECTTIMEOUT => 10, CURLOPT_TIMEOUT => 30", "CURLOPT_TIMEOUT => $GLOBALS['seconds'] ?? 30"), "<?php\n")
	playAll(t, language{byHand: true, command: func() *exec.Cmd {
		return exec.Command("sh", "-c", `exec php -d curl.cainfo="$SSL_CERT_FILE" -d display_errors=stderr -r "$0"`, code)
	}})
}

// blocksOf is all code in a language of the guides that connect and refresh, followed by its driver.
func blocksOf(t *testing.T, language, limits, ours string) (code string) {
	t.Helper()
	for _, page := range []string{"consent", "refresh"} {
		text, err := os.ReadFile("../../../edge/developers/pages/" + page + ".md")
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllSubmatch(text, -1) {
			code += string(block[1]) + "\n\n"
		}
	}
	if !strings.Contains(code, limits) {
		t.Errorf("the guides do not say %s", limits)
	}
	play, err := os.ReadFile("testdata/block." + language)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(code, limits, ours) + string(play)
}
