// Package brand is what an operator or a partner looks like to users: a name, a logo, a color, and where to turn to.
//
// What comes from a file is never served as it is. A picture is decoded and encoded again, and of a drawing only shapes and
// paints are kept; so a logo can neither run nor load anything. A color is refused unless text in it can be read.
package brand
