// Package activity owns what users recorded: daily steps and cycling activities, and the support corrections on top of
// them. It has the three reads of the partner API and every way in which data comes in.
//
// A read is [ParseRange], which holds the date rules of specification 4.6, and then one of [Store.DailySteps],
// [Store.CyclingDaily] and [Store.CyclingPage] (4.7 to 4.9). The caller decides who may read, and says so by a [Reader]:
// this package knows no tokens.
//
// Data comes in by [Store.Put] or by an import. Put takes a [Batch] in memory: the operator API, sample data and single
// corrections use it. An import reads a CSV file of any size.
//
// # Terms
//
//   - A ride is a cycling activity. Its source id is the name that its source gave it; its id is what partners see.
//   - A correction adds to the recorded steps of a date, an adjustment to its cycling distance.
//   - A merge writes rows by their key: it inserts, updates, or leaves unchanged.
//
// # Invariants
//
//   - A date without a record is absent, never zero. A correction or adjustment alone makes no date. No total is below
//     zero.
//   - Recorded clocks have no zone. They are held as times in UTC, because Go has no unzoned time, and never converted.
//   - A read is one statement, by primary keys that begin with the user. Rides come in the order (start, source id),
//     which no two rides of a user share, so that pages neither skip nor repeat rides of equal start.
//   - A cursor is sealed and holds all that it is bound to. It expires by the database's clock, counted from the first
//     page of its traversal.
//   - A file or a batch names all of its bad rows, up to a hundred.
//   - A file or a batch is written whole or not at all, and there is one merge for each kind of record. The key of a row
//     comes from its source, so that rows that are sent again change nothing.
//   - A source id never leaves the service: the id that a partner sees is a keyed function of ride, user and client.
package activity
