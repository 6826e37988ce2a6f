package main

import (
	"strings"
	"testing"

	"connect-svc/internal/app/settings"
)

// The manual page has every command and every setting.
func TestMan(t *testing.T) {
	t.Parallel()
	page := strings.ReplaceAll(succeed(t, nil, "", "man"), `\-`, "-")
	for _, leaf := range modelOf(t).Leaves(true) {
		if !strings.Contains(page, `\fBconnect-svc `+leaf.Path()+`\fP`) {
			t.Errorf("no %s", leaf.Path())
		}
		for _, flags := range leaf.AllFlags(false) {
			for _, flag := range flags {
				if flag.Tag.Has("setting") && !strings.Contains(page, settings.Variable(flag.Name)+`\fP`) {
					t.Errorf("%s: no %s", leaf.Path(), settings.Variable(flag.Name))
				}
			}
		}
	}
	if !strings.HasPrefix(page, ".TH CONNECT-SVC 1 ") {
		t.Errorf("no manual page: %.100s", page)
	}
}
