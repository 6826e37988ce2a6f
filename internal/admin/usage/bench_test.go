package usage

import (
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/foundation/work"
)

// BenchmarkCount is what the counting adds to a request.
func BenchmarkCount(b *testing.B) {
	u := New(nil, work.DefaultLimits, slog.New(slog.DiscardHandler), time.Now)
	request := Request{uuid.New(), "readDailyActivity", 200, 3 * time.Millisecond, true}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			u.Count(request)
		}
	})
}
