package brand

import (
	"bytes"
	"image/color"
	"image/png"
	"testing"
)

// TestMarkInMail: a brand without a picture, a letter and a color has the mark of the pages: a track and a runner on a tile with round corners.
func TestMarkInMail(t *testing.T) {
	t.Parallel()
	picture := Brand{Name: DefaultName}.InMail()
	img, err := png.Decode(bytes.NewReader(picture.Content))
	if err != nil || !picture.IsSquare() || len(picture.Content) > 8<<10 {
		t.Fatalf("%s of %d bytes: %v", picture.Name, len(picture.Content), err)
	}
	for at, want := range map[[2]int]color.NRGBA{ // in units of the drawing
		{0, 0}: {}, {31, 31}: {}, {3, 16}: {0x0b, 0x5a, 0x41, 255}, {23, 16}: {0xf2, 0xb1, 0x34, 255}, {17, 8}: {255, 255, 255, 255}, {17, 23}: {255, 255, 255, 255},
		{6, 16}: {255, 255, 255, 255}, {17, 13}: {255, 255, 255, 255}, {17, 16}: {0x0b, 0x5a, 0x41, 255},
	} {
		got := color.NRGBAModel.Convert(img.At(at[0]*80/32+1, at[1]*80/32+1)).(color.NRGBA)
		if got.A == 0 {
			got = color.NRGBA{}
		}
		if got != want {
			t.Errorf("at %v: %v, want %v", at, got, want)
		}
	}
	green, err := ParseColor("#0b5a41")
	if err != nil {
		t.Fatal(err)
	}
	if picture := (Brand{Name: "Acme", Color: green}).InMail(); picture.Name != "" {
		t.Error("a brand with a color has the program's own mark")
	}
}
