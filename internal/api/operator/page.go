package operator

// each is a list of bodies, never null in JSON.
func each[T, B any](rows []T, body func(T) B) []B {
	bodies := make([]B, len(rows))
	for i, row := range rows {
		bodies[i] = body(row)
	}
	return bodies
}
