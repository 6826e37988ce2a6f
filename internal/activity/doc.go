// Package activity owns what users recorded: daily steps and cycling activities, the support corrections on top of
// them, the three reads of the partner API, and every way in which data comes in.
//
// A read is [ParseRange], which holds the date rules of specification 4.6, and then one of DailySteps, CyclingDaily
// and CyclingPage (4.7 to 4.9). Who may read is decided before, and handed in as [Reader]: this package knows no
// tokens.
//
// What must always hold:
//
//   - A date without a record is absent, never zero; a correction or adjustment alone makes no date; no answer is below
//     zero.
//   - Recorded clocks have no zone. They travel as times in UTC because Go has no other word for them, and are never
//     converted.
//   - A read is one statement, by primary keys that begin with the user. Rides come in the order (start, source id),
//     which no two rides of a user share, so that pages neither skip nor repeat at equal starts.
//   - A cursor holds all that it is bound to, sealed. It lives from the first page of its traversal, however many pages
//     there were since, by the database's clock.
//   - Whatever comes in, comes in whole or not at all, and all of it through one merge for its kind: imports, batches,
//     sample data. What comes in again changes nothing: rows have a key of their source's.
//
// It never shows the source's name of a ride: the ids that a partner sees are a keyed function of ride, user and client.
package activity
