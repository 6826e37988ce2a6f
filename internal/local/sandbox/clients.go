package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"connect-svc/gen/sandboxapi"
	"connect-svc/internal/admin/portal"
	"connect-svc/internal/domain/client"
	"connect-svc/internal/domain/webhook"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/foundation/work"
)

// clients are the registrations, the first one that of the start.
type clients struct {
	mu   sync.RWMutex // of list
	list []sandboxapi.SandboxClient

	changing *work.Queue // a mutex whose Acquire ends with its context
}

func (c *clients) all() []sandboxapi.SandboxClient {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Clone(c.list)
}

func (c *clients) get(id uuid.UUID) (sandboxapi.SandboxClient, bool) {
	all := c.all()
	i := slices.IndexFunc(all, func(partner sandboxapi.SandboxClient) bool { return partner.ClientId == id })
	if i < 0 {
		return sandboxapi.SandboxClient{}, false
	}
	return all[i], true
}

// Client is what the caller of [Run] decides about a client.
type Client struct{ Name, CallbackURL string }

// addClient registers a client, whose webhooks go to url, or to the receiver inside the sandbox if it is empty. The error for a wrong
// field is a refusal.Field.
func (s *sandbox) addClient(ctx context.Context, registration client.Registration, url string) (added sandboxapi.SandboxClient, err error) {
	if err := s.clients.changing.Acquire(ctx); err != nil {
		return added, err
	}
	defer s.clients.changing.Release()
	if url == "" {
		url = s.receiverURL("webhooks")
	}
	if err := CheckReceiver(url); err != nil {
		return added, err
	}
	created, secret, err := s.service.Clients.Create(ctx, registration)
	if err != nil {
		return added, err
	}
	webhookSecret, err := s.service.Webhooks.SetEndpoint(ctx, created.ID, s.endpoint(created.ID, url))
	if err != nil {
		return added, err
	}
	added = sandboxapi.SandboxClient{
		ClientId: created.ID, Name: created.Name, Status: sandboxapi.ClientStatus(created.Status),
		ClientSecret: secret, CallbackUrl: created.CallbackURL,
		RequestsPerMinute: int32(created.Policy.RequestsPerMinute), Burst: int32(created.Policy.Burst),
		ConcurrentReads: int32(created.Policy.ConcurrentReads),
		WebhookUrl:      url, WebhookSecret: webhookSecret,
	}
	for _, name := range created.Scopes.Names() {
		added.Scopes = append(added.Scopes, sandboxapi.Scope(name))
	}
	s.clients.mu.Lock()
	defer s.clients.mu.Unlock()
	s.clients.list = append(s.clients.list, added)
	return added, nil
}

// CreateClient registers a client as the operator does.
func (d driver) CreateClient(ctx context.Context, request sandboxapi.CreateClientRequestObject) (sandboxapi.CreateClientResponseObject, error) {
	registration := client.Registration{
		Name:        or(request.Body.Name, fmt.Sprintf("Sandbox Partner %d", len(d.clients.all())+1)),
		CallbackURL: or(request.Body.CallbackUrl, d.config.CallbackURL),
		Scopes:      scope.All,
		Policy: client.Policy{
			RequestsPerMinute: int(or(request.Body.RequestsPerMinute, int32(policy.RequestsPerMinute))),
			Burst:             int(or(request.Body.Burst, int32(policy.Burst))),
			ConcurrentReads:   int(or(request.Body.ConcurrentReads, int32(policy.ConcurrentReads))),
		},
	}
	if asked := request.Body.Scopes; len(asked) > 0 {
		names := make([]string, len(asked))
		for i, name := range asked {
			names[i] = string(name)
		}
		var err error
		if registration.Scopes, err = scope.Parse(strings.Join(names, " ")); err != nil {
			return nil, err
		}
	}
	added, err := d.addClient(ctx, registration, or(request.Body.WebhookUrl, d.config.WebhookURL))
	if wrong, ok := errors.AsType[refusal.Field](err); ok && wrong.Path == "url" {
		err = refusal.Field{Path: "webhook_url", Problem: wrong.Problem}
	}
	return sandboxapi.CreateClient201JSONResponse(added), err
}

// changeClient does an act on a client, one at a time, and keeps what the act changes in its description. Error: refusal.ErrClientNotFound.
func (s *sandbox) changeClient(ctx context.Context, id uuid.UUID, act func(*sandboxapi.SandboxClient) error) error {
	if err := s.clients.changing.Acquire(ctx); err != nil {
		return err
	}
	defer s.clients.changing.Release()
	partner, known := s.clients.get(id)
	if !known {
		return refusal.ErrClientNotFound
	}
	if err := act(&partner); err != nil {
		return err
	}
	s.clients.mu.Lock()
	defer s.clients.mu.Unlock()
	s.clients.list[slices.IndexFunc(s.clients.list, func(c sandboxapi.SandboxClient) bool { return c.ClientId == id })] = partner
	return nil
}

// SetClientStatus disables, enables or offboards a client.
func (d driver) SetClientStatus(
	ctx context.Context, request sandboxapi.SetClientStatusRequestObject,
) (sandboxapi.SetClientStatusResponseObject, error) {
	status, registry := request.Body.Status, d.service.Clients
	return sandboxapi.SetClientStatus204Response{}, d.changeClient(ctx, request.ClientId, func(partner *sandboxapi.SandboxClient) (err error) {
		partner.Status = status
		switch status {
		case sandboxapi.ClientStatusActive:
			err = registry.Enable(ctx, request.ClientId)
		case sandboxapi.ClientStatusDisabled:
			err = registry.Disable(ctx, request.ClientId)
		case sandboxapi.ClientStatusOffboarded:
			_, err = registry.Offboard(ctx, request.ClientId)
		}
		return err
	})
}

// unbounded has no budget of acts: a test replaces secrets as often as it likes.
func unbounded(ctx context.Context) context.Context { return work.WithActor(ctx, work.System) }

// RotateClientSecret replaces the secret of a client.
func (d driver) RotateClientSecret(
	ctx context.Context, request sandboxapi.RotateClientSecretRequestObject,
) (sandboxapi.RotateClientSecretResponseObject, error) {
	overlap := time.Duration(or(request.Body.OverlapSeconds, 24*60*60)) * time.Second
	var made sandboxapi.NewSecret
	err := d.changeClient(ctx, request.ClientId, func(partner *sandboxapi.SandboxClient) error {
		secret, err := d.service.Clients.RotateSecret(unbounded(ctx), request.ClientId, overlap)
		partner.ClientSecret, made = secret.Secret, newSecret(secret.Secret, secret.OverlapUntil)
		return err
	})
	return sandboxapi.RotateClientSecret200JSONResponse(made), err
}

// RotateWebhookSecret replaces the secret that signs a client's webhooks.
func (d driver) RotateWebhookSecret(
	ctx context.Context, request sandboxapi.RotateWebhookSecretRequestObject,
) (sandboxapi.RotateWebhookSecretResponseObject, error) {
	var made sandboxapi.NewSecret
	err := d.changeClient(ctx, request.ClientId, func(partner *sandboxapi.SandboxClient) error {
		secret, err := d.service.Webhooks.RotateSecret(unbounded(ctx), request.ClientId, webhook.SecretOverlap, nil)
		if err != nil {
			return err
		}
		endpoint, err := d.service.Webhooks.Endpoint(ctx, request.ClientId)
		partner.WebhookSecret, made = secret, newSecret(secret, endpoint.RotatingUntil)
		return err
	})
	return sandboxapi.RotateWebhookSecret200JSONResponse(made), err
}

// CreatePortalLink creates a link to a client's own pages, in place of those before.
func (d driver) CreatePortalLink(
	ctx context.Context, request sandboxapi.CreatePortalLinkRequestObject,
) (sandboxapi.CreatePortalLinkResponseObject, error) {
	_, secret, err := d.service.Portal.CreateLink(ctx, portal.NewLink{ClientID: request.ClientId, Valid: portal.MaxValid, Replace: true})
	return sandboxapi.CreatePortalLink200JSONResponse{Url: d.baseURL + portal.LinkPath(request.ClientId, secret)}, err
}

func newSecret(secret string, overlapUntil time.Time) sandboxapi.NewSecret {
	made := sandboxapi.NewSecret{Secret: secret}
	if !overlapUntil.IsZero() {
		made.OverlapUntil = new(instant(overlapUntil))
	}
	return made
}

// or returns what a request gives, or else another value.
func or[T any](given *T, otherwise T) T {
	if given == nil {
		return otherwise
	}
	return *given
}
