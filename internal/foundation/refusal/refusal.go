// Package refusal has the errors that several domains return, such as that of a wrong [Field]. It also attaches to an error the true reason why a request was
// refused. Callers get one fixed text for many reasons. Operators and partners who test against the sandbox need the exact one.
//
// A reason is a fixed phrase that may name a parameter of the contract, also the one that a caller probably meant. It never contains a
// value or an unknown name that a caller sent, which could be a secret. The package imports nothing of the service, and every package
// may use it.
package refusal

import (
	"errors"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Errors of several domains: the named user or client does not exist, or can no longer be changed.
var (
	ErrUserNotFound     = errors.New("no such user")
	ErrClientNotFound   = errors.New("no such client")
	ErrClientOffboarded = errors.New("the client was offboarded")
)

// OverBudget refuses an act that cost others something, because it was done as often within an hour as it may be. Nothing has changed.
type OverBudget struct {
	Until time.Time     // by the database's clock
	Wait  time.Duration // until then
}

func (OverBudget) Error() string { return ErrOverBudget.Error() }

// Is implements the interface for [errors.Is].
func (OverBudget) Is(target error) bool { return target == ErrOverBudget }

// RetryAfter returns the whole seconds to wait, at least 1, for the header of that name.
func (o OverBudget) RetryAfter() string {
	return strconv.Itoa(int(max(1, math.Ceil(o.Wait.Seconds()))))
}

// ErrOverBudget is what each [OverBudget] is, to [errors.Is].
var ErrOverBudget = errors.New("this was done as often within an hour as it may be")

type because struct {
	error
	reason string
}

func (b *because) Unwrap() error { return b.error }

// Because returns err with a reason.
func Because(err error, reason string) error { return &because{err, reason} }

// Reason returns the reason that was attached to err last, or an empty string.
func Reason(err error) string {
	if cause := (*because)(nil); errors.As(err, &cause) {
		return cause.reason
	}
	return ""
}

// usual lists what callers of other services call the names of the contract, in the writing of [plain].
var usual = map[string]string{
	"from":                  "start startdate since begin after datefrom fromdate",
	"to":                    "end enddate until before dateto todate",
	"limit":                 "pagesize perpage count size max maxresults",
	"cursor":                "page pagetoken nextcursor nexttoken next offset startingafter",
	"redirect_uri":          "callback callbackurl returnurl returnto redirect",
	"code":                  "authorizationcode authcode",
	"code_verifier":         "verifier pkceverifier",
	"code_challenge":        "challenge pkcechallenge",
	"code_challenge_method": "method challengemethod",
	"refresh_token":         "refresh token",
	"token":                 "accesstoken refreshtoken",
	"token_type_hint":       "hint type tokentype",
	"daily_steps:read":      "steps:read steps dailysteps dailyactivity:read",
	"cycling_daily:read":    "cycling:read cycling cyclingdaily",
	"daily-activity":        "steps dailysteps activity dailyactivities",
	"cycling-activities":    "activities rides",
}

// plain leaves out what spellings of a name differ by: start-date, startDate and start_date are startdate.
func plain(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(name))
}

// Nearest returns the known name that is probably meant by another one: the usual name elsewhere, or one with a typing error. It
// returns an empty string if there is none.
func Nearest(name string, known []string) string {
	if len(name) > 64 {
		return ""
	}
	name = plain(name)
	best, nearest := 3, ""
	for _, candidate := range known {
		d := distance(name, plain(candidate))
		if slices.Contains(strings.Fields(usual[candidate]), name) {
			d = 0
		}
		if d < best && 3*d <= len(candidate) {
			best, nearest = d, candidate
		}
	}
	return nearest
}

// distance returns how many bytes must be added, removed, changed or swapped with the next to make b of a (optimal string alignment).
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			changed := last[j]
			if a[i] != b[j] {
				changed++
			}
			row[j+1] = min(changed, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// Unknown describes a name that is not one of the known: "an unknown parameter: perhaps from is meant". It does not repeat the name,
// which could be anything.
func Unknown(kind, name string, known []string) string {
	if nearest := Nearest(name, known); nearest != "" {
		return "an unknown " + kind + ": perhaps " + nearest + " is meant"
	}
	return "an unknown " + kind + ": there is no other than " + strings.Join(known, ", ")
}

// Named returns what if it is followed by a known name, and otherwise "a" and what, so that a reason does not repeat an unknown name.
func Named(kind, name string, known []string) string {
	if slices.Contains(known, name) {
		return kind + " " + name
	}
	return "a " + kind
}

// NotEncoded says what is wrong with a pair that [Undecodable] finds.
const NotEncoded = "is not form-encoded: it has a semicolon, or a percent sign without two hexadecimal digits behind it"

// Undecodable returns the name of the first pair of a query string or form that url.ParseQuery refuses.
func Undecodable(encoded string) string {
	for pair := range strings.SplitSeq(encoded, "&") {
		if _, err := url.ParseQuery(pair); err != nil {
			name, _, _ := strings.Cut(pair, "=")
			return name
		}
	}
	return ""
}
