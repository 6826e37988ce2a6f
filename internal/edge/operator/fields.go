package operator

import (
	"cmp"
	"errors"
	"strconv"
	"strings"

	"connect-svc/internal/domain/activity"
	"connect-svc/internal/edge/contract"
	"connect-svc/internal/foundation/intake"
	"connect-svc/internal/foundation/refusal"
)

// jsonFields maps the domains' fields to their names in JSON, if these differ by more than hyphens.
var jsonFields = map[string]string{"callback": "callback_url", "homepage": "homepage_url", "scope": "scopes", "overlap": "overlap_seconds"}

func jsonField(name string) string {
	return cmp.Or(jsonFields[name], strings.ReplaceAll(name, "-", "_"))
}

// Fields turns a domain's refusal of fields into a [contract.ContentError]. It returns other errors unchanged. The texts of the domains
// are fixed and contain no values. The sandbox's driver uses it, too.
func Fields(err error) error {
	if wrong, is := errors.AsType[*refusal.FieldError](err); is {
		return contract.Field(wrong.Problem, jsonField(wrong.Field))
	}
	if errors.Is(err, activity.ErrBatchSize) {
		return contract.Field(activity.ErrBatchSize.Error())
	}
	var rows contract.ContentError
	if bad, is := errors.AsType[activity.BatchError](err); is {
		for _, row := range bad {
			rows = append(rows, contract.Field(row.Err.Error(), row.Path()...)...)
		}
		return rows
	}
	if bad, is := errors.AsType[*intake.BadRows](err); is {
		for _, row := range bad.Named {
			rows = append(rows, contract.Field(row.Err.Error(), "users", strconv.Itoa(row.Line-1), row.Column)...)
		}
		return rows
	}
	return err
}
