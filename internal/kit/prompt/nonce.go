package prompt

import (
	"crypto/rand"
	"fmt"
	"math/big"
)

// A nonce is a fresh random number in words that no prompt cache can have seen:
// "Ticket 48213377." Eight digits, the first one not zero.
func newNonce() (string, error) {
	n, err := rand.Int(rand.Reader, big.NewInt(90_000_000))
	if err != nil {
		return "", fmt.Errorf("no random number for a nonce: %w", err)
	}
	return fmt.Sprintf("Ticket %d.", n.Int64()+10_000_000), nil
}

// separator stands between nonce and slice.
const separator = "\n\n"
