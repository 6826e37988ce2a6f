// Package intake reads rows that come in by a file, and says what is wrong with rows, of a file or of a batch.
//
// A [Reader] feeds the rows of a file of comma-separated values (RFC 4180) to a COPY, one by one.
//
// # Invariants
//
//   - A row that cannot be taken is named by its line, its column and the reason, never by its value, which may be personal.
//   - One bad row does not hide the others: reading goes on to the end of the file, and the first 100 are named.
//   - Memory does not grow with the file.
package intake
