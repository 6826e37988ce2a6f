// Package brand is how an operator or a partner looks to users: a name, a logo, an icon, a color, and pages for help and privacy.
//
// # Invariants
//
//   - A logo is never served as it was uploaded. A picture is decoded and encoded again (TestReadPicture), and only the shapes and
//     paints of a drawing are written, so that a logo can neither run nor load anything (TestDrawingIsHarmless).
//   - A logo is cheap to draw, whatever its file refers to (TestReadLogoRefuses).
//   - Every color is accepted, and all text is readable, in light and in dark pages (TestColorsCanBeRead).
package brand
