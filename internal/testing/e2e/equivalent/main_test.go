// Package equivalent_test holds that requests which mean the same by RFC 9110, 9112 and 9113 get the same answer, whatever form a library or a
// proxy gives them. Each request is sent as bytes, as frames, through nginx and HAProxy, and by clients of other makes.
package equivalent_test

import (
	"testing"

	"connect-svc/internal/testing/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }
