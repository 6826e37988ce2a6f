// Package static serves files that are the same for everybody, such as styles, pictures and the developers' site, compressed
// where the browser takes it.
//
// It is for nothing else. An answer that holds a secret beside something that its reader chose must not be compressed: its
// length would give the secret away, bit by bit (BREACH). So a file is made of bytes that no request has a part in.
package static
