package brand

import (
	"bytes"
	"errors"
	"fmt"
	"image/png"
	"path"
	"regexp"
)

// MaxLogo is the maximum size of a logo in bytes, both as a file and as it is served.
const MaxLogo = 64 << 10

// maxSide is the side of the largest square picture, in pixels. Other shapes may have as many pixels. Decoding and encoding them takes
// less than a tenth of a second of the operator's request.
const maxSide = 1024

// Logo is a picture that is safe to serve. The zero value means that there is none.
type Logo struct {
	Name    string // of the served file: a hash of the content, with .svg or .png
	Content []byte
}

// MediaType returns the media type that the name stands for.
func (l Logo) MediaType() string {
	if path.Ext(l.Name) == ".svg" {
		return "image/svg+xml"
	}
	return "image/png"
}

// viewBox matches the size in the first tag of a drawing.
var viewBox = regexp.MustCompile(`^<svg[^>]* viewBox="[^ "]+[ ,]+[^ "]+[ ,]+([\d.]+)[ ,]+([\d.]+)"`)

// IsSquare reports whether a logo fits where there is only a square place for it.
func (l Logo) IsSquare() bool {
	if l.MediaType() == "image/png" {
		size, err := png.DecodeConfig(bytes.NewReader(l.Content))
		return err == nil && size.Width == size.Height
	}
	sides := viewBox.FindSubmatch(l.Content)
	return sides != nil && bytes.Equal(sides[1], sides[2])
}

// Each text completes a sentence that begins with the file's name.
var (
	errPNG     = errors.New("is not a PNG file that can be read")
	errDrawing = errors.New("is neither a PNG file nor an SVG file that can be read")
	errComplex = errors.New("is too complex a drawing: simplify it, or use a PNG file")
	errNothing = errors.New("draws nothing that can be shown: no path, shape or text")
)

// ReadLogo makes a logo from an SVG or PNG file of at most 64 KiB and as many pixels as 1024 x 1024. It leaves out metadata, scripts,
// links and everything else that is invisible. An error completes a sentence that begins with the file's name.
func ReadLogo(file []byte) (Logo, error) {
	if len(file) > MaxLogo {
		return Logo{}, fmt.Errorf("is larger than %d KiB", MaxLogo>>10)
	}
	extension, read := ".svg", readDrawing
	if bytes.HasPrefix(file, []byte("\x89PNG\r\n\x1a\n")) {
		extension, read = ".png", readPicture
	}
	content, err := read(file)
	if err != nil {
		return Logo{}, err
	}
	if len(content) > MaxLogo {
		return Logo{}, fmt.Errorf("is larger than %d KiB when it is written again", MaxLogo>>10)
	}
	return Logo{fileName("logo-", content, extension), content}, nil
}

func readPicture(file []byte) ([]byte, error) {
	size, err := png.DecodeConfig(bytes.NewReader(file))
	if err != nil {
		return nil, errPNG
	}
	if size.Width > maxSide*maxSide/size.Height {
		return nil, fmt.Errorf("is %d x %d pixels large; %d x %d is the most", size.Width, size.Height, maxSide, maxSide)
	}
	picture, err := png.Decode(bytes.NewReader(file))
	if err != nil {
		return nil, errPNG
	}
	var written bytes.Buffer
	if err := png.Encode(&written, picture); err != nil {
		return nil, errPNG // a picture that was read can be written
	}
	return written.Bytes(), nil
}
