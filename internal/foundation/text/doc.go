// Package text compares what people type: names and email addresses.
//
// Names are compared without regard to the case of letters, by one rule ([Fold]). A database would decide by its locale: for one in Turkish INES is
// not ines, and for one in C SÖRE is not söre.
//
// An address has four forms: as somebody typed it; as it is stored and shown ([StoredAddress]); the key by which it is found, which only programs
// see ([AddressKey]); and as it is sent ([SentAddress]).
//
// # Invariants
//
//   - Texts are the same if they differ only in the case of letters, or in how Unicode composes them (TestFold). Nothing else makes them the
//     same: ß is not ss, and a dotless ı is not i (TestFoldKeepsApart).
//   - The folded form of a folded text is itself (FuzzFold).
//   - No statement folds a text, so no key depends on the database's locale (TestProgramFolds).
//   - A valid address looks like no other address: it has no invisible character, and none that reorders text. Its domain is the name of a host
//     (TestIsAddress).
//   - Addresses that differ only in case, in how Unicode composes their letters, or in the spelling of the domain have one key. No others do
//     (TestAddressKey).
package text
