package operators_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connect-svc/internal/admin/operators"
	"connect-svc/internal/foundation/credential"
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
	write(t, file, "\ufeff# who may what", "", adaLine+" # on call", "\t"+strings.ToUpper(spareLine[:3])+spareLine[3:]+"\r", graceLine)
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

	// Each line counts alone: what is wrong with the others changes nothing.
	write(t, file, "ada", adaLine, "bob write sha256:0f", spareLine, "", "eve write "+strings.Fields(spareLine)[2])
	tokens, err = operators.New(credential.Hash(unnamed), file)
	const says = "line 1: want NAME read|write sha256:HEX; line 3: the hash must be sha256: and 64 hexadecimal digits; " +
		"line 4: another token is the same, and its holder would be ambiguous; line 6: another token is the same, and its holder would be ambiguous"
	if err == nil || err.Error() != says {
		t.Errorf("%v, want %s", err, says)
	}
	check("ada, among bad lines", ada, operators.Operator{Name: "ada"}, true)
	check("on two lines", spare, nobody, false)
	check("grace, whose line has gone", grace, nobody, false)
	check("without a name, beside bad lines", unnamed, operators.Operator{Name: "operator"}, true)

	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	tokens, err = operators.New(credential.Hash(unnamed), file)
	if err == nil || strings.Contains(err.Error(), file) {
		t.Errorf("without the file: %v", err)
	}
	check("ada, without the file", ada, nobody, false)
	check("without a name, without the file", unnamed, operators.Operator{Name: "operator"}, true)
}

// The rest of a list lets in nobody who was not in it, and nobody with more rights than both give.
func TestLeft(t *testing.T) {
	t.Parallel()
	ada, adaLine := create(t, "ada", false)
	grace, graceLine := create(t, "grace", true)
	eve, eveLine := create(t, "eve", false)
	list := func(unnamed []byte, lines ...string) *operators.Tokens {
		t.Helper()
		file := filepath.Join(t.TempDir(), "tokens")
		write(t, file, lines...)
		tokens, err := operators.New(unnamed, file)
		if err != nil {
			t.Fatal(err)
		}
		return tokens
	}
	before := list(credential.Hash(unnamed), adaLine, graceLine)
	less, more := strings.Replace(adaLine, "write", "read", 1), strings.Replace(graceLine, "read", "write", 1)
	for name, test := range map[string]struct {
		now  *operators.Tokens
		want string
	}{
		"the same":           {before, "ada write, grace read, operator write"},
		"one has gone":       {list(nil, graceLine), "grace read"},
		"one is new":         {list(credential.Hash(unnamed), adaLine, graceLine, eveLine), "ada write, grace read, operator write"},
		"less and more":      {list(nil, less, more), "ada read, grace read"},
		"under another name": {list(nil, strings.Replace(adaLine, "ada", "eve", 1)), "ada write"},
		"none":               {list(nil), ""},
		"off":                {nil, ""},
	} {
		left := test.now.Left(before)
		var got []string
		for _, token := range []string{ada, eve, grace, unnamed} {
			if holder, in := left.Find(token); in {
				got = append(got, holder.Name+" "+map[bool]string{true: "read", false: "write"}[holder.ReadOnly])
			}
		}
		if text := strings.Join(got, ", "); text != test.want {
			t.Errorf("%s: %s, want %s", name, text, test.want)
		}
	}
	if left := before.Left(nil); left != nil {
		t.Error("a list that was off is on")
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
		"twice":             {line + "\n" + strings.Replace(line, "ada", "grace", 1), "line 1: another token is the same, and its holder would be ambiguous; line 2: another token"},
		"in a bad line":     {"ada admin " + hash + "\n" + line, "line 1: after the name, want NAME read|write sha256:HEX; line 2: another token"},
		"many":              {strings.Repeat("x\n", 1000), "line 1: want NAME"},
		"the unnamed one":   {"ada write sha256:" + strings.ToUpper(hexHash(unnamed)), "line 1: another token"},
	} {
		file := filepath.Join(t.TempDir(), "tokens")
		write(t, file, test.text)
		tokens, err := operators.New(credential.Hash(unnamed), file)
		if _, in := tokens.Find(token); in {
			t.Errorf("%s: the token lets somebody in", name)
		}
		if _, in := tokens.Find(unnamed); !in {
			t.Errorf("%s: the token without a name is refused", name)
		}
		if err == nil || len(err.Error()) > 2000 || !strings.HasPrefix(err.Error(), test.want) || strings.Contains(err.Error(), hash[10:40]) || strings.Contains(err.Error(), token[5:]) {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
	}
	if _, _, err := operators.Create(operators.Operator{Name: "operator"}); err == nil {
		t.Error("a token for the operator without a name")
	}
}

func hexHash(token string) string { return fmt.Sprintf("%x", credential.Hash(token)) }
