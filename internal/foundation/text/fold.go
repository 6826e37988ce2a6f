package text

import (
	"slices"
	"strings"

	"golang.org/x/text/collate"
	"golang.org/x/text/language"
	"golang.org/x/text/unicode/norm"
)

// İ is an i with a dot above. Letter by letter it would be an i, which is another letter to those who write it.
var dotted = strings.NewReplacer("İ", "i̇")

// Lower returns the text in lower case, letter by letter, and in Unicode's normalization form C.
func Lower(text string) string {
	return norm.NFC.String(strings.ToLower(dotted.Replace(norm.NFC.String(text))))
}

// Fold returns what is equal for texts that are the same. In ASCII it is the text in lower case.
func Fold(text string) string {
	return strings.ReplaceAll(Lower(text), "ς", "σ") // both are the small Σ
}

// Contains reports whether a part is in the text.
func Contains(text, part string) bool { return strings.Contains(Fold(text), Fold(part)) }

// Sort sorts a list by names as people expect it, whatever their language: the default order of Unicode, in which é is next to e. The same
// names stay in their order.
func Sort[T any](list []T, name func(T) string) {
	order := collate.New(language.Und, collate.IgnoreCase)
	slices.SortStableFunc(list, func(a, b T) int { return order.CompareString(name(a), name(b)) })
}
