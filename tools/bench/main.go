package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
)

// settings of a run.
type settings struct {
	seconds    int    // of each measurement
	rounds     int    // whose median counts
	levels     []int  // connections at one time
	operations string // a regular expression; empty: all
	stepsRows  int    // rows of daily steps
	chain      int    // refreshes of the chain whose last ones are compared with its first
	program    string // the connect-svc to measure
	out        string // the JSON file
	profiles   string // directory for CPU profiles; empty: none
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "connect-bench:", err)
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case "constant":
			return serveConstant(ctx, args[1:])
		case "others":
			return serveOthers()
		case "isolation":
			return runIsolation(ctx, args[1:])
		case "compare":
			if len(args) != 3 {
				return errors.New("compare takes two files: the old and the new figures")
			}
			return compare(os.Stdout, args[1], args[2])
		}
	}
	s, err := parseSettings(args)
	if err != nil {
		return err
	}
	return measure(ctx, s)
}

func parseSettings(args []string) (settings, error) {
	var s settings
	var levels string
	flags := flag.NewFlagSet("connect-bench", flag.ContinueOnError)
	flags.IntVar(&s.seconds, "seconds", 2, "length of each measurement in seconds")
	flags.IntVar(&s.rounds, "rounds", 3, "rounds, of which the median counts")
	flags.StringVar(&levels, "connections", "1,8,32", "connections at one time")
	flags.StringVar(&s.operations, "only", "", "measure the operations that match this regular expression")
	flags.IntVar(&s.stepsRows, "steps-rows", 1_000_000, "rows of daily steps in the database")
	flags.IntVar(&s.chain, "chain", 10_000, "refreshes of one chain; 0 leaves that out")
	flags.StringVar(&s.program, "program", "bin/connect-svc", "the program to measure")
	flags.StringVar(&s.out, "out", "bin/bench.json", "file for the figures; beside it, …-details.json has all of them")
	flags.StringVar(&s.profiles, "profiles", "", "directory for CPU profiles; needs a program built with -tags profile")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	for text := range strings.SplitSeq(levels, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 256 {
			return s, fmt.Errorf("-connections: %q is not a number from 1 to 256", text)
		}
		s.levels = append(s.levels, n)
	}
	if s.seconds < 1 || s.rounds < 1 || flags.NArg() > 0 {
		return s, errors.New("-seconds and -rounds are 1 or more, and there are no other arguments")
	}
	return s, nil
}
