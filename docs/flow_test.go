package docs_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The picture of the README shows words that users see, in letters that can be read on a phone of 320 pixels, where GitHub
// leaves 288 for a picture.
func TestFlowPicture(t *testing.T) {
	t.Parallel()
	picture := read(t, "docs/flow.svg")
	number := func(pattern string) (values []float64) {
		for _, found := range regexp.MustCompile(pattern).FindAllStringSubmatch(picture, -1) {
			value, err := strconv.ParseFloat(found[1], 64)
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, value)
		}
		return values
	}
	width := number(`viewBox="0 0 (\d+) `)
	sizes := number(`font-size(?:="|: )([\d.]+)`)
	if len(width) != 1 || len(sizes) == 0 {
		t.Fatalf("width %v, sizes of letters %v", width, sizes)
	}
	for _, size := range sizes {
		if on := size * min(1, 288/width[0]); on < 12 {
			t.Errorf("letters of %g are %.1f pixels on a phone", size, on)
		}
	}
	said := strings.NewReplacer("{{.Partner}}", "Stride Club", "{{.Member.Name}}", "Robin").
		Replace(read(t, "internal/foundation/locale/texts/en.toml") + read(t, "sdk/examples/partner/page.html"))
	words := regexp.MustCompile(`class="ui[^>]*>([^<]+)<`).FindAllStringSubmatch(picture, -1)
	if len(words) < 10 {
		t.Errorf("only %d words of pages", len(words))
	}
	for _, word := range words {
		if !strings.Contains(said, `"`+word[1]+`"`) && !strings.Contains(said, ">"+word[1]+"<") {
			t.Errorf("no page says %q", word[1])
		}
	}
}
