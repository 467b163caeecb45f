package runner

import (
	"fmt"

	"assay/internal/kit/derive"
	"assay/internal/kit/plan"
	"assay/internal/kit/prompt"
	"assay/internal/kit/target"
	"assay/internal/kit/tokens"
)

// sliceKey names a slice. Arms that count by one file share their slices.
type sliceKey struct {
	by    *tokens.Counter // nil: the server counts, and may be another one at each start
	arm   string          // then
	ctx   int             // tokens; 0: the file is read whole
	file  string
	index int
}

func (s *session) sliceKey(l *live, r plan.Run) sliceKey {
	key := sliceKey{by: l.files.Tokens, ctx: r.Ctx, file: r.Prompt, index: r.Slice}
	if key.by == nil {
		key.arm = l.arm.Name
	}
	if r.Turn > 0 {
		// What later turns add is other text than what any run begins with.
		key.ctx, key.file, key.index = s.Plan.TurnTokens, "", r.Slice+r.Turn*(s.Plan.SliceCount()+1)
	}
	return key
}

// cut makes the slices of a start's runs before anything is measured, so that no
// slow tokenizer runs between two runs.
func (s *session) cut(l *live, runs []plan.Run) error {
	l.maker = prompt.NewMaker(s.Text, l.tokens.Encode, l.tokens.Why)
	for _, r := range runs {
		key := s.sliceKey(l, r)
		if _, ok := s.slices[key]; ok {
			continue
		}
		if err := s.soft.Err(); err != nil {
			return err
		}
		var slice prompt.Slice
		var err error
		if key.file != "" {
			slice, err = l.maker.Whole(r.Label(), s.Prompts[key.file])
		} else {
			slice, err = l.maker.Slice(key.ctx, key.index)
		}
		if err != nil {
			return fmt.Errorf("the prompt of %s tokens: %w", r.Label(), err)
		}
		s.slices[key] = slice
	}
	return s.fits(l, runs)
}

// fits compares the runs with the target's context, so that a plan which can't work
// fails at once and not at its last cell.
func (s *session) fits(l *live, runs []plan.Run) error {
	have := l.target.Identity.Context
	if have == nil {
		return nil
	}
	need := 0
	sizes := map[string]rendered{}
	for _, r := range runs {
		size := rendered{tokens: r.Ctx}
		if slice := s.slices[s.sliceKey(l, r)]; slice.Tokens > 0 {
			size.tokens = slice.Tokens
		}
		if r.Turn == 0 {
			need = 0
			if known, ok := sizes[r.Label()]; ok {
				size = known
			} else {
				var err error
				if size, err = s.rendered(l, r, size.tokens); err != nil {
					return err
				}
				sizes[r.Label()] = size
			}
		}
		asked := s.past.tokensFor(r)
		if need += size.tokens + asked; need > *have {
			what := fmt.Sprintf("a prompt of %s (%s) and %d to generate need", r.Label(), size, asked)
			if r.Turn > 0 {
				what = fmt.Sprintf("%d turns of a conversation need", r.Turn+1)
			}
			flag := ""
			if flags := l.target.Adapter.Facts().ContextFlags; len(flags) > 0 {
				flag = fmt.Sprintf(" (%s %d)", flags[0], s.Plan.ContextFor(need))
			}
			return fmt.Errorf("%s a context of %d, but the target has %d: start it with a larger one%s, or ask for less", what, need, *have, flag)
		}
	}
	return nil
}

// rendered is a prompt's length with chat template and nonce, and who counted it.
type rendered struct {
	tokens int
	how    string // empty: it is that of the slice alone
}

func (r rendered) String() string {
	if r.how == "" {
		return fmt.Sprintf("%d tokens, chat template and nonce left out", r.tokens)
	}
	return fmt.Sprintf("%d tokens with chat template and nonce, by %s", r.tokens, r.how)
}

// rendered counts the prompt of a run before it is made, by whoever can: the model's
// own file, an endpoint of the server, or its usage of a request for one token. All
// nonces are of one length. Where nobody can, it is the slice's length.
func (s *session) rendered(l *live, r plan.Run, slice int) (rendered, error) {
	p, err := l.maker.Prompt(s.slices[s.sliceKey(l, r)])
	if err != nil {
		return rendered{}, err
	}
	ask := s.asking(p.Text, s.past.tokensFor(r))
	body, err := l.target.Body(ask)
	if err != nil {
		return rendered{}, err
	}
	if counted := derive.CountPrompt(l.tokens, body, p.Nonce); counted.Total != nil {
		return rendered{*counted.Total, l.tokens.Name}, nil
	}
	if n, how, err := l.target.ChatTokens(s.soft, body); err == nil {
		return rendered{n, how}, nil
	}
	if err := s.soft.Err(); err != nil {
		return rendered{}, err
	}
	return s.byUsage(l, ask, slice), nil
}

// byUsage counts by what the server says of a request for one token. Where the text
// can be counted, a short one shows what the template adds; else the prompt itself
// must be read.
func (s *session) byUsage(l *live, ask target.Ask, slice int) rendered {
	const how = "the server's usage of a request for one token"
	l.requests++ // one of the two below
	if l.tokens.Encode == nil {
		if n, err := l.target.UsageTokens(s.soft, ask); err == nil {
			return rendered{n, how}
		}
		return rendered{tokens: slice}
	}
	short := ask
	short.Prompt = "Hello"
	n, err := l.target.UsageTokens(s.soft, short)
	if err != nil {
		return rendered{tokens: slice}
	}
	text, err := l.tokens.Encode(ask.Prompt)
	hello, err2 := l.tokens.Encode(short.Prompt)
	if err != nil || err2 != nil || n < len(hello) {
		return rendered{tokens: slice}
	}
	return rendered{len(text) + n - len(hello), l.tokens.Name + " and " + how}
}

// longest is the plan's longest prompt in tokens, as far as it can be told before
// the arm is started.
func (s *session) longest(l *live) (int, error) {
	longest := s.Plan.Longest()
	for _, text := range s.Prompts {
		n := len(text) / leastBytes
		if c := l.files.Tokens; c != nil && c.Encode != nil {
			ids, err := c.Encode(text)
			if err != nil {
				return 0, err
			}
			n = len(ids)
		}
		longest = max(longest, n)
	}
	return longest, nil
}

// leastBytes is how many bytes a token of prose or code has at least, on average:
// where nobody can count before the target is up, it gets a context with room.
const leastBytes = 2

// talk is a conversation so far.
type talk struct {
	said   []prompt.Message
	nonce  string // with which it begins
	failed string // why no further turn makes sense; empty: one does
}

// keptKey names a prompt that a warm cache is to know again.
type keptKey struct {
	label string
	slice int
}

// ask is what a run says to the target: the text of its message, and the nonce that
// its conversation begins with.
func (s *session) ask(l *live, run plan.Run) (text, nonce string, err error) {
	slice := s.slices[s.sliceKey(l, run)]
	if run.Turn > 0 {
		return slice.Text, l.talk.nonce, nil
	}
	key := keptKey{run.Label(), run.Slice}
	if p, ok := l.kept[key]; ok {
		return p.Text, p.Nonce, nil
	}
	p, err := l.maker.Prompt(slice)
	if err != nil {
		return "", "", err
	}
	if s.Plan.Cache == plan.Warm {
		l.kept[key] = p
	}
	return p.Text, p.Nonce, nil
}
