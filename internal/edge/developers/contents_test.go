package developers

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"

	"connect-svc/api"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/credential"
)

// headings are those of the second level, as they are written.
func headings(t *testing.T, page string) (labels []string) {
	t.Helper()
	source, err := os.ReadFile(filepath.Join("pages", page+".md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range regexp.MustCompile(`(?m)^## (.*)$`).FindAllSubmatch(source, -1) {
		labels = append(labels, string(found[1]))
	}
	return labels
}

// Each error code of the contract is explained, and no other. Its anchor is the code itself, and what answers with it is linked.
func TestErrorCodes(t *testing.T) {
	t.Parallel()
	parsed, err := openapi3.NewLoader().LoadFromData(api.Partner)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	know := func(value any) {
		if code, is := value.(string); is {
			known[code] = true
		}
	}
	// The shapes of errors: a field error.code, or a field error whose schema lists the codes.
	for _, schema := range parsed.Components.Schemas {
		field := schema.Value.Properties["error"]
		if field == nil {
			continue
		}
		if code := field.Value.Properties["code"]; code != nil {
			field = code
		}
		know(field.Value.Const)
		for _, value := range field.Value.Enum {
			know(value)
		}
	}
	var want []string
	for code := range known {
		want = append(want, code)
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, headings(t, codesName)); diff != "" || len(want) < 15 {
		t.Errorf("%d codes\n%s", len(want), diff)
	}
	site := newSite(t)
	page, reference := parse(t, site.files[codesName+".html"]), parse(t, site.files[referenceName+".html"])
	for _, code := range want {
		if page.Find(`h2[id="`+code+`"]`).Length() != 1 {
			t.Errorf("%s has no anchor", code)
		}
	}
	answers := 0
	reference.Find(".refusals > div").Each(func(_ int, answer *goquery.Selection) {
		id := answer.AttrOr("id", "")
		answer.Find(".codes a").Each(func(_ int, code *goquery.Selection) {
			answers++
			heading := page.Find(`h2[id="` + code.Text() + `"]`)
			if heading.NextUntil("h2").Find(`a[href="reference.html#`+id+`"]`).Length() != 1 {
				t.Errorf("%s does not lead to %s", code.Text(), id)
			}
		})
	})
	if answers < 30 {
		t.Errorf("the reference has %d error answers", answers)
	}
}

// The changelog has each version of the contract, with the date of its release.
func TestChangelog(t *testing.T) {
	t.Parallel()
	released, err := filepath.Glob("../../../api/released/openapi-*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, name := range released {
		want = append(want, strings.TrimSuffix(strings.TrimPrefix(filepath.Base(name), "openapi-"), ".yaml"))
	}
	slices.Sort(want)
	slices.Reverse(want)
	got := headings(t, "changelog")
	if parsed := regexp.MustCompile(`(?m)^  version: "?([\d.]+)"?$`).FindSubmatch(api.Partner); len(got) > 0 && got[0] != string(parsed[1]) {
		t.Errorf("the newest version is %s, and the contract is %s", got[0], parsed[1])
	} else if !slices.Contains(want, string(parsed[1])) {
		want = slices.Insert(want, 0, string(parsed[1])) // is not released yet
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	page, err := os.ReadFile("pages/changelog.md")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("../../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range got {
		date := regexp.MustCompile(`(?m)^## ` + regexp.QuoteMeta(version) + `\n\n(\d{4}-\d\d-\d\d)$`).FindSubmatch(page)
		if date == nil || !strings.Contains(string(program), "## ["+version+"] - "+string(date[1])+"\n") {
			t.Errorf("%s has no date, or another than in CHANGELOG.md: %q", version, date)
		}
	}
}

// The site's index and the search have every page, heading and field.
func TestIndex(t *testing.T) {
	t.Parallel()
	site := newSite(t)
	index := map[string]bool{}
	parse(t, site.files[indexName+".html"]).Find("main a").Each(func(_ int, link *goquery.Selection) { index[link.AttrOr("href", "")] = true })
	list := string(site.files[site.assets["places.js"]].Content)
	found := 0
	for _, name := range pageNames() {
		if name == indexName {
			continue
		}
		page := parse(t, site.files[name+".html"])
		addresses := []string{name + ".html"}
		page.Find("article h2, article h3, article .field").Each(func(_ int, element *goquery.Selection) {
			if element.Closest("details").Length() == 0 {
				addresses = append(addresses, name+".html#"+element.AttrOr("id", ""))
			}
		})
		for _, address := range addresses {
			found++
			if !index[address] || !strings.Contains(list, `"`+address+`"`) {
				t.Errorf("%s is in the index: %t, in the search: %t", address, index[address], strings.Contains(list, `"`+address+`"`))
			}
		}
	}
	if found < 200 {
		t.Errorf("only %d places", found)
	}
}

// The contract says by itself what only the specification said: the prefixes of credentials, as the page on token storage does and package
// credential makes them, and the causes of the page in the browser (specification 2.9 and 7.2).
func TestTablesOfTheContract(t *testing.T) {
	t.Parallel()
	site := newSite(t)
	table := func(page, header string) (rows [][]string) {
		t.Helper()
		tables := parse(t, site.files[page+".html"]).Find("table").FilterFunction(func(_ int, table *goquery.Selection) bool {
			return strings.TrimSpace(table.Find("th").First().Text()) == header
		})
		tables.Find("tbody tr").Each(func(_ int, row *goquery.Selection) {
			rows = append(rows, row.Find("td").Map(func(_ int, cell *goquery.Selection) string { return cell.Text() }))
		})
		if tables.Length() != 1 || len(rows) == 0 {
			t.Fatalf("%s has %d tables of each %s", page, tables.Length(), header)
		}
		return rows
	}
	prefixes := table(rulesName, "Credential")
	if diff := cmp.Diff(prefixes, table("token-storage", "Credential")); diff != "" {
		t.Errorf("the prefixes of the contract (-) and of the page (+):\n%s", diff)
	}
	for _, row := range prefixes {
		if secret := row[1] + "AbHWAXM2JEVIqYBzQ3d1AbHWAXM2JEVIqYBzQ3d1"; strings.Contains(credential.Redact(secret), secret) {
			t.Errorf("%s: %s is the prefix of no credential", row[0], row[1])
		}
	}
	var causes []string
	for _, row := range table(rulesName, "Cause") {
		causes = append(causes, row[0])
	}
	want := []string{string(oauth.InvalidRequest), string(oauth.UnauthorizedClient), string(oauth.UnsupportedResponseType), string(oauth.InvalidScope)}
	if diff := cmp.Diff(want, causes); diff != "" {
		t.Errorf("causes (-want +got):\n%s", diff)
	}
}

// The reference says whose it is: no address of the contract's examples is left.
func TestReferenceIsOfTheService(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"https://connect.acme.test", "https://connect.example.test"} {
		site, err := New(Config{BaseURL: address})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{referenceName, rulesName, "consent"} {
			text := string(site.files[name+".html"].Content)
			others := strings.ReplaceAll(text, address, "")
			if others == text || strings.Contains(others, "connect.example") || strings.Contains(text, address+".test") || strings.Contains(text, "{base_url}") {
				t.Errorf("%s is not of the service at %s", name, address)
			}
		}
	}
}
