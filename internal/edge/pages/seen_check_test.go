//go:build check

package pages

import (
	"testing"

	"connect-svc/internal/foundation/locale"
)

func TestEveryLanguageSeenBeforeAllowed(t *testing.T) {
	t.Parallel()
	seenBeforeAllowed(t, locale.Default().Tags()...)
}
