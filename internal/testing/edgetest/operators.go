package edgetest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connect-svc/internal/credential"
	"connect-svc/internal/operators"
)

// Tokens of operators: the one without a name, ada's and grace's.
const (
	UnnamedToken = "0123456789abcdef0123456789abcdef"
	AdaToken     = "svco_ada-ada-ada-ada-ada-ada-ada-ada"
	GraceToken   = "svco_grace-grace-grace-grace-grace"
)

// Tokens are the token without a name, and those of a file with these lines: pairs of a name with its right, and a token. Without
// any, ada may change things and grace look at them.
func Tokens(t testing.TB, lines ...string) *operators.Tokens {
	t.Helper()
	if len(lines) == 0 {
		lines = []string{"ada write", AdaToken, "grace read", GraceToken}
	}
	var text strings.Builder
	for i := 0; i < len(lines); i += 2 {
		fmt.Fprintf(&text, "%s sha256:%x\n", lines[i], credential.Hash(lines[i+1]))
	}
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens, err := operators.New(credential.Hash(UnnamedToken), file)
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}
