// Package credential makes and opens what partners and users hold: client secrets, authorization codes, access
// tokens, refresh tokens and cursors.
//
// # Sealed values
//
// Codes, tokens and cursors hold their own facts. A value is the prefix of its kind (specification 2.9), followed by a short
// payload that is encrypted and authenticated under the primary key of the keyset, in unpadded base64url. The kind is authenticated
// too. The domain that seals a payload decides its content.
//
// # The keyset
//
// The keyset is one file (see [CreateKeyset]), the same for all servers. It holds
//
//   - the sealing keys: the primary one, the one that becomes primary next, and those that were primary before. A rotation
//     makes the next one primary and adds a new next one. A server that still has the previous file therefore opens what a
//     server with the new file seals, and nobody is signed out;
//   - the identifier key, for values that must never change. It is never rotated.
//
// The database has a mark of each key that was used: for a sealing key an empty payload that it sealed, for the identifier key its
// digest of nothing. A server with a keyset that lacks a marked key does not start ([Keyring.CheckMarks]).
//
// # Invariants
//
//   - A value of one kind is invalid as any other kind, and a value with one changed bit is invalid (TestKindsDoNotPassForAnother,
//     TestAlteredValuesAreInvalid).
//   - A rotation invalidates nothing (TestRotationKeepsOldKeys).
//   - A keyset that lacks a key which was used on a database is refused there (TestMarks).
//   - A keyset file that others may read or change is refused (TestKeysetOfOthersIsRefused).
//   - The service stores only the hash of a client secret (TestClientSecrets).
//   - No error holds a credential (TestKeysetFileErrors), and [Redact] finds credentials by their prefixes, for the log handler
//     (TestRedact).
//
// The package imports nothing of the service.
package credential

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// Kind is the purpose of a sealed value. It is authenticated, so its text never changes.
type Kind string

// The kinds of sealed values.
const (
	AuthorizationCode Kind = "authorization-code"
	AccessToken       Kind = "access-token"
	RefreshToken      Kind = "refresh-token"
	Cursor            Kind = "cursor"
	// AuthorizationRequest, RequestSession, AccountSignIn and AccountSession are in cookies: the request of a browser, the sign-in of its
	// user to the request, and a sign-in to the account pages before and after the code.
	AuthorizationRequest Kind = "authorization-request"
	RequestSession       Kind = "request-session"
	AccountSignIn        Kind = "account-sign-in"
	AccountSession       Kind = "account-session"
	// ReceiptLink is in the link of a receipt, which ends a connection or signs a browser out.
	ReceiptLink Kind = "receipt-link"
	// WebhookSecret is a secret that signs webhooks, sealed for the database. The sealed value never leaves the service.
	WebhookSecret Kind = "webhook-secret"
	// keyMark is an empty payload that is sealed for the database, as the mark of a key.
	keyMark Kind = "key-mark"
)

// These prefixes start client secrets and operator tokens, which are random and not sealed.
const (
	clientSecretPrefix  = "svci_"
	operatorTokenPrefix = "svco_"
)

// prefixes start the values of each kind that leaves the service (specification 2.9).
var prefixes = map[Kind]string{
	AuthorizationCode: "svcc_",
	AccessToken:       "svca_",
	RefreshToken:      "svcr2_",
	Cursor:            "cc1_",
	ReceiptLink:       "svcl_",
}

// maxLength returns the maximum length of a value in characters, prefix included (specification 8 and 4.9; cookies).
func (k Kind) maxLength() int {
	switch k {
	case Cursor:
		return 4096
	case AuthorizationRequest:
		return 3500 // browsers keep cookies of 4,096 bytes, name and attributes included
	}
	return 2048
}

// ErrInvalid is the error for every value that this keyset did not seal as the kind in question. It gives no reason, because callers
// must not tell the cases apart.
var ErrInvalid = errors.New("credential: not a value of this kind")

// encoding accepts one spelling of each value. Otherwise a changed last character could go unnoticed.
var encoding = base64.RawURLEncoding.Strict()

// NewClientSecret makes a client secret of 256 bits read from random, and the hash under which it is stored.
func NewClientSecret(random io.Reader) (secret string, hash []byte, err error) {
	return newSecret(clientSecretPrefix, random)
}

// NewOperatorToken makes an operator token of 256 random bits, and the hash that identifies it.
func NewOperatorToken() (token string, hash []byte) {
	token, hash, _ = newSecret(operatorTokenPrefix, rand.Reader) // which never fails
	return token, hash
}

func newSecret(prefix string, random io.Reader) (secret string, hash []byte, err error) {
	var bits [32]byte
	if _, err := io.ReadFull(random, bits[:]); err != nil {
		return "", nil, fmt.Errorf("new secret: %w", err)
	}
	secret = prefix + encoding.EncodeToString(bits[:])
	return secret, Hash(secret), nil
}

// Hash returns the SHA-256 of a value that cannot be guessed, such as a client secret or a refresh token: 32 bytes.
func Hash(value string) []byte {
	sum := sha256.Sum256([]byte(value))
	return sum[:]
}

// MatchesHash reports in constant time whether hash is the hash of value.
func MatchesHash(value string, hash []byte) bool {
	return subtle.ConstantTimeCompare(Hash(value), hash) == 1
}

// secretShape finds credentials by their prefixes anywhere in a text, even after an encoded character, as in "token%3Dsvca_…". Webhook
// secrets (whsec_, Standard Webhooks) are standard base64.
var secretShape = regexp.MustCompile(`(svci_|svco_|svcl_|svcc_|svca_|svcr2_|cc1_|whsec_)[A-Za-z0-9_+/=%-]{8,}`)

// Redact replaces every credential in text except its prefix, which shows its kind.
func Redact(text string) string {
	// Nearly all texts have no credential, and this check takes a hundredth of the time.
	if !strings.Contains(text, "svc") && !strings.Contains(text, "cc1_") && !strings.Contains(text, "whsec_") {
		return text
	}
	return secretShape.ReplaceAllString(text, "${1}[redacted]")
}
