package console

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/uuid"

	"connect-svc/internal/client"
	"connect-svc/internal/portal"
	"connect-svc/internal/testing/edgetest"
)
