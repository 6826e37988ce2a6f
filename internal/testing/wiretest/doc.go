// Package wiretest sends requests as bytes of HTTP/1.1 and as frames of HTTP/2, for what no client library sends: a body of which only the
// framing arrives, a field on two lines, a target in another form. It reads the answers with libraries of other people.
package wiretest
