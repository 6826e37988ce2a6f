package operators_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connect-svc/internal/credential"
	"connect-svc/internal/operators"
)

const unnamed = "0123456789abcdef0123456789abcdef"

func create(t *testing.T, name string, readOnly bool) (token, line string) {
	t.Helper()
	token, line, err := operators.Create(operators.Operator{Name: name, ReadOnly: readOnly})
	if err != nil {
		t.Fatal(err)
	}
	return token, line
}

func write(t *testing.T, file string, lines ...string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tokens")
	ada, adaLine := create(t, "ada", false)
	spare, spareLine := create(t, "ada", false) // while one replaces the other
	grace, graceLine := create(t, "grace", true)
	write(t, file, "# who may what", "", adaLine+" # on call", "\t"+strings.ToUpper(spareLine[:3])+spareLine[3:]+"\r", graceLine)
	tokens, err := operators.New(credential.Hash(unnamed), file)
	if err != nil {
		t.Fatal(err)
	}
	check := func(what, token string, want operators.Operator, wantFound bool) {
		t.Helper()
		if got, found := tokens.Find(token); got != want || found != wantFound {
			t.Errorf("%s: %+v, %t", what, got, found)
		}
	}
	nobody := operators.Operator{}
	check("ada", ada, operators.Operator{Name: "ada"}, true)
	check("the other one of ADA", spare, operators.Operator{Name: "ADA"}, true)
	check("grace", grace, operators.Operator{Name: "grace", ReadOnly: true}, true)
	check("without a name", unnamed, operators.Operator{Name: "operator"}, true)
	check("none", "", nobody, false)
	check("another", ada+"x", nobody, false)
	check("a hash", strings.Fields(adaLine)[2], nobody, false)

	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := operators.New(nil, file); err == nil || strings.Contains(err.Error(), file) {
		t.Errorf("without the file: %v", err)
	}
}

func TestWithoutAFile(t *testing.T) {
	t.Parallel()
	if tokens, err := operators.New(nil, ""); tokens != nil || err != nil {
		t.Errorf("without any token: %v, %v", tokens, err)
	}
	tokens, err := operators.New(credential.Hash(unnamed), "")
	if err != nil {
		t.Fatal(err)
	}
	if got, found := tokens.Find(unnamed); !found || got.Name != "operator" || got.ReadOnly {
		t.Errorf("%+v, %t", got, found)
	}
}

func TestBadFiles(t *testing.T) {
	t.Parallel()
	token, line := create(t, "ada", false)
	hash := strings.Fields(line)[2]
	for name, test := range map[string]struct{ text, want string }{
		"too few":           {"ada write", "line 1: want NAME"},
		"too many":          {line + " x", "line 1: want NAME"},
		"the token":         {"ada write " + token, "line 1: the hash"},
		"no algorithm":      {"ada write " + strings.TrimPrefix(hash, "sha256:"), "line 1: the hash"},
		"another algorithm": {"ada write " + strings.Replace(hash, "256", "512", 1), "line 1: the hash"},
		"short":             {"ada write " + hash[:len(hash)-2], "line 1: the hash"},
		"odd":               {"ada write " + hash[:len(hash)-1], "line 1: the hash"},
		"not hexadecimal":   {"ada write " + hash[:len(hash)-1] + "g", "line 1: the hash"},
		"rights":            {"# x\n\nada admin " + hash, "line 3: after the name"},
		"an address":        {"ada@example.com write " + hash, "line 1: the name"},
		"a kind of actor":   {"System write " + hash, "line 1: the name"},
		"twice":             {line + "\n" + strings.Replace(line, "ada", "grace", 1), "line 2: another token"},
		"the unnamed one":   {"ada write sha256:" + strings.ToUpper(hexHash(unnamed)), "line 1: another token"},
	} {
		file := filepath.Join(t.TempDir(), "tokens")
		write(t, file, test.text)
		_, err := operators.New(credential.Hash(unnamed), file)
		if err == nil || !strings.HasPrefix(err.Error(), test.want) || strings.Contains(err.Error(), hash[10:40]) || strings.Contains(err.Error(), token[5:]) {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
	}
	if _, _, err := operators.Create(operators.Operator{Name: "operator"}); err == nil {
		t.Error("a token for the operator without a name")
	}
}

func hexHash(token string) string { return fmt.Sprintf("%x", credential.Hash(token)) }
