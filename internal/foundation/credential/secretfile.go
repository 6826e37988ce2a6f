package credential

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
)

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
