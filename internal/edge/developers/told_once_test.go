package developers

import (
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// proseOf is a page as it stands in the repository, without its code, by sentences and rows. An include from the contract is a name there.
func proseOf(t *testing.T, page string) []string {
	t.Helper()
	source, err := fs.ReadFile(files, "pages/"+page+".md")
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile("(?ms)^```.*?^```$").ReplaceAllString(string(source), "\n\n")
	// A row of a table is one sentence: its cells belong together.
	text = regexp.MustCompile(`([^\n|])\n([^\n|#-])`).ReplaceAllString(text, "$1 $2")
	return regexp.MustCompile(`\n|[.:;] `).Split(text, -1)
}

// The contract says what becomes of a refresh token, and pages include that by the name of the rule. None tells it in words of its own: those
// of three pages said the opposite of the contract.
func TestRulesAreToldOnce(t *testing.T) {
	t.Parallel()
	own := regexp.MustCompile(`(?i)(never|not|don't) ((send|present)\w* (it|that|the|this)|repeat\w*)[^|]* (token|refresh)|` +
		`(send|present|repeat)\w* [^|]*token[^|]* (again|twice|a second time)|token[^|]* (was|is|were|are)( not| never)? (consumed|used up)|` +
		`(may|might|can) (have )?be(en)? (consumed|used up)|\b(neither|no|nor)\b[^|]* a? ?refresh token|token (still|has not|never) (works|left)|` +
		`lapse[^|]* (\d+|ninety) days`)
	for _, said := range []string{
		"A refresh: never send that refresh token again", "If you could not open the connection, nothing was sent, and the token still works",
		"consumes neither a code nor a refresh token", "the token was not consumed", "The token may be consumed", "never repeat a refresh that got no answer",
	} {
		if !own.MatchString(said) {
			t.Errorf("the test overlooks %q", said)
		}
	}
	included := map[string]bool{}
	for _, page := range markdownPages() {
		for _, sentence := range proseOf(t, page) {
			for _, name := range include.FindAllStringSubmatch(sentence, -1) {
				included[name[1]] = true
			}
			if said := own.FindString(include.ReplaceAllString(sentence, "")); said != "" {
				t.Errorf("%s.md tells a rule of the contract in its own words: %q", page, said)
			}
		}
	}
	document, err := contract()
	if err != nil {
		t.Fatal(err)
	}
	section := regexp.MustCompile(`(?s)\n## 4\. Refresh\n(.*?)\n## `).FindStringSubmatch(document.Description)
	if section == nil {
		t.Fatal("the contract has no section about refreshing")
	}
	rules := regexp.MustCompile(`(?m)^- \*\*(.*?)\*\*: `).FindAllStringSubmatch(section[1], -1)
	if len(rules) < 8 {
		t.Errorf("the contract has %d rules", len(rules))
	}
	for _, rule := range rules {
		if !included[rule[1]] {
			t.Errorf("no page includes the rule %q", rule[1])
		}
	}
}

// A rule is an item of a list, or a table.
func TestRules(t *testing.T) {
	t.Parallel()
	contract := "## A\n\n- **Once**: Send it\n  `once`.\n- **More**: x\n\n## Limits\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\ntext\n"
	got := map[string]string{}
	for _, rule := range rules.FindAllStringSubmatch(contract, -1) {
		got[rule[1]] = rule[2] + rule[3]
	}
	want := map[string]string{"Once": "Send it\n  `once`.", "More": "x", "Limits": "| a | b |\n|---|---|\n| 1 | 2 |"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// figure is one of the contract, which pages may say as well: for whom it is part of a longer thought, such as "15 minutes".
type figure struct {
	about    string // what a sentence of a page says beside it, if it means this one
	contract string // where it stands in the contract; the group is the number
	unit     string
}

var figures = []figure{
	{"access token|every|connecting", `Access token \| (\d+) seconds`, "second"},
	{"code|callback|works once", `Code \| (\d+) seconds, once`, "second"},
	{"inactivity|refreshed|lapse", `unused for (\d+) days`, "day"},
	{"redirect|session|URL|page", `redirect to decision \| (\d+) minutes`, "minute"},
	{"cursor|traversal", `Cursor \| \d+ characters, (\d+) minutes`, "minute"},
	{"range|read|longer|request", `Dates in one request \| (\d+)`, "day"},
	{"range|at most", `Dates in one request \| (\d+)`, "date"},
	{"URL", `URL of a read \| (\d+) characters`, "character"},
	{"credential", `each field (\d+) characters`, "character"},
	{"verifier", `verifier \(43 to (\d+) characters`, "character"},
	{"verifier|challenge", `code_challenge. \| (\d+) characters`, "character"},
	{"answer", `2xx within (\d+) seconds`, "second"},
	{"answer", `at most (\d+) KB;`, "KB"},
	{"timestamp", `webhook-timestamp. more than (\d+) minutes`, "minute"},
	{"tries again", `tried again after (\d+) seconds`, "second"},
	{"tries again", `after 5 seconds, 5 and (\d+) minutes`, "minute"},
	{"tries again", `14, 20 and (\d+) hours`, "hour"},
	{"signatures", `two entries, for (\d+) hours`, "hour"},
	{"sent again|ids", `remember the ids for (\d+) days`, "day"},
	{"removal", `announced (\d+) months`, "month"},
}

// ownFigures are those that the contract does not have, by their page.
var ownFigures = map[string]string{
	"going-live":    "12 hour", // of a link to the portal
	"quick-start":   "10 minute",
	"refresh":       "90 second",
	"sandbox":       "180 day, 2 second, 20 day, 28 second", // of the driver
	"paging":        "30 day",                               // one less than 31 dates
	"token-storage": "32 byte",
	"webhooks":      "4 day",
}

// Each number with a unit on a page is the contract's, or ownFigures has it: a page that says another one is wrong, as is a page that keeps the
// old one when the contract changes.
func TestFiguresAreTheContracts(t *testing.T) {
	t.Parallel()
	document, err := contract()
	if err != nil {
		t.Fatal(err)
	}
	description := strings.Join(strings.Fields(document.Description), " ")
	values := make([]string, len(figures))
	for i, f := range figures {
		found := regexp.MustCompile("(?i)" + f.contract).FindStringSubmatch(description)
		if found == nil {
			t.Fatalf("the contract does not say %s", f.contract)
		}
		values[i] = found[1] + " " + f.unit
	}
	said := regexp.MustCompile(`(?i)\b(\d[\d,]*|two|three|four|five|six|ten|twelve) (seconds?|minutes?|hours?|days?|months?|characters?|bytes?|KB|dates?|s)\b`)
	used := map[string]bool{}
	for _, page := range markdownPages() {
		for _, sentence := range proseOf(t, page) {
			for _, m := range said.FindAllStringSubmatch(include.ReplaceAllString(sentence, ""), -1) {
				value := numeral(m[1]) + " " + strings.TrimSuffix(m[2], "s")
				if n, err := strconv.Atoi(numeral(m[1])); err == nil && m[2] == "s" { // of a clock that is moved just beyond a limit
					value = strconv.Itoa(n-1) + " second"
				}
				right := false
				for i, f := range figures {
					means := regexp.MustCompile("(?i)" + f.about).MatchString(sentence)
					right = right || means && (values[i] == value || inSeconds(values[i]) == inSeconds(value))
				}
				switch own := page + " " + value; {
				case right:
				case strings.Contains(", "+ownFigures[page]+",", ", "+value+","):
					used[own] = true
				default:
					t.Errorf("%s.md says %q, which is not the contract's: %q", page, m[0], sentence)
				}
			}
		}
	}
	for page, own := range ownFigures {
		for value := range strings.SplitSeq(own, ", ") {
			if value != "" && !used[page+" "+value] {
				t.Errorf("%s.md does not say %s any more", page, value)
			}
		}
	}
}

func numeral(word string) string {
	if n, is := map[string]string{"two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "ten": "10", "twelve": "12"}[strings.ToLower(word)]; is {
		return n
	}
	return strings.ReplaceAll(word, ",", "")
}

// inSeconds makes equal lifetimes equal: five minutes are 300 seconds.
func inSeconds(value string) string {
	number, unit, _ := strings.Cut(value, " ")
	n, err := strconv.Atoi(number)
	if each := map[string]int{"minute": 60, "day": 24 * 60 * 60}[unit]; err == nil && each > 0 {
		return fmt.Sprintf("%d second", each*n)
	}
	return value
}
