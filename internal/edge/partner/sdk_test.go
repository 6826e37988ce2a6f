package partner

import (
	"context"
	"net/http"
	"testing"

	openapi_types "github.com/oapi-codegen/runtime/types"

	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/edgetest"

	connectsdk "connect.invalid/connect-go"
)

// A partner's way with the generated client, from the code to the disconnect.
func TestGeneratedClient(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, id := range []string{"a", "b", "c"} {
		f.addRide(t, id, today+" 07:00:00", nil, 1000)
	}
	ctx := t.Context()
	sdk, err := connectsdk.NewClientWithResponses(f.url, connectsdk.WithHTTPClient(f.browser))
	if err != nil {
		t.Fatal(err)
	}
	asClient := authorize(edgetest.BasicOf(f.client))

	code, redirectURI, codeVerifier := f.Code(t, f.client, scope.All), callback, verifier
	exchanged, err := sdk.RequestTokenWithFormdataBodyWithResponse(ctx, connectsdk.TokenRequest{
		GrantType: connectsdk.GrantTypeAuthorizationCode, Code: &code, RedirectUri: &redirectURI, CodeVerifier: &codeVerifier,
	}, asClient)
	if err != nil || exchanged.JSON200 == nil {
		t.Fatalf("exchange: %v %s", err, exchanged.Status())
	}
	refreshed, err := sdk.RequestTokenWithFormdataBodyWithResponse(ctx, connectsdk.TokenRequest{
		GrantType: connectsdk.GrantTypeRefreshToken, RefreshToken: &exchanged.JSON200.RefreshToken,
	}, asClient)
	if err != nil || refreshed.JSON200 == nil {
		t.Fatalf("refresh: %v %s", err, refreshed.Status())
	}
	tokens := refreshed.JSON200
	asUser := authorize("Bearer " + tokens.AccessToken)

	limit, rides := 2, 0
	params := connectsdk.ReadCyclingActivitiesParams{From: tokens.HistoryFrom, To: tokens.HistoryFrom, Limit: &limit}
	for more := true; more; more = params.Cursor != nil {
		page, err := sdk.ReadCyclingActivitiesWithResponse(ctx, tokens.GrantId, &params, asUser)
		if err != nil || page.JSON200 == nil {
			t.Fatalf("read: %v %s", err, page.Status())
		}
		rides += len(page.JSON200.Data)
		params.Cursor = page.JSON200.Meta.NextCursor
	}
	if rides != 3 {
		t.Errorf("read %d rides, want 3", rides)
	}

	refused, err := sdk.ReadDailyActivityWithResponse(ctx, tokens.GrantId, &connectsdk.ReadDailyActivityParams{
		From: tokens.HistoryFrom, To: openapi_types.Date{Time: tokens.HistoryFrom.AddDate(0, 0, 31)},
	}, asUser)
	if err != nil || refused.JSON400 == nil || refused.JSON400.Error.Code != connectsdk.ActivityBadRequestDetailCodeInvalidDateRange {
		t.Errorf("a range that is too long: %v %s", err, refused.Status())
	} else if refused.Headers400.RateLimitRemaining == nil {
		t.Error("the client does not show RateLimit-Remaining")
	}

	revoked, err := sdk.RevokeTokenWithFormdataBodyWithResponse(ctx, connectsdk.RevokeRequest{Token: tokens.AccessToken}, asClient)
	if err != nil || revoked.StatusCode() != http.StatusOK {
		t.Errorf("revoke: %v %s", err, revoked.Status())
	}
	ended, err := sdk.DisconnectGrantWithResponse(ctx, tokens.GrantId, asClient)
	if err != nil || ended.StatusCode() != http.StatusNoContent {
		t.Errorf("disconnect: %v %s", err, ended.Status())
	}
}

func authorize(value string) connectsdk.RequestEditorFn {
	return func(_ context.Context, request *http.Request) error {
		request.Header.Set("Authorization", value)
		return nil
	}
}
