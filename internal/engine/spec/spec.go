// Package spec guesses the tokens that come next, and finds out how many guesses
// pay. A guess costs nothing but time: it never changes what is written.
//
// # A round
//
// The engine has drawn token x at position p. It asks a Drafter for guesses
// d1 ... dk, runs one pass over x, d1 ... dk with the logits of all k+1 positions,
// and draws from them in order: at position p+1 from the first row, and so on, each
// with the randomness of hash(seed, position). While what is drawn equals the guess,
// the next row is the logits that a pass without guesses would give, bit for bit,
// since logits depend on the tokens alone. The first draw that differs, or the one
// after the last guess, is the x of the next round.
//
// So the sampler sees the same logits, positions and accepted tokens in the same
// order as without drafts, and so do penalties and grammars. Tokens are emitted one
// by one, as they are drawn: a stop string, an end token, the limit of tokens or a
// cancelled request ends a window in the middle, and the rest of it was never
// drawn. No more is guessed than the limit and the context leave room for.
//
// Guesses that were wrong are forgotten by kv's Truncate before the next round. The
// state of recurrent layers can't be cut short, so it waits: a window's pass only notes
// by what it would change the state, and the next pass makes those changes as far as
// the guesses were right (see kv.WindowTokens). What that costs is within the passes'
// own times, so the window's choice counts it.
//
// # How many
//
// Window chooses the number of guesses from what rounds took and how many guesses
// were right. Its choice depends on nothing else, and changes only the time.
package spec

// MaxDrafts is the most guesses of one round.
const MaxDrafts = 16

// The kinds of drafters, as flags, answers and counters name them.
const (
	KindSuffix = "suffix" // what followed the same tokens before: Suffix
	KindMTP    = "mtp"    // the model's own block for the token after next
)

// Kinds are all of them.
var Kinds = []string{KindSuffix, KindMTP}

// Guess is a token that may come next.
type Guess struct {
	ID int32
	P  float32 // how likely the drafter holds it to be right, if those before it are
}

// Drafter guesses how a sequence goes on. It serves one sequence at a time, and
// belongs to one goroutine. What it is given stays the caller's.
type Drafter interface {
	// Begin starts a sequence with tokens of whose states nothing will be told: those
	// whose keys and values are at hand, if any, and the first that is computed.
	Begin(tokens []int32)
	// Accept tells of tokens that joined the sequence, in order, and of the states
	// that they came from: row i of states is the model's hidden state, behind the
	// output norm, at the position before tokens[i]. It is called for the prompt, pass
	// by pass, and then once a round. states is nil unless Watches says true.
	Accept(tokens []int32, states []float32)
	// Watches says whether Accept needs states.
	Watches() bool
	// Draft puts guesses of the tokens that come next into to, and returns how
	// many: it ends before the first that is less likely than least.
	Draft(to []Guess, least float32) int
}
