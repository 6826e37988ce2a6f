package work

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"time"
)

// restartPause is the pause before work that panicked starts again.
const restartPause = time.Second

// Panic is the error of a panic.
type Panic struct {
	value any
	stack string
}

// Error implements error. It has a line for each function on the stack.
func (p *Panic) Error() string { return fmt.Sprintf("panic: %v\n%s", p.value, p.stack) }

// NewPanic makes an error of what recover returned. Call it in the deferred function that recovers.
func NewPanic(value any) *Panic {
	var callers [64]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers[:])])
	var stack strings.Builder
	for {
		frame, more := frames.Next()
		fmt.Fprintf(&stack, "%s %s:%d\n", frame.Function, frame.File, frame.Line)
		if !more {
			return &Panic{value, stack.String()}
		}
	}
}

// Try calls act and returns its error, or a *[Panic] if it panics.
func Try(act func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = NewPanic(value)
		}
	}()
	return act()
}

// Restart runs work, which returns when ctx ends. If work panics, Restart logs the panic and runs work again after a second.
func Restart(ctx context.Context, logger *slog.Logger, name string, work func(context.Context)) {
	for {
		err := Try(func() error { work(ctx); return nil })
		if err == nil {
			return
		}
		logger.Error("background work panicked", "work", name, "cause", err)
		if !Pause(ctx, restartPause) {
			return
		}
	}
}
