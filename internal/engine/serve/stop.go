package serve

import "strings"

// stopper looks for stop strings in text that comes in pieces. What may still
// grow into one is held back, so that no part of a stop string is ever shown.
//
// Of several stop strings the one that is complete first wins, and of those
// that end at the same place the longest, so that the text that is let through
// does not depend on how it was cut into pieces.
type stopper struct {
	stops []string // none is empty
	held  string
	found string // the one that ended the text
}

// push adds a piece and returns what is certain to be shown. Once stopped is
// true, nothing more may be pushed.
func (s *stopper) push(piece string) (out string, stopped bool) {
	text := s.held + piece
	s.held = ""
	if start := s.match(text); start >= 0 {
		return text[:start], true
	}
	n := s.hold(text)
	s.held = text[len(text)-n:]
	return text[:len(text)-n], false
}

// flush returns what was held back, when no more text comes.
func (s *stopper) flush() string {
	out := s.held
	s.held = ""
	return out
}

// match returns where the stop string that is complete first begins, or -1.
func (s *stopper) match(text string) int {
	start, end := -1, len(text)+1
	s.found = ""
	for _, stop := range s.stops {
		i := strings.Index(text, stop)
		if i < 0 {
			continue
		}
		if e := i + len(stop); e < end || e == end && i < start {
			start, end = i, e
			s.found = stop
		}
	}
	return start
}

// hold returns the length of the longest end of text with which a stop string
// begins.
func (s *stopper) hold(text string) int {
	longest := 0
	for _, stop := range s.stops {
		for n := min(len(stop)-1, len(text)); n > longest; n-- {
			if strings.HasSuffix(text, stop[:n]) {
				longest = n
			}
		}
	}
	return longest
}
