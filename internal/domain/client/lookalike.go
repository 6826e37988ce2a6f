package client

import (
	"context"
	"slices"
	"strings"
	"unicode"

	"github.com/google/uuid"
	"go.mau.fi/util/confusable"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"connect-svc/internal/foundation/page"
)

// LookAlikes returns the clients whose names users could confuse with this one, oldest first, without the client except.
func (r *Registry) LookAlikes(ctx context.Context, name string, except uuid.UUID) ([]Client, error) {
	const most = 1000
	var found []Client
	for after := (page.Key{}); ; {
		list, err := r.List(ctx, "", after, most)
		if err != nil || len(list) == 0 {
			return found, err
		}
		after = list[len(list)-1].Key()
		found = append(found, slices.DeleteFunc(list, func(c Client) bool { return c.ID == except || !alike(c.Name, name) })...)
		if len(list) < most {
			return found, nil
		}
	}
}

// alike reports whether two names look the same or similar. It ignores case, accents, spaces and punctuation, and equates characters
// that are easily confused (UTS #39). It compares the names as written and in lower case, because a capital i looks like an l and a
// small one does not.
func alike(a, b string) bool {
	a, b = norm.NFKC.String(a), norm.NFKC.String(b)
	fold := cases.Fold()
	seen := func(s string) string { return letters(fold.String(confusable.Skeleton(s))) }
	return seen(a) == seen(b) || seen(fold.String(a)) == seen(fold.String(b))
}

// letters removes spaces, punctuation and the accents of Latin, Greek and Cyrillic. A name without anything else stays as it is.
func letters(s string) string {
	left := strings.Map(func(c rune) rune {
		if unicode.IsSpace(c) || unicode.IsPunct(c) || c >= '\u0300' && c <= '\u036f' {
			return -1
		}
		return c
	}, norm.NFD.String(s))
	if left == "" {
		return s
	}
	return left
}
