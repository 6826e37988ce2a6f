package app

import (
	"net/http"
	"strings"

	"connect-svc/internal/api/operator"
)

// withOperator puts the operator API beside what else is private. Without a token it is off: its paths are 404 as any
// other. It is no pattern of the mux, which would redirect paths that it finds untidy.
func (a *App) withOperator(others http.Handler, config Config) (http.Handler, error) {
	if config.OperatorHash == nil {
		return others, nil
	}
	api, err := operator.New(operator.Config{
		TokenHash: config.OperatorHash,
		Accounts:  a.Accounts,
		Activity:  a.Activity,
		OAuth:     a.OAuth,
	})
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, operator.Path) {
			api.ServeHTTP(w, r)
		} else {
			others.ServeHTTP(w, r)
		}
	}), nil
}
