// Package mailcatcher is a mail server that delivers nothing: it keeps the emails that the service sends and shows them on a web page.
// The demo and the sandbox send their one-time codes there, and tests read them.
//
// It accepts emails for every recipient, keeps the newest hundred in memory and loses them when the process ends. The
// page reloads every few seconds, without JavaScript.
package mailcatcher
