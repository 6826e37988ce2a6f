// Package mailcatcher is a mail server that delivers nothing: it keeps the emails that the service sends and shows them on a web page.
// The demo and the sandbox send their one-time codes there, and tests read them.
//
// It accepts emails for every recipient, keeps the newest hundred in memory and loses them when the process ends. The
// page reloads every few seconds, without JavaScript.
//
// It is stricter than the libraries for mail servers, which accept much that others refuse, such as addresses without angle brackets: the
// service is known to speak the protocol where it speaks to this server.
//
// # Invariants
//
//   - It refuses each form that RFC 5321 and the extensions in use do not have (TestStrict, TestStrictLogin).
//   - An email whose end is not certain is not accepted, and nothing that follows it is read (TestNothingIsSmuggled).
package mailcatcher
