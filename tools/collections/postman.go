package main

import "strings"

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
