package webhook

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"connect-svc/internal/foundation/credential"
)

// secretPrefix begins a signing secret (Standard Webhooks 1.0).
const secretPrefix = "whsec_"

// newSecret makes a signing secret of 256 random bits, and its sealed form, which is stored.
func (w *Webhooks) newSecret() (secret, sealed string, err error) {
	var key [32]byte
	if _, err := io.ReadFull(w.random, key[:]); err != nil {
		return "", "", err
	}
	sealed, err = w.keys.Seal(credential.WebhookSecret, key[:])
	return secretPrefix + base64.StdEncoding.EncodeToString(key[:]), sealed, err
}

var errNoSecret = errors.New("the signing secret cannot be opened with this keyset")

// sign returns the value of webhook-signature: one signature for each sealed secret that is not empty.
func (w *Webhooks) sign(messageID string, at time.Time, body []byte, sealed ...string) (string, error) {
	var signatures []string
	for _, one := range sealed {
		if one == "" {
			continue
		}
		key, err := w.keys.Open(credential.WebhookSecret, one)
		if err != nil {
			return "", fmt.Errorf("%w: %w", errNoSecret, err)
		}
		signer, err := standardwebhooks.NewWebhookRaw(key)
		if err != nil {
			return "", err
		}
		signature, err := signer.Sign(messageID, at, body)
		if err != nil {
			return "", err
		}
		signatures = append(signatures, signature)
	}
	return strings.Join(signatures, " "), nil
}
