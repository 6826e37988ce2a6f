package edgetest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connect-svc/internal/admin/operators"
	"connect-svc/internal/foundation/credential"
)

// Tokens of operators: the one without a name, ada's and grace's.
const (
	UnnamedToken = "0123456789abcdef0123456789abcdef"
	AdaToken     = "svco_ada-ada-ada-ada-ada-ada-ada-ada"
	GraceToken   = "svco_grace-grace-grace-grace-grace"
)

// Operators are the holder of the token without a name, ada, who may change things, and grace, who may look at them.
func Operators(t testing.TB) *operators.Tokens {
	t.Helper()
	return Tokens(t, "ada write", AdaToken, "grace read", GraceToken)
}

// Tokens are the token without a name, and those of a file with these lines: pairs of a name with its right, and a token.
func Tokens(t testing.TB, lines ...string) *operators.Tokens {
	t.Helper()
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
