package pages

import (
	"fmt"
	"net/http/httptest"
	"testing"

	"github.com/chromedp/chromedp"

	"connect-svc/internal/testing/browsertest"
)

// TestChromiumSeenBeforeAllowed looks at one of the languages with most letters. TestEveryLanguageSeenBeforeAllowed looks at all.
func TestChromiumSeenBeforeAllowed(t *testing.T) {
	t.Parallel()
	seenBeforeAllowed(t, "fr")
}

// seenBeforeAllowed holds the consent, and its page for a partner that is connected already, to this: when it opens, all that the partner
// may see, and from when on, is whole on the screens of telephones, even with the bars of their browsers. The decision covers none of it,
// on a smaller screen, too, wherever the page is scrolled to.
func seenBeforeAllowed(t *testing.T, tags ...string) {
	t.Helper()
	handler, err := Preview(acme(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	tab := browsertest.Share(t, nil).NewTab(t)
	for _, tag := range tags {
		for _, name := range []string{"consent", "consent-today", "consent-again", "consent-halted"} {
			tab.Open(server.URL + "/" + tag + "/" + name)
			for _, size := range [][2]int64{{320, 568}, {360, 640}, {375, 553}, {390, 664}} {
				tab.Do(chromedp.EmulateViewport(size[0], size[1]))
				where := fmt.Sprintf("%s in %s at %d × %d", name, tag, size[0], size[1])
				var seen struct{ Parts, End, Covered, Allow int64 }
				tab.Evaluate(`(() => {
					const bottoms = (chosen) => [...document.querySelectorAll(chosen)].map((e) => Math.ceil(e.getBoundingClientRect().bottom));
					const bar = document.querySelector(".decision");
					const parts = bottoms(".reads li, .until");
					const found = { Parts: parts.length, End: Math.max(...parts), Covered: 0 };
					for (let y = 0; y <= document.documentElement.scrollHeight - innerHeight; y += 10) {
						scrollTo(0, y);
						found.Covered = Math.max(found.Covered, Math.max(...bottoms(".reads li, .until")) - bar.getBoundingClientRect().top);
					}
					scrollTo(0, document.documentElement.scrollHeight);
					found.Allow = bottoms("button[value=allow]")[0];
					found.Covered = Math.ceil(found.Covered);
					scrollTo(0, 0);
					return found;
				})()`, &seen)
				if seen.Parts != 4 || seen.Covered > 0 {
					t.Errorf("%s: the decision covers %d px of %d parts", where, seen.Covered, seen.Parts)
				}
				if size[0] > 320 && seen.End > size[1] {
					t.Errorf("%s: what is consented to ends at %d", where, seen.End)
				}
				if seen.Allow > size[1] {
					t.Errorf("%s: at the end of the page, Allow ends at %d", where, seen.Allow)
				}
			}
		}
	}
}
