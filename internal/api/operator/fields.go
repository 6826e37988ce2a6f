package operator

import (
	"errors"
	"strconv"
	"strings"

	"connect-svc/internal/account"
	"connect-svc/internal/activity"
	"connect-svc/internal/api/contract"
	"connect-svc/internal/client"
	"connect-svc/internal/intake"
	"connect-svc/internal/webhook"
)

// clientFields are those of a client whose names in the domain are not theirs in JSON, but for hyphens.
var clientFields = map[string]string{"callback": "callback_url", "homepage": "homepage_url", "scope": "scopes", "overlap": "overlap_seconds"}

// Fields names the fields of the body that a domain has refused; another error stays as it is. The texts of the domains are fixed
// and hold no values. The sandbox's driver has it, too.
func Fields(err error) error {
	if wrong, is := errors.AsType[*account.InvalidUserError](err); is {
		return contract.Field("must be "+wrong.Wanted, wrong.Field)
	}
	if wrong, is := errors.AsType[*activity.AdjustmentError](err); is {
		return contract.Field(wrong.Reason.Error(), wrong.Field)
	}
	if wrong, is := errors.AsType[*client.FieldError](err); is {
		name, another := clientFields[wrong.Field]
		if !another {
			name = strings.ReplaceAll(wrong.Field, "-", "_")
		}
		return contract.Field(wrong.Problem, name)
	}
	if wrong, is := errors.AsType[*webhook.URLError](err); is {
		return contract.Field(wrong.Problem, "url")
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
