package credential

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
	tinkpb "github.com/tink-crypto/tink-go/v2/proto/tink_go_proto"
)

// sealingTemplate is XAES-256-GCM, whose 192-bit random nonces never run out. Plain AES-GCM with random nonces is safe for some four
// billion values a key, which a busy service seals in a few weeks.
func sealingTemplate() *tinkpb.KeyTemplate { return aead.XAES256GCM192BitNonceKeyTemplate() }

// keysetFile is a keyset on disk: two Tink keysets in the JSON form of Tink, unencrypted. The mode of the file protects them (0600).
type keysetFile struct {
	Sealing     json.RawMessage `json:"sealing"`
	Identifiers json.RawMessage `json:"identifiers"`
}

// KeyStatus is the state of a sealing key.
type KeyStatus string

// The states of a sealing key, in the order of its life.
const (
	keyNext    KeyStatus = "next"    // known to every server, seals nothing yet
	keyPrimary KeyStatus = "primary" // seals and opens
	keyRetired KeyStatus = "retired" // only opens what it sealed
)

// KeyInfo describes a sealing key without its material.
type KeyInfo struct {
	ID     uint32    `json:"key_id"`
	Status KeyStatus `json:"status"`
}

// CreateKeyset writes a new keyset to a new file that only its owner can read. The file must not exist.
func CreateKeyset(path string) error {
	keys, err := newKeysets()
	if err != nil {
		return err
	}
	text, err := keys.encode()
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("keyset %s: exists already, and what it sealed would be lost", path)
	}
	if err != nil {
		return fmt.Errorf("keyset: %w", err)
	}
	if err := writeAndClose(file, text); err != nil {
		os.Remove(path)
		return fmt.Errorf("keyset: %w", err)
	}
	return nil
}

// LoadKeyring reads a keyset file. The error is one line.
func LoadKeyring(path string) (*Keyring, error) {
	keys, err := readKeysets(path)
	if err != nil {
		return nil, err
	}
	return newKeyring(keys)
}

// RotateKeyset makes the next sealing key the primary one and adds a new next key. It replaces the file atomically, so that a
// concurrent reader gets the old or the new keyset, and keeps its owner and mode.
func RotateKeyset(path string) error {
	keys, err := readKeysets(path)
	if err != nil {
		return err
	}
	if keys.sealing, err = withNext(keys.sealing); err != nil {
		return fmt.Errorf("keyset %s: %w", path, err)
	}
	text, err := keys.encode()
	if err != nil {
		return err
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return fmt.Errorf("keyset: %w", err)
	}
	before, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("keyset: %w", err)
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".keyset-*") // mode 0600
	if err != nil {
		return fmt.Errorf("keyset: %w", err)
	}
	defer os.Remove(file.Name())
	if err := errors.Join(keepOwner(file.Name(), before), file.Chmod(before.Mode().Perm()), writeAndClose(file, text)); err != nil {
		return fmt.Errorf("keyset %s: %w", path, err)
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return fmt.Errorf("keyset: %w", err)
	}
	return nil
}

// keyInfos derives the states from the order: keys are added at the end and become primary in that order.
func keyInfos(handle *keyset.Handle) []KeyInfo {
	info := handle.KeysetInfo()
	list := make([]KeyInfo, 0, len(info.GetKeyInfo()))
	status := keyRetired
	for _, key := range info.GetKeyInfo() {
		switch {
		case key.GetKeyId() == info.GetPrimaryKeyId():
			status = keyPrimary
		case status == keyPrimary:
			status = keyNext
		}
		list = append(list, KeyInfo{ID: key.GetKeyId(), Status: status})
	}
	return list
}

// maxKeyset is far above the size after a lifetime of rotations.
const maxKeyset = 1 << 20

func readKeysets(path string) (keysets, error) {
	text, err := ReadSecretFile(path, maxKeyset)
	if err != nil {
		return keysets{}, fmt.Errorf("keyset: %w", err)
	}
	var stored keysetFile
	if err := json.Unmarshal(text, &stored); err != nil {
		return keysets{}, fmt.Errorf("keyset %s: is not a keyset made by keys create", path)
	}
	sealing, sealingErr := insecurecleartextkeyset.Read(keyset.NewJSONReader(bytes.NewReader(stored.Sealing)))
	identifiers, identifiersErr := insecurecleartextkeyset.Read(keyset.NewJSONReader(bytes.NewReader(stored.Identifiers)))
	if sealingErr != nil || identifiersErr != nil {
		return keysets{}, fmt.Errorf("keyset %s: is not a keyset made by keys create", path)
	}
	return keysets{sealing, identifiers}, nil
}

func (k keysets) encode() ([]byte, error) {
	var sealing, identifiers bytes.Buffer
	err := errors.Join(
		insecurecleartextkeyset.Write(k.sealing, keyset.NewJSONWriter(&sealing)),
		insecurecleartextkeyset.Write(k.identifiers, keyset.NewJSONWriter(&identifiers)))
	if err != nil {
		return nil, fmt.Errorf("keyset: %w", err)
	}
	text, err := json.MarshalIndent(keysetFile{sealing.Bytes(), identifiers.Bytes()}, "", "  ")
	return append(text, '\n'), err
}

func writeAndClose(file *os.File, text []byte) error {
	_, err := file.Write(text)
	return errors.Join(err, file.Sync(), file.Close())
}

// othersMay are the permissions that a file with a secret must not have: read or write for others, and write for its group. The group
// may read it, because Kubernetes and packages pass secrets that way to a program that does not own the file.
const othersMay os.FileMode = 0o026

// ReadSecretFile reads a file with a secret, of at most most bytes. It returns an error if the mode lets others read or change the
// file. Every error is a [*fs.PathError] without content of the file.
func ReadSecretFile(path string, most int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&othersMay != 0 {
		return nil, &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf(
			"has mode %04o, so that others can read or change it: chmod 0640 or less", info.Mode().Perm())}
	}
	text, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(text)) > most {
		return nil, &fs.PathError{Op: "read", Path: path, Err: errors.New("is too large")}
	}
	return text, err
}
