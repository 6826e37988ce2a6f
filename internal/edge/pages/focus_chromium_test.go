package pages

import (
	"testing"

	"github.com/chromedp/chromedp"
)

// A field has one ring around it: its edge, or where it has the focus the outline, in the color of what is wrong with it.
func TestChromiumFieldHasOneRing(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	s.arrive(t)
	check := func(name string) (focused string) {
		t.Helper()
		const rings = `(focus) => {
			const field = document.querySelector("main input:not([type=hidden])");
			focus ? field.focus() : field.blur();
			const style = getComputedStyle(field), seen = (kind) => style[kind + "Style"] !== "none" &&
				parseFloat(style[kind + "Width"]) > 0 && style[kind + "Color"] !== "rgba(0, 0, 0, 0)";
			return ["borderTop", "outline"].filter(seen).map((kind) => kind + " " + style[kind + "Color"]);
		}`
		var at, away []string
		s.Evaluate("("+rings+")(false)", &away)
		s.Evaluate("("+rings+")(true)", &at)
		if len(away) != 1 || len(at) != 1 {
			t.Fatalf("%s: rings %q, with the focus %q", name, away, at)
		}
		return at[0]
	}
	sound := check("sound")
	s.Submit(chromedp.SendKeys(emailField, "nobody"), chromedp.Click(mainButton))
	if invalid := check("invalid"); invalid == sound {
		t.Errorf("an invalid field looks like a sound one: %s", invalid)
	}
}
