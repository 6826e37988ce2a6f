package oauth

import (
	"crypto/aes"
	"crypto/cipher"

	"github.com/google/uuid"
)

// grantOf derives the id of a connection's grant, from which [Server.userOf] finds the user. It encrypts the user's id with a key of the
// client's, again and again until the result has the form of a random id (RFC 9562, section 5.4), as one in 64 has. So it is one to one,
// and two partners see no relation between the grants of one user. ok is false if the user's id has another form: then a grant is random.
func (s *Server) grantOf(userID, clientID uuid.UUID) (grantID uuid.UUID, ok bool) {
	return walk(s.grantCipher(clientID).Encrypt, userID)
}

// userOf inverts grantOf. The user of a grant that is not derived is one that does not exist.
func (s *Server) userOf(grantID, clientID uuid.UUID) (userID uuid.UUID, ok bool) {
	return walk(s.grantCipher(clientID).Decrypt, grantID)
}

func (s *Server) grantCipher(clientID uuid.UUID) cipher.Block {
	key := s.keys.PRF("grants of a client", clientID[:])
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // the key has a size of AES
	}
	return block
}

// walk applies a permutation of all ids until it reaches one with the form of a random id. If it begins at one, that is a permutation, too.
func walk(step func(to, from []byte), id uuid.UUID) (uuid.UUID, bool) {
	hasForm := func() bool { return id.Version() == 4 && id.Variant() == uuid.RFC4122 }
	if !hasForm() {
		return uuid.Nil, false
	}
	for again := true; again; again = !hasForm() {
		step(id[:], id[:])
	}
	return id, true
}
