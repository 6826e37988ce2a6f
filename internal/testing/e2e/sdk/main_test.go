package sdk_test

import (
	"os"
	"testing"

	"connect-svc/internal/testing/pgtest"
)

func TestMain(m *testing.M) {
	if os.Getenv(driverVariable) != "" {
		driveGo(os.Stdin, os.Stdout)
		return
	}
	pgtest.Main(m)
}
