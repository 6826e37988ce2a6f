package account

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var noon = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

// within counts the times of a window that ends at a time.
func within(times []time.Time, end time.Time, window time.Duration) (n int) {
	for _, at := range times {
		if at.After(end.Add(-window)) && !at.After(end) {
			n++
		}
	}
	return n
}

// A limit admits an email exactly if its hour and its day have room for it, and says when they will.
func TestLimitIsExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := counter{limit: limit{perHour: rapid.IntRange(0, 6).Draw(t, "per hour"), perDay: rapid.IntRange(0, 12).Draw(t, "per day")}}
		var admitted []time.Time
		now := noon
		for range rapid.IntRange(1, 60).Draw(t, "requests") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(8*hour)).Draw(t, "later")) / 1000 * 1000)
			hasRoom := func(at time.Time) bool {
				return (c.perHour == 0 || within(admitted, at, hour) < c.perHour) && (c.perDay == 0 || within(admitted, at, day) < c.perDay)
			}
			next := c.next()
			if got, want := !next.After(now), hasRoom(now); got != want {
				t.Fatalf("admitted: %t, want %t", got, want)
			}
			if next.After(now) {
				if !hasRoom(next) || hasRoom(next.Add(-time.Microsecond)) {
					t.Fatalf("%s is not when there is room", next)
				}
				continue
			}
			before := slices.Clone(c.emails)
			after := c.add(now)
			if !slices.Equal(before, c.emails) {
				t.Fatal("add changes its argument")
			}
			c = after
			admitted = append(admitted, now)
			if most := max(c.perHour, c.perDay); len(c.emails) > most {
				t.Fatalf("%d emails are stored of at most %d", len(c.emails), most)
			}
		}
	})
}

// Strangers in any networks request emails for an address: the emails of an hour and of a day are at most those of the budget and
// as many first emails of networks, of one network at most half of a day's, and a known browser is not affected.
func TestAdmitBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		perHour := rapid.IntRange(1, 6).Draw(t, "per hour")
		limits := map[string]counter{}
		get := func(name string, perHour, perDay int) counter {
			if c, known := limits[name]; known {
				return c
			}
			return counter{limit: limit{key: [32]byte([]byte(fmt.Sprintf("%32s", name))), perHour: perHour, perDay: perDay}}
		}
		sent := map[string][]time.Time{}
		request := func(now time.Time, network string) bool {
			counters := []counter{
				get("network "+network, 3*perHour, 0), get("address in "+network, 0, daily*perHour/2), get("address", perHour, daily*perHour),
			}
			if network == "" { // a known browser
				counters = []counter{get("browser", perHour, daily*perHour)}
			}
			changed, next := admit(counters, get("firsts", perHour, daily*perHour), now)
			if (changed == nil) != next.After(now) {
				t.Fatalf("%d counters changed, and the next email is at %s", len(changed), next)
			}
			for _, c := range changed {
				for _, name := range []string{"network " + network, "address in " + network, "address", "browser", "firsts"} {
					if c.key == get(name, 0, 0).key {
						limits[name] = c
					}
				}
			}
			if changed != nil {
				sent[network] = append(sent[network], now)
			}
			return changed != nil
		}
		now := noon
		var strangers []time.Time
		for range rapid.IntRange(1, 80).Draw(t, "requests") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(2*hour)).Draw(t, "later")) / 1000 * 1000)
			network := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g", "h"}).Draw(t, "network")
			isNew := within(sent[network], now, day) == 0
			budget := get("address", perHour, daily*perHour)
			admitted := request(now, network)
			if admitted {
				strangers = append(strangers, now)
			} else if isNew && !budget.next().After(now) {
				t.Fatal("a new network is refused while the budget has room")
			}
			if n := within(strangers, now, hour); n > 2*perHour {
				t.Fatalf("%d emails in an hour", n)
			}
			if n := within(strangers, now, day); n > 2*daily*perHour {
				t.Fatalf("%d emails in a day", n)
			}
			if n := within(sent[network], now, day); n > daily*perHour/2 {
				t.Fatalf("%d emails in a day from one network", n)
			}
		}
		if !request(now, "") {
			t.Fatal("a known browser is refused its first email")
		}
	})
}

// An address has used up its emails. A network is told when the address has one again, or when it may have its first one of the day, whichever is
// sooner.
func TestAdmitSaysWhen(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		network, address, firsts []time.Duration // when the emails were, before noon
		next                     time.Duration   // after noon
	}{
		"a new network, and first emails are left":           {address: []time.Duration{50 * time.Minute, 5 * time.Minute}},
		"a new network, while first emails are used up":      {nil, []time.Duration{5 * time.Minute, 4 * time.Minute}, []time.Duration{58 * time.Minute, 57 * time.Minute}, 2 * time.Minute},
		"a new network, and the address is sooner":           {nil, []time.Duration{50 * time.Minute, 4 * time.Minute}, []time.Duration{8 * time.Minute, 7 * time.Minute}, 10 * time.Minute},
		"a network that had an email today":                  {[]time.Duration{4 * time.Hour}, []time.Duration{5 * time.Minute, 4 * time.Minute}, nil, 55 * time.Minute},
		"a network that had its last email almost a day ago": {[]time.Duration{day - time.Minute}, []time.Duration{5 * time.Minute, 4 * time.Minute}, nil, time.Minute},
	} {
		counted := func(perHour, perDay int, before []time.Duration) counter {
			c := counter{limit: limit{perHour: perHour, perDay: perDay}}
			for _, ago := range before {
				c.emails = append(c.emails, noon.Add(-ago))
			}
			return c
		}
		counters, firsts := []counter{counted(0, 4, test.network), counted(2, 8, test.address)}, counted(2, 8, test.firsts)
		changed, next := admit(counters, firsts, noon)
		if test.next == 0 {
			if changed == nil {
				t.Errorf("%s: refused until %s", name, next)
			}
			continue
		}
		if got := next.Sub(noon); changed != nil || got != test.next {
			t.Errorf("%s: refused for %s, want %s", name, got, test.next)
		}
		if changed, _ := admit(counters, firsts, noon.Add(test.next)); changed == nil {
			t.Errorf("%s: refused again after %s", name, test.next)
		}
	}
}

// A code has five attempts and a budget a hundred failed ones, whatever the codes.
func TestAttemptsAreBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		failed := 0
		for range rapid.IntRange(1, 60).Draw(t, "codes") {
			attempts := 0
			for range rapid.IntRange(0, 8).Draw(t, "attempts") {
				left := attemptsLeft(attempts, failed)
				if (left > 0) != (attempts < Attempts && codesWork(failed)) || left < 0 || left > Attempts {
					t.Fatalf("%d attempts left after %d, with %d failed ones", left, attempts, failed)
				}
				if left > 0 {
					attempts, failed = attempts+1, failed+1
				}
			}
			if attempts > Attempts || failed > maxFailed {
				t.Fatalf("%d attempts at a code, %d failed ones", attempts, failed)
			}
		}
	})
}
