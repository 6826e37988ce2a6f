package refusal_test

import (
	"errors"
	"fmt"
	"testing"

	"connect-svc/internal/foundation/refusal"
)

func TestReason(t *testing.T) {
	t.Parallel()
	plain := errors.New("invalid grant")
	refused := fmt.Errorf("exchange: %w", refusal.Because(plain, "the code has expired"))
	if !errors.Is(refused, plain) || refused.Error() != "exchange: invalid grant" || refusal.Reason(refused) != "the code has expired" {
		t.Errorf("%v: %q", refused, refusal.Reason(refused))
	}
	if reason := refusal.Reason(plain); reason != "" {
		t.Errorf("an error without a reason has %q", reason)
	}
}
