// Package locale owns the words of the pages and emails, in each language, and which language somebody gets.
//
// A text is found by its key in texts/*.toml, one file for each language; English is complete, and a test holds the others to
// it. An operator may put own words in place of any text by a folder of files of the same form.
//
// # Invariants
//
//   - What is put into a text is escaped where the text is HTML. The text itself is not: its authors are the project and the
//     operator.
//   - A language is chosen by lookup (RFC 4647, section 3.4) in the order of quality that the browser states (RFC 9110,
//     section 12.5.4): the first that there is, and English where there is none.
//   - A key that English does not have is a fault of the program: it panics.
package locale
