package timezone

import (
	"archive/zip"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// database returns the files of the time zone database of the Go that runs the test, by name.
func database(t *testing.T) map[string][]byte {
	t.Helper()
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	archive, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "zoneinfo.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	files := map[string][]byte{}
	for _, entry := range archive.File {
		if strings.HasSuffix(entry.Name, "/") {
			continue
		}
		file, err := entry.Open()
		if err != nil {
			t.Fatal(err)
		}
		if files[entry.Name], err = io.ReadAll(file); err != nil {
			t.Fatal(err)
		}
		_ = file.Close()
	}
	return files
}

func rules(t *testing.T, file []byte) *time.Location {
	t.Helper()
	location, err := time.LoadLocationFromTZData("", file)
	if err != nil {
		t.Fatal(err)
	}
	return location
}

// The list has the names of Go's time zone database, and each means what it means there. A newer Go may have further names: put each
// on the line of what it is a link to, or on a line of its own if zone.tab has it. A former name needs a migration, too.
func TestNames(t *testing.T) {
	t.Parallel()
	files := database(t)
	var names, want []string
	for name := range canonical {
		names = append(names, name)
	}
	for name := range files {
		want = append(want, name)
	}
	slices.Sort(names)
	slices.Sort(want)
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("(-Go's +names.txt):\n%s", diff)
	}
	for name, same := range canonical {
		if name == same {
			continue
		}
		if canonical[same] != same {
			t.Errorf("%s has another canonical name", same)
		}
		if files[name] == nil || files[same] == nil {
			continue
		}
		former, now := rules(t, files[name]), rules(t, files[same])
		// The database's links are alike since 1970.
		for at := time.Unix(0, 0); at.Year() < 2040; at = at.Add(36 * time.Hour) {
			_, was := at.In(former).Zone()
			if _, is := at.In(now).Zone(); is != was {
				t.Errorf("%s is not %s on %s", name, same, at)
				break
			}
		}
	}
	if n := strings.Count(text, "\n") + strings.Count(text, " "); n != len(canonical) {
		t.Errorf("%d names stand in the list, %d of them once", n, len(canonical))
	}
}

func TestCanonical(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"Europe/Berlin": "Europe/Berlin", "Europe/Oslo": "Europe/Oslo", "Asia/Calcutta": "Asia/Kolkata", "US/Pacific": "America/Los_Angeles",
		"America/Buenos_Aires": "America/Argentina/Buenos_Aires", "Europe/Kiev": "Europe/Kyiv", "Etc/UTC": "UTC", "GMT": "UTC", "Zulu": "UTC",
		"EST": "America/Panama", "CET": "Europe/Brussels", "Etc/GMT+5": "Etc/GMT+5",
		"": "", "Local": "", "europe/berlin": "", "posix/UTC": "", "right/UTC": "", "localtime": "", "posixrules": "", "UTC+1": "", "CEST": "",
		"../../etc/passwd": "", "UTC\x00": "", "Mars/Olympus": "", "UTC ": "",
	} {
		known := want != ""
		if !known {
			want = name
		}
		if got, ok := Canonical(name); got != want || ok != known {
			t.Errorf("%q: %q, %t", name, got, ok)
		}
	}
}

// Every name that is accepted is known, also on a machine without a time zone database.
func TestEveryNameIsKnown(t *testing.T) {
	t.Parallel()
	for name := range canonical {
		if !IsKnown(name) {
			t.Errorf("%s is unknown", name)
		}
	}
}

func TestUnknown(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "Local", "Mars/Olympus", "../../etc/passwd", "UTC\x00", "/", strings.Repeat("x", 5000)} {
		if IsKnown(name) || Location(name) != time.UTC {
			t.Errorf("%q is %s", name, Location(name))
		}
	}
	if former, now := Location("Asia/Calcutta"), Location("Asia/Kolkata"); former.String() != now.String() {
		t.Errorf("a former name has the rules of %s", former)
	}
}

// The machine's own zone, which TZ names, is a zone like all others.
func TestZoneOfTheMachine(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, zone := range []string{"Europe/Berlin", ":Asia/Kathmandu", "UTC", "", "Mars/Olympus"} {
		command := exec.CommandContext(t.Context(), program, "-test.run", "^(TestEveryNameIsKnown|TestUnknown|TestDays)$")
		command.Env = append(os.Environ(), "TZ="+zone)
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("TZ=%s: %v: %s", zone, err, out)
		}
	}
}

// A day ends where the next instant has another date, however the zone's clocks are set around midnight.
func TestDays(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ zone, from, day, end string }{ // instants in UTC
		{"UTC", "2026-03-10T12:00:00Z", "2026-03-10", "2026-03-11T00:00:00Z"},
		{"Europe/Berlin", "2026-03-29T00:30:00Z", "2026-03-29", "2026-03-29T22:00:00Z"},     // a day of 23 hours
		{"Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-25", "2026-10-25T23:00:00Z"},     // and one of 25
		{"America/Sao_Paulo", "2018-11-03T12:00:00Z", "2018-11-03", "2018-11-04T03:00:00Z"}, // 00:00 became 01:00
		{"America/Sao_Paulo", "2018-02-17T12:00:00Z", "2018-02-17", "2018-02-18T03:00:00Z"}, // 00:00 became 23:00
		{"Africa/Cairo", "2026-04-23T12:00:00Z", "2026-04-23", "2026-04-23T22:00:00Z"},
		{"Africa/Cairo", "2026-10-29T12:00:00Z", "2026-10-29", "2026-10-29T22:00:00Z"},
		{"Asia/Beirut", "2026-03-28T12:00:00Z", "2026-03-28", "2026-03-28T22:00:00Z"},
		{"Pacific/Apia", "2011-12-30T09:00:00Z", "2011-12-29", "2011-12-30T10:00:00Z"}, // the 30th was skipped
		{"Pacific/Apia", "2011-12-30T10:00:00Z", "2011-12-31", "2011-12-31T10:00:00Z"},
		{"Pacific/Kwajalein", "1993-08-21T11:00:00Z", "1993-08-20", "1993-08-21T12:00:00Z"}, // the 21st was skipped
		{"America/New_York", "2028-12-31T12:00:00Z", "2028-12-31", "2029-01-01T05:00:00Z"},
		{"Asia/Kathmandu", "2026-03-10T18:14:59.999999Z", "2026-03-10", "2026-03-10T18:15:00Z"},
		{"Etc/GMT+12", "2026-03-10T12:00:00Z", "2026-03-10", "2026-03-11T12:00:00Z"},
		{"Mars/Olympus", "2026-03-10T12:00:00Z", "2026-03-10", "2026-03-11T00:00:00Z"},
	} {
		from, err := time.Parse(time.RFC3339, test.from)
		if err != nil {
			t.Fatal(err)
		}
		local := from.In(Location(test.zone))
		end := EndOfDay(local)
		if day := Day(local).Format(time.DateOnly); day != test.day || end.UTC().Format(time.RFC3339) != test.end {
			t.Errorf("%s in %s is %s until %s", test.from, test.zone, day, end.UTC().Format(time.RFC3339))
		}
		for at := local; at.Before(end); at = at.Add(time.Minute) {
			if !Day(at).Equal(Day(local)) {
				t.Fatalf("%s in %s: %s is before its end", test.from, test.zone, at)
			}
		}
		if last := end.Add(-1); !Day(last).Equal(Day(local)) || Day(end).Equal(Day(local)) {
			t.Errorf("%s in %s: the last day is %s, the next one %s", test.from, test.zone, Day(last), Day(end))
		}
	}
}

// The days of each zone through the years follow each other without a gap or an overlap of instants.
func TestDaysOfAllZones(t *testing.T) {
	t.Parallel()
	for name := range canonical {
		if canonical[name] != name {
			continue
		}
		location := Location(name)
		for at := time.Date(2025, 12, 31, 12, 0, 0, 0, time.UTC).In(location); at.Year() < 2029; {
			end := EndOfDay(at)
			if !end.After(at) || end.Sub(at) > 27*time.Hour || !Day(end.Add(-1)).Equal(Day(at)) || Day(end).Equal(Day(at)) {
				t.Fatalf("%s: the day of %s ends at %s", name, at, end)
			}
			at = end
		}
	}
}
