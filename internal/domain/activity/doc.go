// Package activity owns the users' recorded activity: daily steps and cycling activities, and the corrections by support on top of
// them. It has the three reads of the partner API and every way in which data comes in.
//
// A read calls [ParseRange], which holds the date rules of specification 4.6, and then one of [Store.DailySteps],
// [Store.CyclingDaily] and [Store.CyclingPage] (4.7 to 4.9). The caller decides who may read, and passes a [Reader]: this package
// knows nothing about tokens.
//
// Data comes in through [Store.Put] or an import. Put takes a [Batch] in memory: the operator API, sample data and single
// corrections use it. An import reads a CSV file of any size.
//
// # Terms
//
//   - A ride is a cycling activity. Its source id is the name that its source gave it; partners see its id.
//   - A correction adds to the recorded steps of a date, an adjustment to its cycling distance.
//   - A merge writes rows by their key: it inserts, updates, or leaves unchanged.
//
// # Invariants
//
//   - A date without a record is absent, never zero. A correction or adjustment alone makes no date. No total is below zero
//     (TestDailySteps).
//   - A read is one statement that uses primary keys that begin with the user (TestReadsUsePrimaryKeysAlone).
//   - Rides are ordered by (start, source id), which no two rides of a user share, so that pages neither skip nor repeat rides of
//     equal start (TestPagesAreTheWholeList).
//   - A cursor works only for the query, connection version and lifetime that it was sealed for (TestCursorIsBound).
//   - A file or a batch is written whole or not at all, and its error names all bad rows, up to a hundred (TestImportBadRows).
//   - Rows that are sent again change nothing, because the key of a row comes from its source (TestImportLeavesUnchangedRows).
//   - A source id never leaves the service: partners see a keyed function of ride, user and client (TestRideID).
//   - A view by support has the totals of partners' reads, from the same statements, and is in the audit log before it is shown
//     (TestViewIsWhatPartnersRead, TestViewsAreAudited).
//
// Recorded clocks have no zone. They are held as times in UTC, because Go has no unzoned time, and never converted.
package activity
