package brand

import (
	"bytes"
	"errors"
	"fmt"
	"image/png"
	"path"
)

// MaxLogo is how large a logo may be, in bytes: as a file and as it is served.
const MaxLogo = 64 << 10

const maxSide = 2048 // pixels of a picture

// Logo is a picture that is safe to serve. The zero value is none.
type Logo struct {
	Name    string // under which it is served: a hash of the content, and .svg or .png
	Content []byte
}

// MediaType is that of the file's name.
func (l Logo) MediaType() string {
	if path.Ext(l.Name) == ".svg" {
		return "image/svg+xml"
	}
	return "image/png"
}

// ReadLogo makes a logo of an SVG or PNG file of at most 64 KiB and 2048 x 2048 pixels. Metadata, scripts, links and
// everything else that is not to be seen are left out. Its errors complete a sentence that begins with the file's name.
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
		return nil, errors.New("is not a PNG file that can be read")
	}
	if size.Width > maxSide || size.Height > maxSide {
		return nil, fmt.Errorf("is %d x %d pixels large; %d x %d is the most", size.Width, size.Height, maxSide, maxSide)
	}
	picture, err := png.Decode(bytes.NewReader(file))
	if err != nil {
		return nil, errors.New("is not a PNG file that can be read")
	}
	var written bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := encoder.Encode(&written, picture); err != nil {
		return nil, errors.New("cannot be written as a PNG file")
	}
	return written.Bytes(), nil
}
