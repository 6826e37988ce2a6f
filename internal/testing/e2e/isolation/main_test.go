package isolation_test

import (
	"testing"

	"connect-svc/internal/testing/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }
