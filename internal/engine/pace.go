package engine

import "time"

const (
	promptSlows = 4  // times that a round with prompts may last as long as one without
	leastPrompt = 16 // tokens of prompts in a round, at least
	firstPrompt = 32 // as long as nothing was measured
)

// workload is what a round computed.
type workload struct {
	writing int // sequences that write
	drafts  int // theirs
	prompt  int // tokens of prompts
	tokens  int // in all
}

// pace is what is known of how long rounds take.
type pace struct {
	last  time.Duration   // the last round
	plain time.Duration   // rounds without prompts, smoothed
	alone []time.Duration // by sequences: of rounds without drafts and prompts, smoothed
	share int             // tokens of prompts in a round in which others write
}

func newPace(slots int) pace {
	return pace{alone: make([]time.Duration, slots+1), share: firstPrompt}
}

// prompts is how many tokens of prompts a round takes at most: of batch, where room is
// left.
func (p *pace) prompts(batch, room int, writing bool) int {
	n := min(batch, room)
	if writing {
		n = min(n, p.share)
	}
	return n
}

// measured learns from a round, and returns what is known of one of as many sequences
// that neither drafts nor reads prompts.
func (p *pace) measured(l workload, took time.Duration) base {
	p.last = took
	switch {
	case l.prompt == 0:
		smooth(&p.plain, took)
	case l.writing > 0 && p.plain > 0:
		p.adjust(l.prompt, took)
	}
	known := &p.alone[l.writing]
	if l.prompt == 0 && l.drafts == 0 {
		smooth(known, took)
	}
	return base(*known)
}

// smooth lets a mean follow what is measured.
func smooth(mean *time.Duration, took time.Duration) {
	if *mean == 0 {
		*mean = took
	}
	*mean += (took - *mean) / 8
}

// adjust lets the share follow the time that prompts cost.
func (p *pace) adjust(prompt int, took time.Duration) {
	switch {
	case took > promptSlows*p.plain:
		p.share = max(leastPrompt, p.share*3/4)
	case prompt >= p.share: // else it did not use what it has
		p.share += p.share/4 + 1
	}
	p.share = min(p.share, maxShare)
}

// maxShare keeps the share in bounds where prompts cost nothing that can be seen.
const maxShare = 1 << 12

// base is the time of a round of so many sequences, without drafts and prompts; 0:
// not known.
type base time.Duration

// part is what a sequence with so many tokens cost the round. One that is alone cost
// all of it. Of several, each cost its share of what a round without drafts takes, and
// those with drafts what the round took longer than that: so it is found out whether
// drafts pay for all sequences together. With prompts in the round it is not known.
func (b base) part(l workload, took time.Duration, tokens int) time.Duration {
	switch {
	case l.prompt > 0:
		return 0
	case l.writing == 1:
		return took
	case l.drafts == 0:
		return took / time.Duration(l.writing)
	case b == 0:
		return took * time.Duration(tokens) / time.Duration(l.tokens)
	}
	more := max(0, took-time.Duration(b))
	return time.Duration(b)/time.Duration(l.writing) + more*time.Duration(tokens-1)/time.Duration(l.drafts)
}
