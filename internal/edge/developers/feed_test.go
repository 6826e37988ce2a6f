package developers

import (
	"encoding/xml"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
)

// The feed has each version of the changelog, with its date, its text and an address that is there.
func TestFeed(t *testing.T) {
	t.Parallel()
	site := newSite(t)
	var got feed
	if err := xml.Unmarshal(site.files[feedName].Content, &got); err != nil {
		t.Fatal(err)
	}
	page, err := goquery.NewDocumentFromReader(strings.NewReader(string(site.files["changelog.html"].Content)))
	if err != nil {
		t.Fatal(err)
	}
	versions := page.Find("article h2")
	if len(got.Entries) != versions.Length() || len(got.Entries) == 0 || got.Updated != got.Entries[0].Updated {
		t.Fatalf("%d entries, the newest of %s", len(got.Entries), got.Updated)
	}
	for i, entry := range got.Entries {
		heading := versions.Eq(i)
		id, _ := heading.Attr("id")
		_, anchor, _ := strings.Cut(entry.Link.Href, "#")
		date := heading.Next().Text()
		if anchor != id || "API "+strings.TrimSuffix(heading.Text(), " #") != entry.Title || entry.Updated != date+"T00:00:00Z" ||
			!strings.Contains(entry.Content.HTML, "<li>") || strings.Contains(entry.Content.HTML, date) {
			t.Errorf("%s: %+v", id, entry)
		}
	}
}
