// Mutants checks that the tests can fail. It builds the service with one deliberate fault after the other, and has the test that is
// named beside the fault find it. `make mutants` runs it, by hand.
//
//	go run -C tools ./mutants [-only REGEXP] [-storm] FOLDER
//
// The faults are in the lists beside this file. To add one, write a block like this, with an empty line around it:
//
//	exchange-verifier: a code is exchanged without its verifier
//	file internal/domain/oauth/exchange.go
//	- return subtle.ConstantTimeCompare(sum[:], challenge[:]) == 1
//	+ return subtle.ConstantTimeCompare(sum[:], challenge[:]) >= 0
//	test internal/domain/oauth TestCodeBindings_3_1
//
// The lines with a minus are the old text, which must be in the file exactly once, and those with a plus what takes its place. All
// behind the sign and one space counts. Name the fastest test that shows the rule, in the package that owns it, and none that draws
// its values: it would find the fault one day and not the next, and keeps what it found in the checkout. A fault must compile, and a
// statement with one must still be one that PostgreSQL accepts, with all its parameters: what breaks all that uses the code says
// nothing about its tests, and neither does what makes one wait for ever. The fault of a statement is in gen/db, since that is what runs.
//
// The faults whose test is the storm take minutes each, and are left out without -storm. A storm of three minutes then meets the
// program with the fault (`make test-faults MUTANTS=all`).
//
// The checkout is never touched: the Go tool reads a changed copy in place of the file (-overlay of go build).
//
// It exits with 1 where a fault survives or the list is wrong, and with 2 for wrong usage.
package main

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// storm is the folder of the storm. It builds the program itself, with the overlay that CONNECT_TEST_FAULTS_OVERLAY names.
const storm = "internal/testing/storm"

// atOnce is how many faults are tried at the same time.
const atOnce = 2

func main() {
	only := flag.String("only", "", "take the faults whose names match")
	storms := flag.Bool("storm", false, "take also the faults that a storm must find, in minutes each")
	flag.Parse()
	pattern, err := regexp.Compile(*only)
	if err != nil || flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: mutants [-only REGEXP] [-storm] FOLDER")
		os.Exit(2)
	}
	if err := run(flag.Arg(0), pattern, *storms); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(root string, only *regexp.Regexp, storms bool) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	chosen, err := load()
	if err != nil {
		return err
	}
	chosen = slices.DeleteFunc(chosen, func(m mutant) bool { return !only.MatchString(m.name) || m.pkg == storm && !storms })
	if len(chosen) == 0 {
		return fmt.Errorf("no fault has a name that matches %s", only)
	}
	folder, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	for i := range chosen {
		if chosen[i].overlay, err = chosen[i].writeOverlay(root, folder); err != nil {
			return err
		}
	}
	return try(root, chosen)
}

// try runs the named tests as they are, which must pass, and then with one fault each.
func try(root string, chosen []mutant) error {
	began := time.Now()
	tests := map[string][]string{} // by package
	for _, m := range chosen {
		if !slices.Contains(tests[m.pkg], m.test) {
			tests[m.pkg] = append(tests[m.pkg], m.test)
		}
	}
	err := inParallel(slices.Sorted(maps.Keys(tests)), func(pkg string) error {
		if output, err := goTest(root, "", pkg, tests[pkg]...); err != nil {
			return fmt.Errorf("without a fault, tests of %s fail: %w\n%s", pkg, err, output)
		}
		return nil
	})
	if err != nil {
		return err
	}
	fmt.Printf("without a fault, the tests of %d packages pass: %.0f s\n", len(tests), time.Since(began).Seconds())
	err = inParallel(chosen, func(m mutant) error {
		start := time.Now()
		result, err := m.caught(root)
		fmt.Printf("%-30s %-36s %-56s %-8s %5.1f s\n", m.name, m.file, m.pkg+" "+m.test, result, time.Since(start).Seconds())
		return err
	})
	fmt.Printf("%d faults: %.0f s\n", len(chosen), time.Since(began).Seconds())
	return err
}

// inParallel calls act for each piece of work, a few at a time, and returns all errors.
func inParallel[T any](work []T, act func(T) error) error {
	errs := make([]error, len(work))
	var running errgroup.Group
	running.SetLimit(atOnce)
	for i, one := range work {
		running.Go(func() error {
			errs[i] = act(one)
			return nil
		})
	}
	return errors.Join(running.Wait(), errors.Join(errs...))
}

// goTest runs tests of a package with an overlay, or with none. The flags are those of `make test`, without the race detector.
func goTest(root, overlay, pkg string, names ...string) (output string, err error) {
	args := []string{"test", "-vet=off", "-trimpath", "-ldflags=-w", "-count=1", "-overlay=" + overlay, "-run=^(" + strings.Join(names, "|") + ")$"}
	if pkg == storm {
		args = append(args, "-tags=faults", "-timeout=20m")
	} else {
		args = append(args, "-timeout=5m")
	}
	command := exec.Command("go", append(args, ".")...)
	command.Dir = filepath.Join(root, pkg) // in its module
	// Seed 4: the servers read from a replica, and PostgreSQL has the limiter.
	command.Env = append(os.Environ(), "CONNECT_TEST_FAULTS_OVERLAY="+overlay, "CONNECT_TEST_FAULTS_SEED=4", "CONNECT_TEST_FAULTS_FOR=3m")
	text, err := command.CombinedOutput()
	return string(text), err
}
