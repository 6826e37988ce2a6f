package edgetest

import "net/url"

// Change changes one thing of a request.
type Change = func(*Request)

// Set sets a field of the form, and Drop removes one.
func Set(name, value string) Change {
	return func(r *Request) {
		fields, _ := url.ParseQuery(r.Body)
		fields.Set(name, value)
		r.Body = fields.Encode()
	}
}

// Drop is the other one of [Set].
func Drop(name string) Change {
	return func(r *Request) {
		fields, _ := url.ParseQuery(r.Body)
		fields.Del(name)
		r.Body = fields.Encode()
	}
}

// Extend adds a text to the body.
func Extend(text string) Change { return func(r *Request) { r.Body += text } }

// Query adds a text to the address.
func Query(text string) Change { return func(r *Request) { r.Target += text } }

// Header replaces the values of a header; without values it removes the header.
func Header(name string, values ...string) Change {
	return func(r *Request) { r.Header[name] = values }
}

// All makes several changes.
func All(changes ...Change) Change {
	return func(r *Request) {
		for _, change := range changes {
			change(r)
		}
	}
}
