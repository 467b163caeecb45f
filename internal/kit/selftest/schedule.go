package selftest

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// modelName is the server's one model. A schedule follows it as a query, so
// that any client which can be told a model's name can ask for one:
//
//	selftest?ttft=200ms&gap=500us&per_frame=1&play=plain
//
// The number of tokens is the request's max_tokens.
const modelName = "selftest"

// schedule is what a request asks the server to play.
type schedule struct {
	ttft     time.Duration // from the arrival of the request to the first token frame
	gap      time.Duration // from one token to the next
	tokens   int
	perFrame int // tokens of one frame
	play     string
}

// The largest schedule: what it takes to keep the server from being asked for
// more memory than it has.
const (
	maxTokens = 1_000_000
	maxTTFT   = time.Hour
	maxGap    = 10 * time.Second
	minGap    = 10 * time.Microsecond
)

// model is the name that asks for the schedule.
func (s schedule) model() string {
	return fmt.Sprintf("%s?ttft=%v&gap=%v&per_frame=%d&play=%s", modelName, s.ttft, s.gap, s.perFrame, s.play)
}

// parseSchedule reads what model and max_tokens ask for. What is left out is 50
// ms, 10 ms, one token a frame, 16 tokens.
func parseSchedule(model string, tokens int) (schedule, error) {
	s := schedule{ttft: 50 * time.Millisecond, gap: 10 * time.Millisecond, tokens: 16, perFrame: 1, play: "plain"}
	if tokens != 0 {
		s.tokens = tokens
	}
	name, query, _ := strings.Cut(model, "?")
	if name != modelName {
		return s, fmt.Errorf("model: %q is not here (want %s, or %s)", model, modelName, s.model())
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return s, fmt.Errorf("model: %q: %w", model, err)
	}
	for key, v := range values {
		switch key {
		case "ttft":
			s.ttft, err = time.ParseDuration(v[0])
		case "gap":
			s.gap, err = time.ParseDuration(v[0])
		case "per_frame":
			s.perFrame, err = strconv.Atoi(v[0])
		case "play":
			s.play = v[0]
		default:
			err = fmt.Errorf("not known (want ttft, gap, per_frame, play)")
		}
		if err != nil {
			return s, fmt.Errorf("model: %s: %w", key, err)
		}
	}
	switch {
	case s.ttft < 0 || s.ttft > maxTTFT:
		return s, fmt.Errorf("model: ttft: %v (want 0s to %v)", s.ttft, maxTTFT)
	case s.gap < minGap || s.gap > maxGap:
		return s, fmt.Errorf("model: gap: %v (want %v to %v)", s.gap, minGap, maxGap)
	case s.tokens < 1 || s.tokens > maxTokens:
		return s, fmt.Errorf("max_tokens: %d (want 1 to %d)", s.tokens, maxTokens)
	case s.perFrame < 1 || s.perFrame > maxTokens:
		return s, fmt.Errorf("model: per_frame: %d (want 1 to %d)", s.perFrame, maxTokens)
	}
	if _, ok := plays[s.play]; !ok {
		return s, fmt.Errorf("model: play: %q is not known (want %s)", s.play, strings.Join(playNames(), ", "))
	}
	return s, nil
}

// words are the text of tokens, each with the space before it, so that a text
// can be cut into its tokens again.
var words = [...]string{
	" all", " that", " we", " see", " für", " is", " but", " a", " dream", " 日本", " within", " the", " 🜚", " small", " hours", " of",
}

// text is that of the tokens from..to.
func text(from, to int) string {
	var b strings.Builder
	for k := from; k < to; k++ {
		b.WriteString(words[k%len(words)])
	}
	return b.String()
}

// tokenEnds cuts a text of such words: the offset at which each token ends.
func tokenEnds(text string) []int {
	var ends []int
	for i := 1; i < len(text); i++ {
		if text[i] == ' ' {
			ends = append(ends, i)
		}
	}
	if len(text) > 0 {
		ends = append(ends, len(text))
	}
	return ends
}
