package equivalent_test

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	"connect-svc/internal/testing/wiretest"
)

// fields2 returns the fields of a question in HTTP/2.
func fields2(q question, authority string) []string {
	fields := []string{":method", q.method, ":scheme", "https", ":authority", authority, ":path", q.path}
	for i, text := range q.fields {
		if i%2 == 0 {
			text = strings.ToLower(text)
		}
		fields = append(fields, text)
	}
	return fields
}

// Each form of a request in HTTP/2 has the answer of the usual form in HTTP/1.1.
func TestHTTP2(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	padded := func(parts ...string) wiretest.Frames {
		return func(framer *http2.Framer, stream uint32) error {
			for i, part := range parts {
				if err := framer.WriteDataPadded(stream, i == len(parts)-1, []byte(part), make([]byte, 9)); err != nil {
					return err
				}
			}
			return nil
		}
	}
	for _, q := range w.questions {
		usual := wiretest.HTTP1(t, wiretest.Dial(t, w.secured, "http/1.1"), shapeOf(q).text())
		try := func(name string, frames wiretest.Frames, fields []string) {
			t.Run(q.name+"/"+name, func(t *testing.T) {
				q.same(t, usual, wiretest.HTTP2(t, wiretest.Dial(t, w.secured, "h2"), frames, fields...))
			})
		}
		fields := fields2(q, host)
		if q.body == "" {
			try("ended with the headers", wiretest.Ended, fields)
			try("length 0, ended with the headers", wiretest.Ended, append(fields, "content-length", "0"))
			try("an empty frame", wiretest.Data(""), fields)
			try("empty frames", wiretest.Data("", "", ""), fields)
			try("an empty frame with padding", padded(""), fields)
			try("an empty frame of length 0", wiretest.Data(""), append(fields, "content-length", "0"))
			try("ended by a trailer", wiretest.Trailer("x-a", "b"), fields)
			try("expecting", wiretest.Data(""), append(fields, "expect", "100-continue"))
		} else {
			try("one frame", wiretest.Data(q.body), fields)
			try("one frame of its length", wiretest.Data(q.body), append(fields, "content-length", fmt.Sprint(len(q.body))))
			try("frames of a byte", wiretest.Data(strings.Split(q.body, "")...), fields)
			try("frames with padding", padded(q.body[:3], q.body[3:], ""), fields)
			try("an empty frame at the end", wiretest.Data("", q.body, ""), fields)
			try("a trailer", func(framer *http2.Framer, stream uint32) error {
				if err := framer.WriteData(stream, false, []byte(q.body)); err != nil {
					return err
				}
				return wiretest.Trailer("x-a", "b")(framer, stream)
			}, fields)
		}
		body := wiretest.Ended
		if q.body != "" {
			body = wiretest.Data(q.body)
		}
		try("authority in capitals", body, fields2(q, strings.ToUpper(host)))
		try("authority with the default port", body, fields2(q, host+":443"))
		try("authority with a dot", body, fields2(q, host+"."))
		try("te", body, append(fields, "te", "trailers"))
		try("a priority", body, append(fields, "priority", "u=1, i"))
		if value, has := q.field("Authorization"); has {
			try("two spaces after the scheme", body, fields2(q.with("Authorization", strings.Replace(value, " ", "  ", 1)), host))
			try("scheme in lower case", body, fields2(q.with("Authorization", strings.ToLower(value[:6])+value[6:]), host))
		}
		escapedPath := q
		escapedPath.path = path(escaped)(q.path)
		try("escaped path", body, fields2(escapedPath, host))
		if q.method == "GET" {
			head := q
			head.method = "HEAD"
			t.Run(q.name+"/HEAD", func(t *testing.T) {
				for _, frames := range []wiretest.Frames{wiretest.Ended, wiretest.Data("")} {
					got := wiretest.HTTP2(t, wiretest.Dial(t, w.secured, "h2"), frames, fields2(head, host)...)
					head.sameHead(t, usual, got)
				}
			})
		}
	}
}
