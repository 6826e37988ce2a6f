package contract

import "testing"

// The grammar of RFC 9110, section 11.4: auth-scheme 1*SP token68.
func TestAuthorization(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]string{
		"Bearer svca_x": "svca_x", "bearer svca_x": "svca_x", "BEARER svca_x": "svca_x",
		"Bearer  svca_x": "svca_x", "bEaReR     svca_x": "svca_x",
		"Bearer": "", "Bearer ": "", "Bearer   ": "", "": "", " ": "", "svca_x": "", "Bearersvca_x": "",
		" Bearer svca_x": "", "Bearer\tsvca_x": "", "Bearer \tsvca_x": "", "Bearer svca_x ": "", "Bearer svca_x y": "", "Bearer svca_x\ty": "",
		"Bearer svca_x\n": "", "Bearer\u00a0svca_x": "", "Bearer, Bearer svca_x": "", "Basic svca_x": "", "Bearer=svca_x": "",
	} {
		value, ok := Authorization(header, "Bearer")
		if ok != (want != "") || ok && value != want {
			t.Errorf("%q: %q, %t, want %q", header, value, ok, want)
		}
	}
}
