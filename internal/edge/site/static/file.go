// Package static serves files that are the same for everybody, such as styles, pictures and the developers' site, compressed
// where the browser takes it.
//
// It is for nothing else. An answer that holds a secret beside something that its reader chose must not be compressed: its
// length would give the secret away, bit by bit (BREACH). So a file is made of bytes that no request has a part in.
package static

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// File is content for everybody.
type File struct {
	MediaType string
	Content   []byte
	Tag       string // names the content
	zipped    func() []byte
}

// New makes a file. It is compressed once, when it is first asked for.
func New(mediaType string, content []byte) *File {
	sum := sha256.Sum256(content)
	return &File{
		MediaType: mediaType, Content: content, Tag: hex.EncodeToString(sum[:16]),
		zipped: sync.OnceValue(func() []byte { return zip(content) }),
	}
}

// NewPacked makes a file that is an archive already, and is sent as it is.
func NewPacked(mediaType string, content []byte) *File {
	f := New(mediaType, content)
	f.zipped = func() []byte { return content } // is not shorter
	return f
}

func zip(content []byte) []byte {
	var zipped bytes.Buffer
	w, _ := gzip.NewWriterLevel(&zipped, gzip.BestCompression) // the level exists
	_, _ = w.Write(content)                                    // a buffer takes all
	_ = w.Close()
	return zipped.Bytes()
}

// ServeHTTP answers GET and HEAD, with ranges and conditions. Headers about caching are the caller's.
func (f *File) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", f.MediaType)
	h.Set("Vary", "Accept-Encoding")
	content, tag := f.Content, f.Tag
	if takesGzip(r.Header.Values("Accept-Encoding")) && len(f.zipped()) < len(content) {
		h.Set("Content-Encoding", "gzip")
		content, tag = f.zipped(), tag+"-gzip"
	}
	h.Set("ETag", `"`+tag+`"`)
	if r.Header.Get("If-Match") == "" { // otherwise the answer may be 412
		h.Set("Content-Length", strconv.Itoa(len(content))) // ServeContent leaves it out of what is encoded
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

var space = strings.NewReplacer(" ", "", "\t", "")

// takesGzip reads Accept-Encoding (RFC 9110, section 12.5.3). If identity is as welcome, smaller is better.
func takesGzip(lines []string) bool {
	weights := map[string]float64{}
	for coding := range strings.SplitSeq(strings.Join(lines, ","), ",") {
		name, weight, weighed := strings.Cut(strings.ToLower(space.Replace(coding)), ";q=")
		name = strings.Replace(name, "x-gzip", "gzip", 1) // section 8.4.1.3
		weights[name] = 1
		if weighed {
			weights[name], _ = strconv.ParseFloat(weight, 64) // 0 if it is not a number
		}
	}
	gzip, named := weights["gzip"]
	if !named {
		gzip = weights["*"]
	}
	return gzip > 0 && gzip >= weights["identity"]
}
