package operator

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/api/contract"
	"connect-svc/internal/brand"
	"connect-svc/internal/client"
	"connect-svc/internal/page"
	"connect-svc/internal/scope"
)

// ListClients lists all clients.
func (h handlers) ListClients(
	ctx context.Context, request operatorapi.ListClientsRequestObject,
) (operatorapi.ListClientsResponseObject, error) {
	rows, next, err := page.Read(page.List{Name: "clients", Filters: nil, Limit: request.Params.Limit, Cursor: request.Params.Cursor},
		func(after page.Key, limit int) ([]client.Client, error) {
			return h.Clients.List(ctx, after, limit)
		},
		client.Client.Key)
	return operatorapi.ListClients200JSONResponse{Data: each(rows, ClientBody), NextCursor: next}, err
}

// CreateClient registers a client.
func (h handlers) CreateClient(
	ctx context.Context, request operatorapi.CreateClientRequestObject,
) (operatorapi.CreateClientResponseObject, error) {
	registration := client.Registration{Policy: client.DefaultPolicy}
	body := request.Body
	err := change(&registration, operatorapi.ClientChange{
		Name: &body.Name, CallbackUrl: &body.CallbackUrl, Scopes: body.Scopes, RequestsPerMinute: body.RequestsPerMinute,
		Burst: body.Burst, ConcurrentReads: body.ConcurrentReads, WebhookParallel: body.WebhookParallel,
		ContactEmail: body.ContactEmail, HomepageUrl: body.HomepageUrl, PrivacyUrl: body.PrivacyUrl, TermsUrl: body.TermsUrl,
		Logo: body.Logo,
	})
	if err != nil {
		return nil, err
	}
	similar, err := h.Clients.LookAlikes(ctx, registration.Name, uuid.Nil)
	if err != nil {
		return nil, err
	}
	created, secret, err := h.Clients.Create(ctx, registration)
	return operatorapi.CreateClient201JSONResponse{
		Body: operatorapi.CreatedClient{
			Client: ClientBody(created), ClientSecret: secret, LookAlikes: each(similar, lookAlikeBody),
		},
		Headers: operatorapi.CreateClient201ResponseHeaders{Location: Path + "v1/clients/" + created.ID.String()},
	}, err
}

// ReadClient returns a client.
func (h handlers) ReadClient(
	ctx context.Context, request operatorapi.ReadClientRequestObject,
) (operatorapi.ReadClientResponseObject, error) {
	found, err := h.Clients.Get(ctx, request.ClientId)
	return operatorapi.ReadClient200JSONResponse(ClientBody(found)), err
}

// ChangeClient changes the fields that are given.
func (h handlers) ChangeClient(
	ctx context.Context, request operatorapi.ChangeClientRequestObject,
) (operatorapi.ChangeClientResponseObject, error) {
	// Before the client's row is locked: what cannot be read, and what takes long.
	if err := change(&client.Registration{}, *request.Body); err != nil {
		return nil, err
	}
	updated, err := h.Clients.Update(ctx, request.ClientId, func(r *client.Registration) {
		_ = change(r, *request.Body) // it was possible a moment ago
	})
	if err != nil {
		return nil, err
	}
	var similar []client.Client
	if request.Body.Name != nil {
		if similar, err = h.Clients.LookAlikes(ctx, updated.Name, updated.ID); err != nil {
			return nil, err
		}
	}
	return operatorapi.ChangeClient200JSONResponse{Client: ClientBody(updated), LookAlikes: each(similar, lookAlikeBody)}, nil
}

// change puts the fields that are given into a registration.
func change(r *client.Registration, to operatorapi.ClientChange) error {
	replace(&r.Name, to.Name)
	replace(&r.CallbackURL, to.CallbackUrl)
	replace(&r.ContactEmail, to.ContactEmail)
	replace(&r.HomepageURL, to.HomepageUrl)
	replace(&r.PrivacyURL, to.PrivacyUrl)
	replace(&r.TermsURL, to.TermsUrl)
	replaceNumber(&r.Policy.RequestsPerMinute, to.RequestsPerMinute)
	replaceNumber(&r.Policy.Burst, to.Burst)
	replaceNumber(&r.Policy.ConcurrentReads, to.ConcurrentReads)
	replaceNumber(&r.WebhookParallel, to.WebhookParallel)
	if to.Scopes != nil {
		names := each(to.Scopes, func(s operatorapi.Scope) string { return string(s) })
		scopes, err := scope.Parse(strings.Join(names, " "))
		if err != nil {
			return contract.Field("is not as documented", "scopes")
		}
		r.Scopes = scopes
	}
	if to.Logo != nil {
		logo, err := readLogo(*to.Logo)
		if err != nil {
			return contract.Field("must be an SVG or PNG file of at most 64 KiB in base64, and "+err.Error(), "logo")
		}
		r.Logo = logo
	}
	return nil
}

func replace[T any](value, changed *T) {
	if changed != nil {
		*value = *changed
	}
}

func replaceNumber(value *int, changed *int32) {
	if changed != nil {
		*value = int(*changed)
	}
}

func readLogo(text string) (brand.Logo, error) {
	if text == "" {
		return brand.Logo{}, nil
	}
	file, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return brand.Logo{}, errors.New("is not base64")
	}
	return brand.ReadLogo(file)
}

// DisableClient locks a client out.
func (h handlers) DisableClient(
	ctx context.Context, request operatorapi.DisableClientRequestObject,
) (operatorapi.DisableClientResponseObject, error) {
	found, err := h.setStatus(ctx, request.ClientId, h.Clients.Disable)
	return operatorapi.DisableClient200JSONResponse(found), err
}

// EnableClient lets a client in again.
func (h handlers) EnableClient(
	ctx context.Context, request operatorapi.EnableClientRequestObject,
) (operatorapi.EnableClientResponseObject, error) {
	found, err := h.setStatus(ctx, request.ClientId, h.Clients.Enable)
	return operatorapi.EnableClient200JSONResponse(found), err
}

func (h handlers) setStatus(
	ctx context.Context, id uuid.UUID, set func(context.Context, uuid.UUID) error,
) (operatorapi.Client, error) {
	if err := set(ctx, id); err != nil {
		return operatorapi.Client{}, err
	}
	found, err := h.Clients.Get(ctx, id)
	return ClientBody(found), err
}

// RotateClientSecret replaces a client's secret.
func (h handlers) RotateClientSecret(
	ctx context.Context, request operatorapi.RotateClientSecretRequestObject,
) (operatorapi.RotateClientSecretResponseObject, error) {
	var overlap time.Duration
	if request.Body.OverlapSeconds != nil {
		overlap = time.Duration(*request.Body.OverlapSeconds) * time.Second
	}
	rotated, err := h.Clients.RotateSecret(ctx, request.ClientId, overlap)
	return operatorapi.RotateClientSecret200JSONResponse{
		ClientId: request.ClientId, ClientSecret: rotated.Secret, OldSecretUntil: instantOrNull(rotated.OverlapUntil),
	}, err
}

// OffboardClient ends a client for good.
func (h handlers) OffboardClient(
	ctx context.Context, request operatorapi.OffboardClientRequestObject,
) (operatorapi.OffboardClientResponseObject, error) {
	ended, err := h.Clients.Offboard(ctx, request.ClientId)
	return operatorapi.OffboardClient200JSONResponse{ClientId: request.ClientId, ConnectionsEnded: ended}, err
}

// ClientBody is a client.
func ClientBody(c client.Client) operatorapi.Client {
	return operatorapi.Client{
		ClientId:          c.ID,
		Name:              c.Name,
		Status:            operatorapi.ClientStatus(c.Status),
		CallbackUrl:       c.CallbackURL,
		Scopes:            scopesBody(c.Scopes),
		RequestsPerMinute: int32(c.Policy.RequestsPerMinute),
		Burst:             int32(c.Policy.Burst),
		ConcurrentReads:   int32(c.Policy.ConcurrentReads),
		WebhookParallel:   int32(c.WebhookParallel),
		ContactEmail:      c.ContactEmail,
		HomepageUrl:       c.HomepageURL,
		PrivacyUrl:        c.PrivacyURL,
		TermsUrl:          c.TermsURL,
		Logo:              c.Logo.Name,
		CreatedAt:         instant(c.CreatedAt),
		OldSecretUntil:    instantOrNull(c.OverlapUntil),
	}
}

func lookAlikeBody(c client.Client) operatorapi.LookAlike {
	return operatorapi.LookAlike{ClientId: c.ID, Name: c.Name}
}

func scopesBody(scopes scope.Set) []operatorapi.Scope {
	return each(scopes.Names(), func(name string) operatorapi.Scope { return operatorapi.Scope(name) })
}

// instantOrNull is null for the zero time.
func instantOrNull(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	text := instant(t)
	return &text
}
