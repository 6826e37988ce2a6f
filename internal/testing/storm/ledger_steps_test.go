//go:build faults

package storm

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

const (
	walkDays = 20               // whose steps are written together
	landing  = 60 * time.Second // after which a write without an answer has happened or never will
)

// walk is a user whose steps are written by one caller, generation after generation, and read by others: what was acknowledged is
// what is read. A day has 1000 × the generation of its total + the generation of its correction.
type walk struct {
	*connection
	corrections [walkDays]uuid.UUID

	mu      sync.Mutex
	written [2][]write // totals and corrections, by generation
	reads   int
}

type write struct {
	call, end int64 // the end is the answer, or when it has landed
	acked     bool
}

func newWalk(c *connection) *walk {
	w := &walk{connection: c}
	c.from, c.to = firstDay.Format(time.DateOnly), firstDay.AddDate(0, 0, walkDays-1).Format(time.DateOnly)
	for n := range w.corrections {
		w.corrections[n] = uuid.New()
	}
	return w
}

// begin notes a write of the next generation; end notes its acknowledgement.
func (w *walk) begin(of int) (generation int, end func(acked bool)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	call := w.now()
	w.written[of] = append(w.written[of], write{call: call, end: call + landing.Nanoseconds()})
	generation = len(w.written[of])
	return generation, func(acked bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if acked {
			w.written[of][generation-1] = write{call, w.now(), true}
		}
	}
}

// write writes all days: a batch or an import of totals, or a batch of corrections.
func (w *walk) write(chance *rand.Rand) {
	switch chance.IntN(4) {
	case 0:
		w.importSteps(chance)
	case 1:
		generation, end := w.begin(1)
		if generation > 999 {
			return
		}
		var corrections []any
		for n := range walkDays {
			corrections = append(corrections, map[string]any{"user_id": w.user.id, "date": w.date(n), "correction_id": w.corrections[n], "delta": generation, "note": "storm"})
		}
		end(w.batch("correct steps", map[string]any{"step_corrections": corrections}))
	default:
		generation, end := w.begin(0)
		var days []any
		for n := range walkDays {
			days = append(days, map[string]any{"user_id": w.user.id, "date": w.date(n), "steps": 1000 * generation})
		}
		end(w.batch("write steps", map[string]any{"daily_steps": days}))
	}
	await(w.stop, between(chance, 0.1, 0.8))
}

func (w *walk) date(n int) string { return firstDay.AddDate(0, 0, n).Format(time.DateOnly) }

func (w *walk) batch(kind string, body any) (acked bool) {
	got := w.operate(kind, http.MethodPost, "/activity", body)
	if got.status != http.StatusOK && !got.unknown() {
		w.Errorf("%s is answered %d %s", kind, got.status, got.body)
	}
	return got.status == http.StatusOK
}

func (w *walk) importSteps(chance *rand.Rand) {
	generation, end := w.begin(0)
	var file strings.Builder
	file.WriteString("user_id,date,steps\n")
	for n := range walkDays {
		fmt.Fprintf(&file, "%s,%s,%d\n", w.user.id, w.date(n), 1000*generation)
	}
	end(w.importRows(chance, "import steps", "daily-steps", file.String()))
}

// importRows imports a file, and kills the command early one time of three.
func (s *storm) importRows(chance *rand.Rand, kind, table, file string) (done bool) {
	lasts := time.Minute
	if early := between(chance, 0.02, 0.4); chance.IntN(3) == 0 {
		lasts = early
	}
	ctx, cancel := context.WithTimeout(context.Background(), lasts)
	defer cancel()
	program, unused := s.programs.any()
	defer unused()
	command := exec.CommandContext(ctx, program, "import", table, "-")
	command.Env, command.Stdin = s.env, strings.NewReader(file)
	var complaint bytes.Buffer
	command.Stderr = &complaint
	began := time.Now()
	err := command.Run()
	answer := "failed"
	if err == nil {
		answer = "done"
	} else if ctx.Err() != nil {
		answer = "killed"
	}
	s.sum.answer(kind, answer, time.Since(began))
	if credentials.Match(complaint.Bytes()) || strings.Contains(complaint.String(), "panic") {
		s.Error("a command panicked, or printed a credential")
	}
	return err == nil
}

// look reads all days and holds them against the writes.
func (w *walk) look(caller int, chance *rand.Rand) {
	defer await(w.stop, between(chance, 0.05, 0.4))
	last, some := w.token(0)
	if w.connects(caller, !some) || !some {
		return
	}
	if time.Since(last.at) > tokenAge && caller == 0 { // two at a time would be a replay
		w.refresh(caller, last)
		return
	}
	call := w.now()
	body := w.read(caller, last, "daily-activity")
	end := w.now()
	var page struct {
		Data []struct{ Steps int } `json:"data"`
	}
	if !bytes.HasPrefix(body, []byte(`{"data"`)) || json.Unmarshal(body, &page) != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reads++
	total, correction := 0, 0
	if len(page.Data) > 0 {
		total, correction = page.Data[0].Steps/1000, page.Data[0].Steps%1000
	}
	for _, day := range page.Data {
		if len(page.Data) != walkDays || day.Steps != page.Data[0].Steps {
			w.Errorf("a read has a part of a batch: %d days, of %d.%d and %d", len(page.Data), total, correction, day.Steps)
			return
		}
	}
	w.hold("total", w.written[0], total, call, end)
	if total > 0 { // a correction without a total is not read
		w.hold("correction", w.written[1], correction, call, end)
	}
}

// hold: a read between call and end may have this generation if it was written by the end, and no later one was acknowledged long
// enough before the call.
func (w *walk) hold(what string, written []write, generation int, call, end int64) {
	was := write{}
	if generation > len(written) {
		w.Errorf("a read has a %s that nobody wrote", what)
		return
	} else if generation > 0 {
		was = written[generation-1]
	}
	for _, later := range written[generation:] {
		if late := call - later.end; later.acked && later.call > was.end && late > w.staleness.Nanoseconds() {
			w.Errorf("a read has %s %d, %s after a later one was acknowledged", what, generation, time.Duration(late).Round(time.Millisecond))
			return
		}
	}
}

func (s *storm) checkSteps() {
	reads, writes, acked := 0, 0, 0
	for _, w := range s.walks {
		before := w.reads
		for tries := 0; w.reads == before && tries < 20; tries++ { // the last one, of what is there now
			w.look(0, rand.New(rand.NewPCG(s.seed, 3)))
		}
		if w.reads == before {
			s.Error("steps cannot be read after the storm")
		}
		reads += w.reads
		for _, of := range w.written {
			writes += len(of)
			for _, one := range of {
				if one.acked {
					acked++
				}
			}
		}
	}
	s.sum.fact("%d reads of steps held against %d writes, %d of them acknowledged", reads, writes, acked)
}
