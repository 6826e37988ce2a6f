package brand

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math/rand/v2"
	"strings"
	"testing"
)

func picture(t *testing.T, width, height int, noise bool) []byte {
	t.Helper()
	img := image.NewNRGBA(image.Rect(0, 0, width, height))
	if noise {
		random := rand.New(rand.NewPCG(1, 2))
		for i := range img.Pix {
			img.Pix[i] = uint8(random.Uint32())
		}
	} else {
		img.Set(width/2, height/2, color.NRGBA{200, 10, 10, 255})
	}
	var file bytes.Buffer
	if err := png.Encode(&file, img); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

func TestReadPicture(t *testing.T) {
	t.Parallel()
	file := picture(t, 40, 20, false)
	// A comment, as tools and attackers leave it: a chunk of its own before the end.
	const secret = "made by Alex"
	chunk := append([]byte{0, 0, 0, byte(len(secret) + 2)}, "tEXtc\x00"+secret...)
	chunk = append(chunk, 0, 0, 0, 0) // the checksum is wrong: try without it as well
	logo, err := ReadLogo(file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(logo.Name, ".png") || logo.MediaType() != "image/png" {
		t.Errorf("the logo is %s, %s", logo.Name, logo.MediaType())
	}
	again, err := ReadLogo(append(bytes.Clone(file), "<script>trailing</script>"...))
	if err != nil || again.Name != logo.Name || bytes.Contains(again.Content, []byte("script")) {
		t.Errorf("what follows the picture stays: %v", err)
	}
	if _, err := ReadLogo(bytes.Replace(file, []byte("\x00\x00\x00\x00IEND"), append(chunk, "\x00\x00\x00\x00IEND"...), 1)); err == nil {
		t.Error("a broken chunk was accepted")
	}
}

func TestReadLogoRefuses(t *testing.T) {
	t.Parallel()
	var deep bytes.Buffer
	if err := png.Encode(&deep, image.NewGray16(image.Rect(0, 0, 1025, 1024))); err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string][]byte{
		"nothing":           nil,
		"text":              []byte("a logo"),
		"html":              []byte("<html><svg xmlns='http://www.w3.org/2000/svg'><path d='M0 0'/></svg></html>"),
		"another namespace": []byte("<svg><path d='M0 0'/></svg>"),
		"an entity":         []byte(`<!DOCTYPE svg [<!ENTITY a "b">]><svg xmlns="http://www.w3.org/2000/svg"><text>&a;</text></svg>`),
		"an empty drawing":  []byte(`<svg xmlns="http://www.w3.org/2000/svg"><g/></svg>`),
		"cut off":           []byte(`<svg xmlns="http://www.w3.org/2000/svg"><path d="M0 0"/>`),
		"a cut picture":     picture(t, 40, 20, false)[:60],
		"a large file":      bytes.Repeat([]byte(" "), MaxLogo+1),
		"a large picture":   picture(t, 2048, 513, false),
		"a deep picture":    deep.Bytes(),
		"much noise":        picture(t, 200, 200, true),
		"a photograph":      []byte("\xff\xd8\xff\xe0"),
	} {
		if logo, err := ReadLogo(file); err == nil {
			t.Errorf("%s was accepted as %s", name, logo.Name)
		} else if strings.ContainsAny(err.Error(), "\n") || strings.Contains(err.Error(), "EOF") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestIsSquare(t *testing.T) {
	t.Parallel()
	const drawing = `<svg xmlns="http://www.w3.org/2000/svg"%s><path d="M0 0h9"/></svg>`
	for _, c := range []struct {
		file   []byte
		square bool
	}{
		{picture(t, 64, 64, false), true}, {picture(t, 64, 60, false), false},
		{fmt.Appendf(nil, drawing, ` viewBox="0 0 24 24"`), true}, {fmt.Appendf(nil, drawing, ` width="9" viewBox="-1.5, 0, 24.5, 24.5"`), true},
		{fmt.Appendf(nil, drawing, ` viewBox="0 0 240 24"`), false}, {fmt.Appendf(nil, drawing, ""), false},
	} {
		logo, err := ReadLogo(c.file)
		if err != nil {
			t.Fatal(err)
		}
		if logo.IsSquare() != c.square {
			t.Errorf("square: %v: %.90q", logo.IsSquare(), logo.Content)
		}
	}
	if (Logo{}).IsSquare() {
		t.Error("no logo is square")
	}
}

// A style is what is left when all comments are gone, and takes nothing from elsewhere; other drawings keep theirs.
func TestStyleOfADrawing(t *testing.T) {
	t.Parallel()
	for style, kept := range map[string]bool{
		`.a { fill: red }`:                                   true,
		`.a { fill: url(#g); stroke:url("#h") }`:             true,
		`<![CDATA[.a, .b { fill: red }]]>`:                   true,
		`.a > .b { fill: red }`:                              false,
		`.a { fill: u<!-- -->rl(https://evil.example) }`:     false,
		`.a { fill: u<![CDATA[rl]]>(https://evil.example) }`: false,
		`.a { fill: u<g>r</g>l(https://evil.example) }`:      false,
		`.a { fill: &#117;rl(https://evil.example) }`:        false,
		`.a { fill: \75rl(https://evil.example) }`:           false,
		`@im<?pi?>port "https://evil.example"`:               false,
	} {
		logo, err := ReadLogo([]byte(`<svg xmlns="http://www.w3.org/2000/svg"><style>` + style + `</style><path d="M0 0"/></svg>`))
		if err != nil {
			t.Errorf("%s: %v", style, err)
			continue
		}
		got := string(logo.Content)
		if left := !strings.Contains(got, "<style></style>"); left != kept || strings.Contains(got, "evil") {
			t.Errorf("%s: is left: %s", style, got)
		}
		if again, err := ReadLogo(logo.Content); err != nil || again.Name != logo.Name {
			t.Errorf("%s: read again it is another one: %v", style, err)
		}
	}
}

// A hostile file keeps what draws, and loses everything that runs, loads or links.
func TestDrawingIsHarmless(t *testing.T) {
	t.Parallel()
	const hostile = `<?xml version="1.0"?><?xml-stylesheet href="https://evil.example/a.css"?>
<!-- a comment --><svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" xmlns:h="http://www.w3.org/1999/xhtml"
 viewBox="0 0 10 10" onload="alert(1)" style="background: url(https://evil.example/b)">
<script>alert(2)</script><h:script>alert(3)</h:script><foreignObject><h:iframe src="https://evil.example"/><path d="M9 9"/></foreignObject>
<style>@import "https://evil.example/c.css"; path { fill: red }</style><style>.a { fill: url(#g) }</style>
<a href="https://evil.example"><path d="M8 8"/></a><image href="https://evil.example/d.png"/><use xlink:href="https://evil.example/e.svg#x"/>
<animate attributeName="href" to="javascript:alert(4)"/><set attributeName="onload" to="alert(5)"/>
<defs><linearGradient id="g"><stop offset="0" stop-color="#123456"/></linearGradient><path id="p" d="M1 1h8"/></defs>
<path class="a" d="M0 0h10v10z" onclick="alert(6)" fill="url(https://evil.example/f)" stroke="url(#g)" data-x="y"/>
<use xlink:href="#p"/><text x="1">A &lt;b&gt; &amp; "c"</text></svg>`
	logo, err := ReadLogo([]byte(hostile))
	if err != nil {
		t.Fatal(err)
	}
	got := string(logo.Content)
	for _, bad := range []string{"evil", "alert", "script", "onload", "onclick", "foreign", "iframe", "import", "image", "animate", "comment", "data-x", "M9 9", "M8 8", "<?"} {
		if strings.Contains(got, bad) {
			t.Errorf("%q is left: %s", bad, got)
		}
	}
	for _, good := range []string{
		`viewBox="0 0 10 10"`, `<path class="a" d="M0 0h10v10z" stroke="url(#g)">`, `<use href="#p">`, `.a{fill: url(#g)}`,
		`stop-color="#123456"`, `A &lt;b&gt; &amp; &#34;c&#34;`,
	} {
		if !strings.Contains(got, good) {
			t.Errorf("%q is gone: %s", good, got)
		}
	}
	if again, err := ReadLogo(logo.Content); err != nil || again.Name != logo.Name {
		t.Errorf("read again it is another one: %v", err)
	}
}

func FuzzReadLogo(f *testing.F) {
	f.Add([]byte(`<svg xmlns="http://www.w3.org/2000/svg"><style>a{}</style><path d="M0 0" style="fill:url(#a)"/></svg>`))
	for content := range hostileDrawings() {
		f.Add([]byte(`<svg xmlns="http://www.w3.org/2000/svg" xmlns:x="http://www.w3.org/1999/xlink">` + content + `</svg>`))
	}
	f.Add([]byte("\x89PNG\r\n\x1a\n"))
	f.Fuzz(func(t *testing.T, file []byte) {
		logo, err := ReadLogo(file)
		if err != nil {
			return
		}
		if len(logo.Content) > MaxLogo {
			t.Fatalf("%d bytes", len(logo.Content))
		}
		if logo.MediaType() == "image/png" {
			return
		}
		decoder := xml.NewDecoder(bytes.NewReader(logo.Content))
		for {
			token, err := decoder.Token()
			if err != nil {
				break
			}
			start, ok := token.(xml.StartElement)
			if !ok {
				continue
			}
			if _, known := elements[start.Name.Local]; !known || start.Name.Space != svgSpace {
				t.Fatalf("element %v in %s", start.Name, logo.Content)
			}
			for _, a := range start.Attr {
				if strings.HasPrefix(strings.ToLower(a.Name.Local), "on") || !harmless(a.Value) {
					t.Fatalf("attribute %v in %s", a, logo.Content)
				}
			}
		}
		cheap(t, logo.Content)
		if _, err := ReadLogo(logo.Content); err != nil && len(logo.Content) < MaxLogo/2 {
			t.Fatalf("what was written cannot be read: %v: %s", err, logo.Content)
		}
	})
}
