package developers

import (
	"html"
	"io/fs"
	"regexp"
	"strings"
	"testing"
)

// Each language has its words.
func TestHighlighted(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ language, code, want string }{
		{"go", "if x < 10 { // why \"not\"\n\treturn \"<a>\" }", `<k>if</k> x &lt; <n>10</n> { <c>// why &#34;not&#34;</c>
	<k>return</k> <s>&#34;&lt;a&gt;&#34;</s> }`},
		{"ts", "const a = `x\n${b}`; /* y */", "<k>const</k> a = <s>`x\n${b}`</s>; <c>/* y */</c>"},
		{"bash", "curl \"$URL#a\" # not now\nif true", "curl <s>&#34;$URL#a&#34;</s><c> # not now</c>\n<k>if</k> true"},
		{"python", "'''", "<s>&#39;&#39;</s>&#39;"},
		{"python", "def f(): return None # no", "<k>def</k> f(): <k>return</k> <k>None</k><c> # no</c>"},
		{"php", "<?php // $a\n$iffy = 'x';", "&lt;?php <c>// $a</c>\n$iffy = <s>&#39;x&#39;</s>;"},
		{"ruby", `raise "#{x}" unless nil # no`, `<k>raise</k> <s>&#34;#{x}&#34;</s> <k>unless</k> <k>nil</k><c> # no</c>`},
		{"json", `{"a": [1.5, null]}`, `{<s>&#34;a&#34;</s>: [<n>1.5</n>, <k>null</k>]}`},
		{"text", "if 1 < 2 // 3", "if 1 &lt; 2 // 3"},
	} {
		got := string(highlighted(test.language, test.code))
		for _, class := range []string{"comment", "string", "keyword", "number"} {
			got = regexp.MustCompile(`<span class="`+class+`">([\s\S]*?)</span>`).ReplaceAllString(got, "<"+class[:1]+">$1</"+class[:1]+">")
		}
		if got != test.want {
			t.Errorf("%s: %s, want %s", test.language, got, test.want)
		}
	}
}

// Highlighting changes no character of an example.
func TestHighlightedIsTheCode(t *testing.T) {
	t.Parallel()
	tags := regexp.MustCompile(`</?span[^>]*>`)
	names := guides(t)
	for _, page := range append(names, "quick-start", "libraries") {
		for _, e := range examplesOf(t, page) {
			got := html.UnescapeString(tags.ReplaceAllString(string(highlighted(e.language, e.code)), ""))
			if got != e.code {
				t.Errorf("%s: %q is %q", page, e.code, got)
			}
		}
	}
}

// Neighbors in different languages are one example; answers, and what stands alone, stay alone.
func TestTogether(t *testing.T) {
	t.Parallel()
	block := func(language string) string { return "```" + language + "\nx\n```\n\n" }
	for source, want := range map[string]string{
		block("go") + block("ts"):                                 "(go ts)",
		block("go") + block("ts") + block("python"):               "(go ts python)",
		block("go") + "So:\n\n" + block("ts"):                     "go ts",
		block("go") + block("go") + block("ts"):                   "go (go ts)",
		block("go") + block("ts") + block("go") + block("ts"):     "(go ts) (go ts)",
		block("bash") + block("json"):                             "bash json",
		block("bash") + block("go") + block("json") + block("go"): "(bash go) json go",
	} {
		_, body, _, err := convert([]byte("# Title\n\n" + source))
		if err != nil {
			t.Fatal(err)
		}
		text := regexp.MustCompile(`<div class="examples">|data-language="(\w+)"|\n</div>`).FindAllStringSubmatch(strings.ReplaceAll(string(body), "</div>\n</div>", "</div>\n\n</div>"), -1)
		got := ""
		for _, found := range text {
			switch {
			case found[1] != "":
				got += found[1] + " "
			case strings.HasPrefix(found[0], "<div"):
				got += "("
			default:
				got = strings.TrimSpace(got) + ") "
			}
		}
		if strings.TrimSpace(got) != want {
			t.Errorf("%q is %q, want %q", source, got, want)
		}
	}
}

// Every block of a page names a language that has a name.
func TestLanguageNames(t *testing.T) {
	t.Parallel()
	for _, page := range markdownPages() {
		source, err := fs.ReadFile(files, "pages/"+page+".md")
		if err != nil {
			t.Fatal(err)
		}
		for _, fence := range regexp.MustCompile("(?m)^```(\\w+)$").FindAllSubmatch(source, -1) {
			if languages[string(fence[1])].label == "" {
				t.Errorf("%s: %s", page, fence[1])
			}
		}
	}
}
