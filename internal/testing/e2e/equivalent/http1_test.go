package equivalent_test

import (
	"fmt"
	"strings"
	"testing"

	"connect-svc/internal/testing/wiretest"
)

// shape is a request of HTTP/1.1 in parts, which forms change.
type shape struct {
	method, target, version, host string
	fields                        []string // lines
	framing                       string   // lines, each with its end
	body                          string
}

// shapeOf returns a question in its usual form.
func shapeOf(q question) shape {
	s := shape{method: q.method, target: q.path, version: "HTTP/1.1", host: "Host: " + host, body: q.body}
	for i := 0; i < len(q.fields); i += 2 {
		s.fields = append(s.fields, q.fields[i]+": "+q.fields[i+1])
	}
	if q.body != "" {
		s.framing = fmt.Sprintf("Content-Length: %d\n", len(q.body))
	}
	return s
}

func (s shape) text() string {
	head := s.method + " " + s.target + " " + s.version + "\n" + s.host + "\n"
	for _, line := range s.fields {
		head += line + "\n"
	}
	return head + s.framing + "\n" + s.body
}

// chunked returns the body in chunks of some bytes; an extension and a trailer may follow.
func chunked(body string, size int, extension, trailer string) string {
	var all strings.Builder
	for rest := body; rest != ""; {
		n := min(size, len(rest))
		fmt.Fprintf(&all, "%x%s\r\n%s\r\n", n, extension, rest[:n])
		rest = rest[n:]
	}
	return all.String() + "0" + extension + "\r\n" + trailer + "\r\n"
}

// form1 is a form of requests in HTTP/1.1. It returns false if a question cannot have it.
type form1 struct {
	name      string
	change    func(q question, s *shape) bool
	noProxies bool
}

func eachField(change func(name, value string) string) func(question, *shape) bool {
	return func(q question, s *shape) bool {
		for i := range s.fields {
			s.fields[i] = change(q.fields[2*i], q.fields[2*i+1])
		}
		return len(s.fields) > 0
	}
}

func authorization(change func(scheme, rest string) string) func(question, *shape) bool {
	return func(q question, s *shape) bool {
		for i, line := range s.fields {
			if value, is := strings.CutPrefix(line, "Authorization: "); is {
				scheme, rest, _ := strings.Cut(value, " ")
				s.fields[i] = "Authorization: " + change(scheme, rest)
				return true
			}
		}
		return false
	}
}

func contentType(value string) func(question, *shape) bool {
	return func(q question, s *shape) bool {
		for i, line := range s.fields {
			if strings.HasPrefix(line, "Content-Type: ") {
				s.fields[i] = "Content-Type: " + value
				return true
			}
		}
		return false
	}
}

func framed(framing, body string) func(question, *shape) bool {
	return func(q question, s *shape) bool {
		s.framing, s.body = framing, body
		return q.body == ""
	}
}

func asHost(value string) func(question, *shape) bool {
	return func(_ question, s *shape) bool {
		s.host = "Host: " + value
		return true
	}
}

func target(change func(path string) string) func(question, *shape) bool {
	return func(_ question, s *shape) bool {
		s.target = change(s.target)
		return true
	}
}

func added(line string) func(question, *shape) bool {
	return func(_ question, s *shape) bool {
		s.fields = append(s.fields, line)
		return true
	}
}

// path changes the path of a target, without its query.
func path(change func(string) string) func(string) string {
	return func(target string) string {
		path, query, has := strings.Cut(target, "?")
		if has {
			query = "?" + query
		}
		return change(path) + query
	}
}

var forms1 = []form1{
	{"names in lower case", eachField(func(name, value string) string { return strings.ToLower(name) + ": " + value }), false},
	{"names in capitals", eachField(func(name, value string) string { return strings.ToUpper(name) + ": " + value }), false},
	{"no space after the colon", eachField(func(name, value string) string { return name + ":" + value }), false},
	{"space around values", eachField(func(name, value string) string { return name + ": \t " + value + " \t" }), false},
	{"fields turned round", func(_ question, s *shape) bool {
		for i, line := range s.fields {
			s.fields[i] = s.fields[len(s.fields)-1]
			s.fields[len(s.fields)-1] = line
			break
		}
		return len(s.fields) > 1
	}, false},

	{"scheme in lower case", authorization(func(scheme, rest string) string { return strings.ToLower(scheme) + " " + rest }), false},
	{"scheme in capitals", authorization(func(scheme, rest string) string { return strings.ToUpper(scheme) + " " + rest }), false},
	{"two spaces after the scheme", authorization(func(scheme, rest string) string { return scheme + "  " + rest }), false},
	{"many spaces after the scheme", authorization(func(scheme, rest string) string { return scheme + strings.Repeat(" ", 9) + rest }), false},

	{"type in capitals", contentType(strings.ToUpper(form)), false},
	{"charset", contentType(form + "; charset=utf-8"), false},
	{"charset in capitals", contentType(form + ";CHARSET=UTF-8"), false},
	{"charset in quotes", contentType(form + `; charset="utf-8"`), false},
	{"charset after space", contentType(form + " \t;\t charset=Utf-8"), false},
	{"no parameter", contentType(form + ";"), false},

	{"length 0", framed("Content-Length: 0\n", ""), false},
	{"length 0, expecting", framed("Content-Length: 0\nExpect: 100-continue\n", ""), false},
	{"no chunks", framed("Transfer-Encoding: chunked\n", "0\r\n\r\n"), false},
	{"no chunks, in capitals", framed("transfer-encoding: CHUNKED\n", "0\r\n\r\n"), false},
	{"no chunks, expecting", framed("Transfer-Encoding: chunked\nExpect: 100-continue\n", "0\r\n\r\n"), false},
	{"no chunks, with an extension", framed("Transfer-Encoding: chunked\n", "000;a=b\r\n\r\n"), false},
	{"no chunks, with a trailer", framed("Transfer-Encoding: chunked\n", "0\r\nX-A: b\r\n\r\n"), false},
	{"a type of no body", func(q question, s *shape) bool {
		s.fields = append(s.fields, "Content-Type: application/json")
		return q.body == ""
	}, false},

	{"one chunk", func(q question, s *shape) bool {
		s.framing, s.body = "Transfer-Encoding: chunked\n", chunked(q.body, 1000, "", "")
		return q.body != ""
	}, false},
	{"chunks of a byte", func(q question, s *shape) bool {
		s.framing, s.body = "Transfer-Encoding: chunked\n", chunked(q.body, 1, "", "")
		return q.body != ""
	}, false},
	{"chunks with extensions and a trailer", func(q question, s *shape) bool {
		s.framing, s.body = "Transfer-Encoding: chunked\nTrailer: X-A\n", chunked(q.body, 7, ";a=b", "X-A: b\r\n")
		return q.body != ""
	}, false},
	{"expecting", func(q question, s *shape) bool {
		s.framing += "expect: 100-Continue\n"
		return q.body != ""
	}, false},
	{"an escaped form", func(q question, s *shape) bool {
		s.body = escaped(q.body)
		s.framing = fmt.Sprintf("Content-Length: %d\n", len(s.body))
		return q.body != ""
	}, false},
	{"%20 for +", func(q question, s *shape) bool {
		s.body = strings.ReplaceAll(q.body, "+", "%20")
		s.framing = fmt.Sprintf("Content-Length: %d\n", len(s.body))
		return s.body != q.body
	}, false},

	{"host in capitals", asHost(strings.ToUpper(host)), false},
	{"host with the default port", asHost(host + ":443"), false},
	{"host with a dot", asHost(host + "."), false},
	{"host of the server", asHost("10.0.0.11:8443"), false},
	{"an empty host", asHost(""), true}, // nginx passes no Host on then, which is 400
	{"absolute target", target(func(path string) string { return "https://" + host + path }), false},
	{"absolute target, in capitals", target(func(path string) string { return "HTTPS://" + strings.ToUpper(host) + ":443" + path }), false},
	{"escaped path", target(path(escaped)), false},
	{"escapes in capitals", target(path(func(p string) string { return strings.ToUpper(escaped(p[:2])) + p[2:] })), false},
	{"escaped query", func(_ question, s *shape) bool {
		path, query, has := strings.Cut(s.target, "?")
		s.target = path + "?" + escaped(query)
		return has
	}, false},
	{"parameters turned round", func(_ question, s *shape) bool {
		path, query, has := strings.Cut(s.target, "?")
		from, to, two := strings.Cut(query, "&")
		s.target = path + "?" + to + "&" + from
		return has && two
	}, false},
	{"HTTP/1.0", func(_ question, s *shape) bool { s.version = "HTTP/1.0"; return true }, false},
	{"a list on two lines", func(q question, s *shape) bool {
		for i, line := range s.fields {
			if strings.HasPrefix(line, "Accept") {
				s.fields[i] = strings.Replace(line, ", ", "\n"+q.fields[2*i]+": ", 1)
				return true
			}
		}
		return false
	}, false},
	{"a list with empty elements", eachField(func(name, value string) string {
		if strings.HasPrefix(name, "Accept") {
			value = ",," + strings.ReplaceAll(value, ", ", " ,\t, ") + ","
		}
		return name + ": " + value
	}), false},

	{"an upgrade that is not taken", added("Connection: Upgrade, HTTP2-Settings\nUpgrade: h2c\nHTTP2-Settings: AAMAAABkAAQAAP__"), false},
	{"TE", added("TE: trailers, deflate;q=0.5\nConnection: TE"), false},
	{"fields that nobody knows", added("X-Forwarded-Host: evil.example\nForwarded: for=192.0.2.1;host=evil.example;proto=http\nX-HTTP-Method-Override: DELETE\nPriority: u=1\nX-Original-URL: /nothing"), false},
	{"a keep-alive", added("Connection: keep-alive\nKeep-Alive: timeout=5"), false},
	{"a close", added("Connection: close"), false},
}

// Each form of a request in HTTP/1.1 has the answer of its usual form.
func TestHTTP1(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	send := func(s shape) wiretest.Answer {
		return wiretest.HTTP1(t, wiretest.Dial(t, w.secured, "http/1.1"), s.text())
	}
	for _, q := range w.questions {
		t.Run(q.name, func(t *testing.T) {
			usual := send(shapeOf(q))
			if usual.Status != q.want {
				t.Fatalf("the usual form: %d %s", usual.Status, usual.Body)
			}
			for _, form := range forms1 {
				if s := shapeOf(q); form.change(q, &s) {
					t.Run(form.name, func(t *testing.T) { q.same(t, usual, send(s)) })
				}
			}
			if q.method == "GET" {
				t.Run("HEAD", func(t *testing.T) {
					s := shapeOf(q)
					s.method, q.method = "HEAD", "HEAD"
					got := send(s)
					if want, length := usual.Header.Get("Content-Length"), got.Header.Get("Content-Length"); want != length {
						t.Errorf("length %s, want %s", length, want)
					}
					q.sameHead(t, usual, got)
				})
			}
		})
	}
}
