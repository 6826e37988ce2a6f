package webhook

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"connect-svc/internal/credential"
)

// secretPrefix begins a signing secret (Standard Webhooks 1.0).
const secretPrefix = "whsec_"

// newSecret makes a signing secret of 256 random bits, and what is stored of it.
func (w *Webhooks) newSecret() (secret, sealed string, err error) {
	var key [32]byte
	rand.Read(key[:])
	sealed, err = w.keys.Seal(credential.WebhookSecret, key[:])
	return secretPrefix + base64.StdEncoding.EncodeToString(key[:]), sealed, err
}

// sign is the value of webhook-signature: one signature for each sealed secret that is there.
func (w *Webhooks) sign(messageID string, timestamp int64, body []byte, sealed ...string) (string, error) {
	var signatures []string
	for _, one := range sealed {
		if one == "" {
			continue
		}
		key, err := w.keys.Open(credential.WebhookSecret, one)
		if err != nil {
			return "", fmt.Errorf("%w: %w", errNoSecret, err)
		}
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(messageID + "." + strconv.FormatInt(timestamp, 10) + "."))
		mac.Write(body)
		signatures = append(signatures, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return strings.Join(signatures, " "), nil
}
