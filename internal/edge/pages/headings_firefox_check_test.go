//go:build check

package pages

import (
	"encoding/json"
	"net/http/httptest"
	"testing"

	"connect-svc/internal/foundation/locale"
)

// Firefox divides words, for which Chromium on Linux has no dictionaries. In a heading it divides long ones alone, in every language.
func TestFirefoxHeadings(t *testing.T) {
	t.Parallel()
	handler, err := Preview(acme(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	browser := openFirefox(t, nil)
	for _, tag := range locale.Default().Tags() {
		for _, name := range []string{"consent", "consent-again", "account", "receipt"} {
			browser.do("browsingContext.navigate", map[string]any{"context": browser.context, "url": server.URL + "/" + tag + "/" + name, "wait": "complete"}, nil)
			for _, width := range []int{1280, 320} {
				browser.do("browsingContext.setViewport", map[string]any{"context": browser.context, "viewport": map[string]int{"width": width, "height": 844}}, nil)
				text, err := browser.evaluate(`JSON.stringify([...document.querySelectorAll("h1")].flatMap((heading) => {
					const divided = [], texts = document.createTreeWalker(heading, NodeFilter.SHOW_TEXT), range = document.createRange();
					while (texts.nextNode()) for (const word of texts.currentNode.data.matchAll(/[\p{L}]+/gu)) {
						range.setStart(texts.currentNode, word.index);
						range.setEnd(texts.currentNode, word.index + word[0].length);
						if (word[0].length < 15 && new Set([...range.getClientRects()].map((line) => line.top)).size > 1) divided.push(word[0]);
					}
					return divided;
				}))`)
				var divided []string
				if err == nil {
					err = json.Unmarshal([]byte(text), &divided)
				}
				if err != nil || len(divided) > 0 {
					t.Errorf("%s in %s at %d px: %q is divided, %v", name, tag, width, divided, err)
				}
			}
		}
	}
}
