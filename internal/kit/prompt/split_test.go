package prompt

import "testing"

func TestSliceOf(t *testing.T) {
	for _, c := range []struct {
		text, nonce, want string
		ok                bool
	}{
		{"Ticket 1.\n\nAlice was", "Ticket 1.", "Alice was", true},
		{"Ticket 1.\n\n", "Ticket 1.", "", true},
		{"Ticket 1. Alice", "Ticket 1.", "", false},
		{"Ticket 2.\n\nAlice", "Ticket 1.", "", false},
		{"\n\nAlice", "", "", false},
	} {
		got, ok := SliceOf(c.text, c.nonce)
		if ok != c.ok || ok && got != c.want {
			t.Errorf("SliceOf(%q, %q) = %q, %v; want %q, %v", c.text, c.nonce, got, ok, c.want, c.ok)
		}
	}
}
