// Command collections writes collections of requests for Postman and Bruno, from the documents of the partner API and of the sandbox's
// driver. The requests run from the first to the last against a sandbox: the first reads its addresses and credentials into variables,
// the second consents as one of its users, and those that get tokens keep them in variables. Usage: collections PARTNER SANDBOX FOLDER
package main

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"golang.org/x/tools/txtar"
)

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "collections:", err)
		os.Exit(1)
	}
}

func run(partner, sandbox, folder string) error {
	list, err := requests(partner, sandbox)
	if err != nil {
		return err
	}
	inPostman, errPostman := postman(list)
	inBruno, errBruno := bruno(list)
	return errors.Join(errPostman, errBruno,
		os.WriteFile(filepath.Join(folder, "postman.json"), inPostman, 0o644),
		os.WriteFile(filepath.Join(folder, "bruno.txtar"), inBruno, 0o644))
}

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

type object = map[string]any

// postman returns the collection in the format 2.1 of Postman, which others import, too.
func postman(list []request) ([]byte, error) {
	items := []object{}
	for _, r := range list {
		tests := []string{`pm.test("as documented", () => pm.response.to.have.status(` + r.Status + `));`}
		if len(r.Script) > 0 {
			tests = append(tests, "const answer = pm.response.json(), set = (name, value) => pm.collectionVariables.set(name, value);")
		}
		items = append(items, object{
			"name":     r.Name,
			"request":  r.postman(),
			"event":    []object{{"listen": "test", "script": object{"type": "text/javascript", "exec": append(tests, r.Script...)}}},
			"response": []object{},
		})
	}
	initial := []object{}
	for _, v := range variables {
		initial = append(initial, object{"key": v.Name, "value": v.Value})
	}
	return indented(object{
		"info": object{
			"name":   title,
			"schema": "https://schema.getpostman.com/json/collection/v2.1.0/collection.json",
		},
		"item": items, "variable": initial,
	})
}

func (r request) postman() object {
	query := []object{}
	for _, p := range r.Query {
		query = append(query, object{"key": p.Name, "value": p.Value, "disabled": p.Off})
	}
	made := object{
		"method": r.Method, "description": r.Docs, "header": []object{}, "auth": object{"type": "noauth"},
		"url": object{"raw": r.Address(), "host": []string{r.Server}, "path": strings.Split(r.Path[1:], "/"), "query": query},
	}
	attribute := func(name, variable string) object {
		return object{"key": name, "value": "{{" + variable + "}}", "type": "string"}
	}
	switch {
	case r.Basic:
		made["auth"] = object{"type": "basic", "basic": []object{attribute("username", "client_id"), attribute("password", "client_secret")}}
	case r.Bearer:
		made["auth"] = object{"type": "bearer", "bearer": []object{attribute("token", "access_token")}}
	}
	switch {
	case r.JSON != "":
		made["body"] = object{"mode": "raw", "raw": r.JSON, "options": object{"raw": object{"language": "json"}}}
	case r.Form != nil:
		form := []object{}
		for _, p := range r.Form {
			form = append(form, object{"key": p.Name, "value": p.Value})
		}
		made["body"] = object{"mode": "urlencoded", "urlencoded": form}
	}
	return made
}
