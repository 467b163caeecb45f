package prompt

import "strings"

// SliceOf is the slice within a prompt's text, which begins with the nonce.
func SliceOf(text, nonce string) (slice string, ok bool) {
	if nonce == "" {
		return "", false
	}
	return strings.CutPrefix(text, nonce+separator)
}
