// Package mailcatcher is a mail server that delivers nothing: it keeps what is sent to it, and shows it on a web page.
// The demo sends its one-time codes there.
//
// It takes every letter for everybody, from this machine alone, keeps the newest hundred in memory and forgets them
// with the process. The page loads itself again every few seconds, without JavaScript.
package mailcatcher
