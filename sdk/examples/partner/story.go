package partner

import (
	"embed"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"text/template"
	"time"

	"connect.invalid/connect-go/connect"
)

//go:embed story.txt
var storyFile embed.FS

// words are the texts of the steps, for people who do not know the specification.
var words = template.Must(template.ParseFS(storyFile, "story.txt"))

// step is an event of the story, and the requests that were sent for it.
type step struct {
	At          time.Time
	Title, Text string
	Next        string // advice after a failure
	Exchanges   []exchange

	begins bool // a chapter
	read   bool // by the page that shows it
	Times  int  // that the page read in a row
}

// Failed reports a failure.
func (s step) Failed() bool { return s.Next != "" }

const storyLength = 16 // steps

func newStep(name string, data any, exchanges ...exchange) step {
	var text strings.Builder
	if err := words.ExecuteTemplate(&text, name, data); err != nil {
		panic(err) // a mistake in story.txt
	}
	lines := strings.Split(text.String(), "\n")
	return step{Title: lines[0], Text: lines[1], Next: lines[2], Exchanges: exchanges}
}

func beginning(name string, data any, exchanges ...exchange) step {
	s := newStep(name, data, exchanges...)
	s.begins = true
	return s
}

// add adds a step to the story of a member. Consecutive reads are one step, which shows the last of them.
func (p *Partner) add(member string, s step) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.At, s.Times = time.Now(), 1
	story := p.stories[member]
	if s.read && len(story) > 0 && story[0].read && story[0].Title == s.Title {
		s.Times = story[0].Times + 1
		story = story[1:]
	}
	story = slices.Insert(slices.Clone(story), 0, s)
	p.stories[member] = story[:min(len(story), storyLength)]
}

// sums are those of a reading.
type sums struct {
	from          time.Time // its first day
	steps, meters int64
	rides         int
}

// since tells what a reading has that the one before did not have, and keeps its sums for the next. Readings that begin with different days
// cannot be compared.
func (p *Partner) since(member string, now sums) string {
	p.mu.Lock()
	before, again := p.sums[member]
	p.sums[member] = now
	p.mu.Unlock()
	if !again || !before.from.Equal(now.from) {
		return fmt.Sprintf("There are %s, and %s of %s km in all.", count(int(now.steps), "step"), count(now.rides, "ride"), kilometers(now.meters))
	}
	var changes []string
	for _, change := range []struct {
		by   int
		what string
	}{{int(now.steps - before.steps), "step"}, {now.rides - before.rides, "ride"}} {
		switch {
		case change.by > 0:
			changes = append(changes, count(change.by, change.what)+" more")
		case change.by < 0:
			changes = append(changes, count(-change.by, change.what)+" fewer")
		}
	}
	switch {
	case len(changes) > 0:
		return "Since the last reading: " + strings.Join(changes, " and ") + "."
	case now.meters != before.meters:
		return "Since the last reading, a ride was corrected."
	}
	return "Nothing changed since the last reading."
}

// story returns the chapters, newest first, each with its steps in order.
func (p *Partner) story(member Member) (chapters [][]step) {
	p.mu.Lock()
	defer p.mu.Unlock()
	begun := true
	for _, s := range p.stories[member.Key] {
		if begun {
			chapters = append(chapters, nil)
		}
		s.At, begun = s.At.In(member.Timezone), s.begins
		last := &chapters[len(chapters)-1]
		*last = slices.Insert(*last, 0, s)
	}
	return chapters
}

// notice returns the newest step of a member's story if it failed. The page shows it at the top.
func (p *Partner) notice(member string) *step {
	p.mu.Lock()
	defer p.mu.Unlock()
	if story := p.stories[member]; len(story) > 0 && story[0].Failed() && !story[0].read {
		return &story[0]
	}
	return nil
}

// failure returns the step for a failed act, such as "read your data".
func failure(err error, doing string, sent []exchange) step {
	refused := new(connect.Error)
	_ = errors.As(err, &refused)
	over := new(connect.ReconnectError)
	_ = errors.As(err, &over)
	var name string
	switch {
	case errors.Is(err, connect.ErrDenied):
		name = "denied"
	case errors.Is(err, connect.ErrState):
		name = "wrong state"
	case errors.Is(err, connect.ErrNotConnected):
		name = "not connected"
	case over.State != "": // uncertain or ended
		name = string(over.State)
	case refused.Code == "invalid_grant", refused.Code == "invalid_client":
		name = refused.Code
	case len(sent) > 0 && sent[len(sent)-1].Status == http.StatusTooManyRequests: // even if the page does not wait so long
		name = "rate limited"
	case refused.Status != 0 && refused.Status < http.StatusInternalServerError:
		name = "refused"
	default:
		name = "away"
	}
	return newStep(name, struct {
		Doing string
		*connect.Error
	}{doing, refused}, sent...)
}
