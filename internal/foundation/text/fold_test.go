package text_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"connect-svc/internal/foundation/text"
)

func TestFold(t *testing.T) {
	t.Parallel()
	for name, same := range map[string][]string{
		"ascii":           {"ines@users.example", "INES@Users.Example", "Ines@users.EXAMPLE"},
		"umlauts":         {"söre", "SÖRE", "so\u0308re", "SO\u0308RE"},
		"Greek":           {"νίκος", "ΝΊΚΟΣ", "Νίκοσ"},
		"Cyrillic":        {"иван", "ИВАН"},
		"sharp s":         {"straße", "STRAẞE"},
		"the Kelvin sign": {"kilo", "\u212Ailo", "KILO"}, // canonically a K
		"dotted I":        {"İnes", "I\u0307nes", "i\u0307nes"},
		"longer in lower": {"Ⱥ", "ⱥ"},
		"marks reordered": {"I\u0323\u0307", "İ\u0323", "i\u0307\u0323"},
		"nothing":         {""},
	} {
		for _, other := range same[1:] {
			if text.Fold(other) != text.Fold(same[0]) {
				t.Errorf("%s: %q is %q, and %q is %q", name, other, text.Fold(other), same[0], text.Fold(same[0]))
			}
		}
	}
	if key := text.Fold("INES1@Users.Example"); key != "ines1@users.example" {
		t.Errorf("in ASCII: %q", key)
	}
}

func TestFoldKeepsApart(t *testing.T) {
	t.Parallel()
	for _, pair := range [][2]string{
		{"straße", "strasse"}, {"ınes", "ines"}, {"İnes", "ines"}, {"ſam", "sam"}, {"ﬁn", "fin"}, {"Å", "A"}, {"söre", "sore"},
		{"söre", "soere"}, {"ａda", "ada"}, {"аda", "ada"}, // wide, and Cyrillic
		{"²", "2"}, {"µ", "u"},
	} {
		if text.Fold(pair[0]) == text.Fold(pair[1]) {
			t.Errorf("%q and %q are both %q", pair[0], pair[1], text.Fold(pair[0]))
		}
	}
}

func TestSort(t *testing.T) {
	t.Parallel()
	names := []string{"Zoo", "ähnlich", "apfel", "Äpfel", "Apfel", "zoo", "Ωmega", "Über", "um", "Łódź Bikes", "Lund", "Mio"}
	text.Sort(names, func(name string) string { return name })
	want := []string{"ähnlich", "apfel", "Apfel", "Äpfel", "Łódź Bikes", "Lund", "Mio", "Über", "um", "Zoo", "zoo", "Ωmega"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	type partner struct {
		name string
		id   int
	}
	list := []partner{{"b", 1}, {"B", 2}, {"A", 3}, {"b", 4}}
	text.Sort(list, func(p partner) string { return p.name })
	if !slices.Equal(list, []partner{{"A", 3}, {"b", 1}, {"B", 2}, {"b", 4}}) {
		t.Errorf("names that are the same: %v", list)
	}
}

func FuzzFold(f *testing.F) {
	for _, seed := range []string{"Ada", "İ\u0323", "ΑΣ", "\u0345Σ", "Ⱥ\u0307", "\u1e9e", "\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if key := text.Fold(name); text.Fold(key) != key {
			t.Errorf("%q: %q, and its key is %q", name, key, text.Fold(key))
		}
	})
}

func TestIsStorable(t *testing.T) {
	t.Parallel()
	for given, storable := range map[string]bool{"": true, "Zoë\t🚲": true, "a\x00": false, "\xff": false, "Zo\xc3": false} {
		if got := text.IsStorable(given); got != storable {
			t.Errorf("IsStorable(%q) = %v", given, got)
		}
	}
}
