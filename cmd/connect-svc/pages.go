package main

// pageSize is how many rows a list asks the database for at a time.
const pageSize = 1000

// allPages is a whole list, asked for page by page: list returns at most limit rows, those after a position.
func allPages[T any, P any](list func(after P, limit int) ([]T, error), position func(T) P) (all []T, err error) {
	for after := *new(P); ; {
		page, err := list(after, pageSize)
		if err != nil {
			return nil, err
		}
		if all = append(all, page...); len(page) < pageSize {
			return all, nil
		}
		after = position(page[len(page)-1])
	}
}
