//go:build faults

package storm

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"
)

// results has a line for each storm of this checkout, so that they can be added up.
const results = "bin/storms.jsonl"

// add adds this storm to the results. One that met a program with a deliberate fault is not added.
func (s *summary) add(seed uint64, pace float64, lasts time.Duration, passed bool) error {
	if os.Getenv("CONNECT_TEST_FAULTS_OVERLAY") != "" {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	total := 0
	for _, n := range s.faults {
		total += n
	}
	line, err := json.Marshal(map[string]any{
		"at": time.Now().UTC().Format(time.RFC3339), "seed": seed, "for": lasts.String(), "pace": pace, "passed": passed,
		"faults": total, "kinds": s.faults, "requests": len(s.samples), "answers": s.answers, "facts": s.facts,
	})
	if err != nil {
		return err
	}
	path := filepath.Join(root, results)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := file.Write(append(line, '\n')); err != nil {
		_ = file.Close()
		return err
	}
	return file.Close()
}
