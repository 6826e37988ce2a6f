package site

// Waiting is how many pages wait to be rendered.
func (s *Site) Waiting() int { return s.rendering.Stats().Waiting }

// Places is how many pages are rendered at the same time.
var Places = places
