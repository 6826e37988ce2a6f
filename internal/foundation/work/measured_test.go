package work_test

import (
	"testing"
	"testing/synctest"
	"time"

	"connect-svc/internal/foundation/work"
)

// The time that a request uses the database is that of all its uses, also of one that has not ended, and of no other request.
func TestMeasured(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, total := work.Measured(t.Context())
		other, ofOther := work.Measured(ctx)
		work.Pause(t.Context(), time.Second)
		first := work.Use(work.WithActor(ctx, "ada"))
		work.Pause(t.Context(), 2*time.Second)
		second := work.Use(ctx)
		work.Use(work.Unmeasured(ctx))
		work.Pause(t.Context(), 3*time.Second)
		first()
		if got := total(); got != 8*time.Second {
			t.Errorf("two uses of 5 s and of 3 s that goes on took %s", got)
		}
		work.Pause(t.Context(), 4*time.Second)
		second()
		work.Pause(t.Context(), 5*time.Second)
		if got := total(); got != 12*time.Second {
			t.Errorf("uses of 5 s and 7 s took %s", got)
		}
		if got := ofOther(); got != 0 {
			t.Errorf("another request has used it for %s", got)
		}
		work.Use(other)()
		work.Use(t.Context())() // nobody asks
	})
}
