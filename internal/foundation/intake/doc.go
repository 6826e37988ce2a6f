// Package intake reads rows from files, and reports bad rows of files and of batches.
//
// A [Reader] feeds the rows of a file of comma-separated values (RFC 4180) to a COPY, one by one.
//
// # Invariants
//
//   - An error names a bad row by its line, its column and the reason, and never by its value, which may be personal (TestReader).
//   - One bad row does not hide the others: the reader continues to the end of the file and reports the first 100 (TestBadRows).
//   - Memory does not grow with the file, even if a quote is never closed (TestReader).
package intake
