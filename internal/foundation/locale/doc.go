// Package locale has the texts of pages and emails in each language, and chooses the language for a request.
//
// texts/*.toml has one file for each language of users' pages and emails, and texts/console/en.toml the console in English. An
// operator's folder of files of the same form replaces texts, and adds languages to the console.
//
// # Invariants
//
//   - Every language of users' pages has every text of English (TestLanguagesAreComplete).
//   - Values are escaped if the text is HTML. The texts are not, because the project and the operator write them
//     (TestTextIsEscapedWhereItIsHTML).
//   - A language is chosen by lookup (RFC 4647, section 3.4) in the order of the browser's qualities (RFC 9110, section 12.5.4): the
//     first available one, or else English (TestNegotiate).
//   - The console has English, and the languages for which the operator has texts of it (TestLanguagesOfTheConsole).
//   - A key that English lacks is a fault of the program and panics (TestTextsAreSet).
package locale
