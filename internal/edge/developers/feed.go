package developers

import (
	"encoding/xml"
	"fmt"
	"strings"
	"time"
)

// feedName is the file of the feed.
const feedName = "changelog.atom"

// feed of the API changelog, in Atom (RFC 4287).
type feed struct {
	XMLName xml.Name    `xml:"http://www.w3.org/2005/Atom feed"`
	Base    string      `xml:"xml:base,attr"` // of the links in the entries
	ID      string      `xml:"id"`
	Title   string      `xml:"title"`
	Author  string      `xml:"author>name"`
	Updated string      `xml:"updated"`
	Links   []feedLink  `xml:"link"`
	Entries []feedEntry `xml:"entry"`
}

type feedLink struct {
	Rel  string `xml:"rel,attr"`
	Href string `xml:"href,attr"`
}

type feedEntry struct {
	ID      string   `xml:"id"`
	Title   string   `xml:"title"`
	Updated string   `xml:"updated"`
	Link    feedLink `xml:"link"`
	Content struct {
		Type string `xml:"type,attr"`
		HTML string `xml:",chardata"`
	} `xml:"content"`
}

// addFeed adds a feed with an entry for each version of the page's Markdown: its heading, its date and what follows.
func (s *Site) addFeed() error {
	changelog := page{Name: "changelog"}
	source, err := s.source(changelog, nil)
	if err != nil {
		return err
	}
	_, _, sections, err := convert(source)
	if err != nil {
		return err
	}
	site := s.config.BaseURL + Path
	f := feed{Base: site, ID: site + feedName, Title: s.config.Brand.Name + ": API changelog", Author: s.config.Brand.Name,
		Links: []feedLink{{"self", site + feedName}, {"alternate", site + changelog.File()}}}
	versions := strings.Split(string(source), "\n## ")[1:]
	for i, text := range versions {
		parts := strings.SplitN(text, "\n\n", 3)
		if len(parts) < 3 {
			return fmt.Errorf("%s: %q has no text", feedName, parts[0])
		}
		day, err := time.Parse(time.DateOnly, parts[1])
		if err != nil {
			return fmt.Errorf("%s: %w", feedName, err)
		}
		_, body, _, err := convert([]byte("# " + parts[0] + "\n\n" + parts[2]))
		if err != nil {
			return err
		}
		entry := feedEntry{Title: "API " + parts[0], Updated: day.Format(time.RFC3339), Link: feedLink{"alternate", site + changelog.File() + "#" + sections[i].ID}}
		entry.ID, entry.Content.Type = entry.Link.Href, "html"
		_, entry.Content.HTML, _ = strings.Cut(string(body), "</h1>\n")
		f.Entries = append(f.Entries, entry)
	}
	f.Updated = f.Entries[0].Updated // the newest is first
	encoded, err := xml.MarshalIndent(f, "", "  ")
	s.files[feedName] = newFile("application/atom+xml", append([]byte(xml.Header), encoded...))
	return err
}
