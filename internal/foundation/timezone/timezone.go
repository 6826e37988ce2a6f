// Package timezone has the names of time zones, and the calendar days in them.
//
// The program decides both. It asks neither PostgreSQL nor the machine for names, because their lists differ: Debian 13 has moved
// Asia/Calcutta and US/Pacific to a package of their own. The rules of a zone come from the machine, whose updates are sooner, and else
// from the program. The database's clock decides the instant, and this package which day it is there.
//
//   - A name that the program accepts is known to it on every machine. (TestEveryNameIsKnown)
//   - A former name means the same as the canonical one, which is stored. (TestNames)
//   - No name makes anything fail. A zone that neither the program nor the machine knows is UTC: its days may be off by one.
//     (TestUnknown) `connect-svc check` names such zones.
//
// names.txt has a line for each zone: its canonical name, and the names that mean the same. The canonical names are those of zone.tab in
// the time zone database, which has one for each place, and fixed offsets. TestNames compares the list with the database of the Go that
// builds the program, and TestStoredNames the migrations with the list.
package timezone

import (
	_ "embed"
	"sort"
	"strings"
	"time"
	_ "time/tzdata" // for names that the machine does not have
)

//go:embed names.txt
var text string

// canonical has the canonical name of each name.
var canonical = func() map[string]string {
	names := map[string]string{}
	for line := range strings.Lines(text) {
		same := strings.Fields(line)
		for _, name := range same {
			names[name] = same[0]
		}
	}
	return names
}()

// Canonical returns the canonical name of a zone, such as Asia/Kolkata for Asia/Calcutta. It returns an unknown name as it is, with false.
// Upper and lower case matter.
func Canonical(name string) (string, bool) {
	if same, ok := canonical[name]; ok {
		return same, true
	}
	return name, false
}

// Location returns the rules of a zone, UTC if they are unknown.
func Location(name string) *time.Location {
	if location := load(name); location != nil {
		return location
	}
	return time.UTC
}

// IsKnown reports whether Location has the rules of a zone.
func IsKnown(name string) bool { return load(name) != nil }

// load returns nil if the zone is unknown. The machine may know a newer name. Go takes an empty name for UTC, and Local for the machine's
// own zone. That may have the name of a user's zone, which is TZ.
func load(name string) *time.Location {
	name, _ = Canonical(name)
	location, err := time.LoadLocation(name)
	if err != nil || name == "" || location == time.Local {
		return nil
	}
	return location
}

// Day returns the calendar day of a time in its own zone, as midnight UTC.
func Day(local time.Time) time.Time {
	year, month, day := local.Date()
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
}

// EndOfDay returns the first later instant of another calendar day than that of a time in its own zone. It is not always a midnight: there
// are zones in which that hour, or the whole next day, was skipped. A day is shorter than 49 hours. (time.Time.ZoneBounds would tell where
// the hour is skipped, but not on 31 December of a leap year, where Go 1.26 returns a bound that has passed.)
func EndOfDay(local time.Time) time.Time {
	const longest = 49 * 60 * 60
	day, second := Day(local), local.Truncate(time.Second)
	return second.Add(time.Second * time.Duration(sort.Search(longest, func(n int) bool {
		return Day(second.Add(time.Duration(n) * time.Second)).After(day)
	})))
}
