//go:build faults

package main

import (
	"flag"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"testing"
)

var (
	seconds     = flag.Int("seconds", 5, "length of each measurement")
	out         = flag.String("out", "", "file for the figures of TestIsolation, instead of bin/isolation.json")
	dayUsers    = flag.Int("users", 2_000_000, "of TestDay")
	dayPartners = flag.Int("partners", 10_000, "of TestDay")
)

// onStage runs a test with a stage, at the top of the checkout. A signal ends what runs on the stage.
func onStage(t *testing.T, play func(*testing.T, *stage)) {
	t.Chdir("../..")
	s := newStage(settings{Seconds: *seconds, Only: regexp.MustCompile("."), Program: "bin/connect-svc", StepsRows: 1_000_000})
	defer s.close()
	signals, stop := signal.NotifyContext(s.life, os.Interrupt, syscall.SIGTERM)
	defer stop()
	s.life = signals
	play(t, s)
}

// TestIsolation: one partner's trouble does not reach another one.
func TestIsolation(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) { testIsolation(t, s, *out) })
}

// TestFloods: a flood of requests without credentials reaches neither partners nor users.
func TestFloods(t *testing.T) { onStage(t, testFloods) }

// TestDay: an operator answers what people ask within three steps, which are quick.
func TestDay(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) { testDay(t, s, *dayUsers, *dayPartners) })
}
