package partner

import (
	"embed"
	"errors"
	"net/http"
	"slices"
	"strings"
	"text/template"
	"time"

	"connect.invalid/connect-go/connect"
)

//go:embed story.txt
var storyFile embed.FS

// words are the texts of the steps, for people who never read the specification.
var words = template.Must(template.ParseFS(storyFile, "story.txt"))

// step is one thing that happened, and the requests that were sent for it.
type step struct {
	At          time.Time
	Title, Text string
	Next        string // what to do now, if something went wrong
	Exchanges   []exchange

	begins bool // a chapter: what came before is another story
	read   bool // by the page that shows it
	Times  int  // that the page read in a row
}

// Failed reports that something went wrong.
func (s step) Failed() bool { return s.Next != "" }

const storyLength = 16 // steps

// newStep is a step with the text of that name.
func newStep(name string, data any, exchanges ...exchange) step {
	var text strings.Builder
	if err := words.ExecuteTemplate(&text, name, data); err != nil {
		panic(err) // a mistake in story.txt
	}
	lines := strings.Split(text.String(), "\n")
	return step{Title: lines[0], Text: lines[1], Next: lines[2], Exchanges: exchanges}
}

// beginning is a step that begins a chapter.
func beginning(name string, data any, exchanges ...exchange) step {
	s := newStep(name, data, exchanges...)
	s.begins = true
	return s
}

// add adds a step to the story of a member. Reads in a row are one step, which shows the last of them.
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

// story is in chapters, the newest first; the steps of each are in the order in which they happened.
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

// notice is the newest step of a member's story if it went wrong: the page shows it above all else.
func (p *Partner) notice(member string) *step {
	p.mu.Lock()
	defer p.mu.Unlock()
	if story := p.stories[member]; len(story) > 0 && story[0].Failed() && !story[0].read {
		return &story[0]
	}
	return nil
}

// failure is the step of what went wrong while doing something, such as "read your data".
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
	case len(sent) > 0 && sent[len(sent)-1].Status == http.StatusTooManyRequests: // also if the page does not wait so long
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
