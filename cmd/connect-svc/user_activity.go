package main

import (
	"fmt"
	"io"

	"connect-svc/gen/operatorapi"
)

type userActivityCommand struct {
	userID
	From date `required:"" placeholder:"YYYY-MM-DD" help:"The first date."`
	To   date `required:"" placeholder:"YYYY-MM-DD" help:"The last date, at most 365 days later."`
}

func (c userActivityCommand) AfterApply() error {
	if c.To.Before(c.From.Time) || !c.To.Before(c.From.AddDate(0, 0, 366)) {
		return usagef("--to: must be from 0 to 365 days after --from")
	}
	return nil
}

func (c userActivityCommand) Run(p *program, group *userCommands, api *operatorAPI) error {
	user, err := c.ID.read(p, api)
	if err != nil {
		return err
	}
	found, err := decode[operatorapi.UserActivity](api.ReadUserActivity(p.ctx, user.UserId, &operatorapi.ReadUserActivityParams{
		From: c.From.Date, To: c.To.Date,
	}))
	if err != nil {
		return err
	}
	return group.print(p, found, func(w io.Writer) { writeActivity(w, found) })
}

func writeActivity(w io.Writer, found operatorapi.UserActivity) {
	fmt.Fprintln(w, "DATE\tSTEPS\tCORRECTED\tPARTNERS SEE\tMETRES\tCORRECTED\tPARTNERS SEE")
	for _, day := range found.Days {
		fmt.Fprintf(w, "%s\t%s\t%+d\t%s\t%s\t%+d\t%s\n", day.Date, given(day.Steps.Recorded), day.Steps.Adjusted, given(day.Steps.Seen),
			given(day.Cycling.Recorded), day.Cycling.Adjusted, given(day.Cycling.Seen))
	}
	heading(w, len(found.Rides), "RIDE\tEND\tMETRES\tSOURCE ID")
	for _, ride := range found.Rides {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", ride.RecordedStartTime, given(ride.RecordedEndTime), ride.DistanceMeters, printable(ride.SourceId))
	}
	heading(w, len(found.Adjustments), "CORRECTION OF\tDATASET\tDELTA\tAT\tBY\tADJUSTMENT ID\tNOTE")
	for _, one := range found.Adjustments {
		fmt.Fprintf(w, "%s\t%s\t%+d\t%s\t%s\t%s\t%s\n", one.Date, one.Dataset, one.Delta, one.CreatedAt, given(one.Actor), one.AdjustmentId, cell(one.Note))
	}
	heading(w, len(found.RemovedAdjustments), "REMOVED OF\tDATASET\tAT\tBY\tADJUSTMENT ID")
	for _, one := range found.RemovedAdjustments {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", one.Date, one.Dataset, one.At, one.Actor, one.AdjustmentId)
	}
	heading(w, len(found.Readers), "READER\tSTEPS FROM\tCYCLING FROM\tNAME")
	for _, reader := range found.Readers {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", reader.ClientId, given(reader.StepsFrom), given(reader.CyclingFrom), cell(reader.ClientName))
	}
	if !found.Complete {
		fmt.Fprintln(w, "\nThere are more rides or corrections than these: ask for fewer dates.")
	}
}

// given is a value for people that may be missing.
func given[T any](value *T) string {
	if value == nil {
		return "-"
	}
	return fmt.Sprint(*value)
}
