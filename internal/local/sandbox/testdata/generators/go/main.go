// Command partner reads with the client that oapi-codegen makes. Its module is made by the test.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/oapi-codegen/runtime/types"

	"partner/api"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	client, err := api.NewClientWithResponses(os.Getenv("BASE_URL"))
	if err != nil {
		return err
	}
	first, err := exchange(ctx, client, os.Getenv("CODE"), os.Getenv("CALLBACK_URL"), os.Getenv("CODE_VERIFIER"))
	if err != nil {
		return err
	}
	tokens, err := refresh(ctx, client, first.RefreshToken)
	if err != nil {
		return err
	}
	bearer := func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+tokens.AccessToken)
		return nil
	}
	at, err := time.Parse(time.DateOnly, os.Getenv("DAY"))
	if err != nil {
		return err
	}
	grant, day := tokens.GrantId, types.Date{Time: at}
	steps, err := client.ReadDailyActivityWithResponse(ctx, grant, &api.ReadDailyActivityParams{From: day, To: day}, bearer)
	if err != nil || steps.JSON200 == nil {
		return fmt.Errorf("steps: %w", err)
	}
	cycling, err := client.ReadCyclingDailyWithResponse(ctx, grant, &api.ReadCyclingDailyParams{From: day, To: day}, bearer)
	if err != nil || cycling.JSON200 == nil {
		return fmt.Errorf("cycling: %w", err)
	}
	rides, err := client.ReadCyclingActivitiesWithResponse(ctx, grant, &api.ReadCyclingActivitiesParams{From: day, To: day}, bearer)
	if err != nil || rides.JSON200 == nil {
		return fmt.Errorf("rides: %w", err)
	}
	early := types.Date{Time: at.AddDate(-20, 0, 0)}
	refused, err := client.ReadDailyActivityWithResponse(ctx, grant, &api.ReadDailyActivityParams{From: early, To: day}, bearer)
	if err != nil || refused.JSON400 == nil {
		return fmt.Errorf("refused: %w", err)
	}
	found := struct {
		Steps   []int64 `json:"steps"`
		Meters  []int64 `json:"meters"`
		Rides   []int64 `json:"rides"`
		Refused string  `json:"refused"`
	}{Refused: string(refused.JSON400.Error.Code)}
	for _, row := range steps.JSON200.Data {
		found.Steps = append(found.Steps, row.Steps)
	}
	for _, row := range cycling.JSON200.Data {
		found.Meters = append(found.Meters, row.DistanceMeters)
	}
	for _, row := range rides.JSON200.Data {
		found.Rides = append(found.Rides, row.DistanceMeters)
	}
	return json.NewEncoder(os.Stdout).Encode(found)
}
