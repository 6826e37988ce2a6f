package main

import (
	"bufio"
	"errors"
	"fmt"
	"strings"
)

// confirmation is the flag of every command that destroys something.
type confirmation struct {
	Yes bool `help:"Do not ask for confirmation."`
}

// confirm asks whether to do what, which completes the sentence "This will …". It returns nil with --yes, and if
// somebody at a terminal agrees. Without a terminal there is nobody to ask: that is wrong usage.
func (c confirmation) confirm(p *program, what string) error {
	if c.Yes {
		return nil
	}
	if !p.asks {
		return usagef("this will %s: add --yes to do it without a terminal", what)
	}
	fmt.Fprintf(p.stderr, "This will %s.\nType yes to continue: ", what)
	input := interruptible(p.ctx, p.stdin)
	defer func() { _ = input.Close() }()
	answer, err := bufio.NewReader(input).ReadString('\n')
	if p.ctx.Err() != nil {
		return p.ctx.Err()
	}
	if err != nil || strings.TrimSpace(answer) != "yes" {
		return errors.New("not confirmed: nothing was done")
	}
	return nil
}

// count is "1 connection", "2 connections".
func count(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
