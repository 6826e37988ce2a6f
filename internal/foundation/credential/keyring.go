package credential

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"slices"
	"strings"
	"sync"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/insecuresecretdataaccess"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/prf"
	"github.com/tink-crypto/tink-go/v2/prf/hmacprf"
	"github.com/tink-crypto/tink-go/v2/tink"
)

// Keyring seals and opens credentials. It is safe for concurrent use and never changes: a server reads a rotated keyset when it
// restarts.
type Keyring struct {
	sealing     tink.AEAD
	primary     uint32 // the id of the key that seals
	keys        []KeyInfo
	identifiers sync.Pool // of *identifier
}

func newKeyring(keys keysets) (*Keyring, error) {
	sealing, err := aead.New(keys.sealing)
	if err != nil {
		return nil, fmt.Errorf("credential: sealing keys: %w", err)
	}
	entry, err := keys.identifiers.Primary()
	if err != nil {
		return nil, fmt.Errorf("credential: identifier key: %w", err)
	}
	// Tink's own PRF sets up HMAC for each value, which is most of its work.
	identifiers, isHMAC := entry.Key().(*hmacprf.Key)
	if !isHMAC || identifiers.Parameters().(*hmacprf.Parameters).HashType() != hmacprf.SHA256 {
		return nil, errors.New("credential: identifier key: is not one of HMAC-SHA-256")
	}
	key := identifiers.KeyBytes().Data(insecuresecretdataaccess.Token{})
	k := &Keyring{sealing: sealing, primary: keys.sealing.KeysetInfo().GetPrimaryKeyId(), keys: keyInfos(keys.sealing)}
	k.identifiers.New = func() any { return &identifier{mac: hmac.New(sha256.New, key)} }
	return k, nil
}

// identifier is HMAC-SHA-256 under the identifier key, with buffers for its input and output. It is reused, because a page of
// activities has 500 identifiers.
type identifier struct {
	mac   hash.Hash
	input []byte
	sum   []byte
}

// Seal makes a value of a kind that holds parts, one after the other: bytes, arrays, or structs of fields of a fixed size, which are
// big-endian and in their order. Parts of 1,400 bytes fit every kind. Seal returns an error if the value would be longer than its kind
// allows, or if a part has no fixed size.
func (k *Keyring) Seal(kind Kind, parts ...any) (string, error) {
	var payload []byte
	for _, part := range parts {
		var err error
		if payload, err = binary.Append(payload, binary.BigEndian, part); err != nil {
			return "", fmt.Errorf("credential: seal %s: %w", kind, err)
		}
	}
	sealed, err := k.sealing.Encrypt(payload, boundTo(kind))
	if err != nil {
		return "", fmt.Errorf("credential: seal %s: %w", kind, err)
	}
	value := prefixes[kind] + encoding.EncodeToString(sealed)
	if len(value) > kind.maxLength() {
		return "", fmt.Errorf("credential: seal %s: payload of %d bytes is too long", kind, len(payload))
	}
	return value, nil
}

// Open returns the payload of a value that a key of this keyset sealed as kind. The error for every other value is [ErrInvalid].
func (k *Keyring) Open(kind Kind, value string) ([]byte, error) {
	text, ok := strings.CutPrefix(value, prefixes[kind])
	if !ok || len(value) > kind.maxLength() || strings.ContainsAny(text, "\r\n") {
		return nil, ErrInvalid // the decoder would ignore line breaks
	}
	sealed, err := encoding.DecodeString(text)
	if err != nil {
		return nil, ErrInvalid
	}
	payload, err := k.sealing.Decrypt(sealed, boundTo(kind))
	if err != nil {
		return nil, ErrInvalid
	}
	return payload, nil
}

// OpenAs is [Keyring.Open] for a value that holds a T, which has a fixed size, and nothing else.
func OpenAs[T any](k *Keyring, kind Kind, value string) (content T, err error) {
	payload, err := k.Open(kind, value)
	if err != nil {
		return content, err
	}
	if n, err := binary.Decode(payload, binary.BigEndian, &content); err != nil || n != len(payload) {
		return content, ErrInvalid
	}
	return content, nil
}

func boundTo(kind Kind) []byte { return []byte("connect-svc/1/" + string(kind)) }

// PRF is a keyed pseudo-random function of a label, which names the use, and any parts. Its 32 bytes stay the same as long as the
// keyset exists. Computing or inverting them takes the keyset.
func (k *Keyring) PRF(label string, parts ...[]byte) (output [32]byte) {
	id := k.identifiers.Get().(*identifier) //nolint:errcheck // nothing else is in the pool
	defer k.identifiers.Put(id)
	// Each part follows its length, so that no two lists of parts have the same input.
	id.input = append(binary.BigEndian.AppendUint32(id.input[:0], uint32(len(label))), label...)
	for _, part := range parts {
		id.input = append(binary.BigEndian.AppendUint32(id.input, uint32(len(part))), part...)
	}
	id.mac.Reset()
	id.mac.Write(id.input)
	id.sum = id.mac.Sum(id.sum[:0])
	clear(id.input) // it may hold a code or an address
	copy(output[:], id.sum)
	return output
}

// Keys returns the sealing keys, oldest first.
func (k *Keyring) Keys() []KeyInfo { return slices.Clone(k.keys) }

// NewTestKeyring returns a keyring of new keys that are stored nowhere.
func NewTestKeyring() *Keyring {
	keys, err := newKeysets()
	if err != nil {
		panic(err)
	}
	ring, err := newKeyring(keys)
	if err != nil {
		panic(err)
	}
	return ring
}

// keysets are the two parts of a keyset file.
type keysets struct {
	sealing, identifiers *keyset.Handle
}

// UseIdentifierKey replaces the key of activity ids, before the keyring is used: a sandbox repeats them.
func (k *Keyring) UseIdentifierKey(key [32]byte) {
	k.identifiers.New = func() any { return &identifier{mac: hmac.New(sha256.New, key[:])} }
}

// newKeysets makes the keys of a new installation: a primary sealing key, the next one, and the identifier key.
func newKeysets() (keys keysets, err error) {
	if keys.sealing, err = keyset.NewHandle(sealingTemplate()); err == nil {
		keys.sealing, err = withNext(keys.sealing)
	}
	if err == nil {
		keys.identifiers, err = keyset.NewHandle(prf.HMACSHA256PRFKeyTemplate())
	}
	if err != nil {
		return keysets{}, fmt.Errorf("credential: new keys: %w", err)
	}
	return keys, nil
}

// withNext makes the next key the primary one, if there is one, and adds a new next key.
func withNext(sealing *keyset.Handle) (*keyset.Handle, error) {
	manager := keyset.NewManagerFromHandle(sealing)
	for _, key := range keyInfos(sealing) {
		if key.Status == keyNext {
			if err := manager.SetPrimary(key.ID); err != nil {
				return nil, err
			}
		}
	}
	if _, err := manager.Add(sealingTemplate()); err != nil {
		return nil, err
	}
	return manager.Handle()
}
