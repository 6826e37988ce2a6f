package credential

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
)

// othersMay are the permissions that a file with a secret must not give: others read or write it, or its group writes it. The
// group may read: that is how Kubernetes and packages hand a secret to a program that does not own it.
const othersMay os.FileMode = 0o026

// ReadSecretFile reads a file with a secret in it, of at most so many bytes, unless its mode lets others read it or change it.
// Every error is a [*fs.PathError], and holds nothing of what is in the file.
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
