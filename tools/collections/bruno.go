package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"strings"
	"text/template"

	"golang.org/x/tools/txtar"
)

//go:embed bruno.tmpl
var format string

// bruno returns the files of a folder that Bruno opens.
func bruno(list []request) ([]byte, error) {
	layout, err := template.New("").Funcs(template.FuncMap{
		"lower":  strings.ToLower,
		"indent": func(text string) string { return "  " + strings.ReplaceAll(text, "\n", "\n  ") },
	}).Parse(format)
	if err != nil {
		return nil, err
	}
	folder := new(txtar.Archive)
	add := func(name, kind string, data any) error {
		var text bytes.Buffer
		err := layout.ExecuteTemplate(&text, kind, data)
		folder.Files = append(folder.Files, txtar.File{Name: name, Data: text.Bytes()})
		return err
	}
	if err := add("bruno.json", "collection", title); err != nil {
		return nil, err
	}
	if err := add("environments/Sandbox.bru", "environment", variables); err != nil {
		return nil, err
	}
	for _, r := range list {
		if err := add(fmt.Sprintf("%02d %s.bru", r.Number, r.Name), "request", r); err != nil {
			return nil, err
		}
	}
	return txtar.Format(folder), nil
}
