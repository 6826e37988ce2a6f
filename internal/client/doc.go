// Package client owns the registrations of partner companies: who they are, where their users return to, what they
// may ask for, how fast they may read, and the secret by which their backends prove themselves (specification
// sections 1 and 5.1).
//
// What must always hold: a client has exactly one callback, an exact HTTPS address ([ValidateCallback]); its secret is
// shown once, when it is made, and only the hash is kept; a replaced secret ends at once; an offboarded client never
// comes back.
package client
