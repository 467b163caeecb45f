package display

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"assay/internal/kit/row"
	"assay/internal/kit/telemetry"
)

// Colours only repeat what words say.
var (
	strong = lipgloss.NewStyle().Bold(true)
	faint  = lipgloss.NewStyle().Faint(true)
	warn   = lipgloss.NewStyle().Foreground(lipgloss.Yellow)
	bad    = lipgloss.NewStyle().Foreground(lipgloss.Red)
)

// View draws what is known. The cursor stays at its foot, visible, so that nothing
// has to be undone when the program is killed.
func (m *model) View() tea.View {
	lines := m.lines()
	v := tea.NewView(strings.Join(lines, "\n"))
	v.DisableBracketedPasteMode = true
	v.Cursor = tea.NewCursor(0, max(0, len(lines)-1))
	return v
}

// lines are the view, none wider and all together less high than the terminal.
func (m *model) lines() []string {
	if m.plan == nil || m.ended {
		return []string{""}
	}
	room := max(1, m.height-1) // the last line is the cursor's
	head := m.head()
	now := m.doingLines()
	notes := m.notes(min(4, room/6))
	out := append(head, m.list(min(len(m.starts), max(0, room/4-1)))...)
	out = append(out, "")
	out = append(out, now...)
	if len(notes) > 0 {
		out = append(append(out, ""), notes...)
	}
	if table := m.table(room - len(out) - 2); len(table) > 0 {
		out = append(append(out, ""), table...)
	}
	if len(out) > room { // a very low terminal: what goes on now is what matters
		out = append(head[:1], now...)
	}
	if len(out) > room {
		out = out[:room]
	}
	return append(out, "")
}

// cut makes a text fit the width.
func (m *model) cut(s string) string {
	return ansi.Truncate(oneLine(s), max(1, m.width-1), "…")
}

func oneLine(s string) string {
	return strings.Join(strings.Fields(s), " ")
}

// head are the plan's name, how far it is and how long it still takes.
func (m *model) head() []string {
	title := m.plan.Name
	if title == "" {
		title = "run"
	}
	behind := m.n
	if m.run != nil {
		behind--
	}
	text := fmt.Sprintf("%d of %d runs", behind, m.of)
	for _, c := range []struct {
		n    int
		what string
	}{{m.counts[row.Failed], "failed"}, {m.counts[row.Stopped], "stopped"}, {m.held, "with figures withheld"}} {
		if c.n > 0 {
			text += fmt.Sprintf(", %d %s", c.n, c.what)
		}
	}
	if m.left != nil {
		text += ", about " + duration(*m.left) + " left"
	}
	width := min(40, max(0, m.width-4))
	full := 0
	if m.of > 0 {
		full = width * behind / m.of
	}
	bar := "[" + strings.Repeat("#", full) + strings.Repeat(".", width-full) + "]"
	return []string{strong.Render(m.cut("assay: " + oneLine(title))), m.cut(text), faint.Render(bar)}
}

// list are the starts around the one at hand.
func (m *model) list(most int) []string {
	if most <= 0 || len(m.starts) < 2 {
		return nil
	}
	from := min(max(0, m.at-most/2), len(m.starts)-most)
	var out []string
	if from > 0 {
		out = append(out, faint.Render(m.cutKeep(fmt.Sprintf("      %d before", from))))
	}
	wide := 0
	for _, s := range m.starts {
		wide = max(wide, ansi.StringWidth(s.arm))
	}
	wide = min(wide, max(8, m.width-40))
	for i := from; i < from+most; i++ {
		s := m.starts[i]
		mark := " "
		if i == m.at {
			mark = ">"
		}
		arm := ansi.Truncate(s.arm, wide, "…")
		line := m.cutKeep(fmt.Sprintf("%s %3d %s  block %d  %d of %d runs  %s", mark, i+1, pad(arm, wide), s.block+1, s.done, s.runs, s.state))
		switch {
		case s.state == "failed":
			line = bad.Render(line)
		case i == m.at:
			line = strong.Render(line)
		case s.state == "":
			line = faint.Render(line)
		}
		out = append(out, line)
	}
	if rest := len(m.starts) - from - most; rest > 0 {
		out = append(out, faint.Render(m.cutKeep(fmt.Sprintf("      %d to come", rest))))
	}
	return out
}

// cutKeep is cut for what is laid out with blanks.
func (m *model) cutKeep(s string) string {
	return strings.TrimRight(ansi.Truncate(s, max(1, m.width-1), "…"), " ")
}

func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-ansi.StringWidth(s)))
}

// doingLines say what goes on now.
func (m *model) doingLines() []string {
	at := m.since.Format("15:04:05")
	if m.run == nil {
		if m.doing == "" {
			return []string{"", ""}
		}
		return []string{m.cut(m.doing + ", since " + at), ""}
	}
	first := fmt.Sprintf("%s, since %s", m.run.name, at)
	if m.still {
		return []string{strong.Render(m.cut(first)), faint.Render(m.cut("being timed: nothing is drawn until it ends, so as not to disturb it"))}
	}
	return []string{strong.Render(m.cut(first)), m.cut(m.liveText())}
}

// liveText are the figures of the run at hand, none of which is a result.
func (m *model) liveText() string {
	r := m.run
	if r.reads == nil {
		return "nothing is sent"
	}
	var parts []string
	n := r.reads.Load()
	rate, ok := r.rate()
	switch {
	case n == 0:
		parts = append(parts, fmt.Sprintf("%.0f s without a token", m.now().Sub(m.since).Seconds()))
	case ok:
		parts = append(parts, fmt.Sprintf("about %.1f tok/s, %d reads", rate, n))
	default:
		parts = append(parts, fmt.Sprintf("%d reads", n))
	}
	if r.last == nil {
		return parts[0]
	}
	for _, q := range []struct {
		metric telemetry.Metric
		format string
		unit   float64
	}{
		{telemetry.WallPower, "wall %.0f W", 1},
		{telemetry.GPUPower, "GPU %.0f W", 1},
		{telemetry.GPUTemp, "GPU %.0f °C", 1},
		{telemetry.GPUMem, "GPU memory %.1f GiB", 1 << 30},
		{telemetry.VmRSS, "memory %.1f GiB", 1 << 30},
	} {
		if v, ok := newest(r.last(q.metric), q.metric == telemetry.GPUTemp); ok {
			parts = append(parts, fmt.Sprintf(q.format, v/q.unit))
		}
	}
	return strings.Join(parts, ", ")
}

// newest adds up the newest values of all devices of one source, or takes the
// highest of them.
func newest(all []telemetry.Reading, highest bool) (float64, bool) {
	sum, source := 0.0, ""
	for _, r := range all {
		switch {
		case r.Value == nil || source != "" && source != r.Source:
		case source == "" || highest && *r.Value > sum:
			sum, source = *r.Value, r.Source
		case !highest:
			sum += *r.Value
		}
	}
	return sum, source != ""
}

// notes are the newest of what should not be lost.
func (m *model) notes(most int) []string {
	var out []string
	for _, text := range m.kept[max(0, len(m.kept)-most):] {
		line := m.cut(text)
		if text == m.note {
			line = warn.Render(line)
		}
		out = append(out, line)
	}
	return out
}

// table are the newest runs, in as many lines as there are.
func (m *model) table(most int) []string {
	if most < 2 || len(m.rows) == 0 {
		return nil
	}
	var out []string // the newest first
	used := 1
	for i := len(m.rows) - 1; i >= 0; i-- {
		lines := m.rowLines(m.rows[i])
		if used += len(lines); used > most {
			break
		}
		for j := len(lines) - 1; j >= 0; j-- {
			out = append(out, lines[j])
		}
	}
	if len(out) == 0 {
		return nil
	}
	wide := m.nameWidth()
	out = append(out, faint.Render(m.cutKeep(fmt.Sprintf("%s %9s %12s %12s %7s %9s", pad("", wide), "TTFT ms", "prompt tok/s", "decode tok/s", "W", "memory"))))
	for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
		out[i], out[j] = out[j], out[i]
	}
	return out
}

// nameWidth leaves what the figures do not need.
func (m *model) nameWidth() int {
	longest := 8
	for _, r := range m.rows {
		longest = max(longest, ansi.StringWidth(r.name))
	}
	return min(longest, max(8, m.width-56))
}

// rowLines are a row: its figures, or why there are none.
func (m *model) rowLines(r made) []string {
	wide := m.nameWidth()
	label := pad(ansi.Truncate(r.name, wide, "…"), wide)
	if r.row.Status != row.OK {
		return []string{bad.Render(m.cutKeep(label + " " + oneLine(failure(r.row))))}
	}
	t := r.row.Telemetry
	watts := t.Wall.MeanW
	if watts == nil {
		watts = t.Board.MeanW
	}
	line := fmt.Sprintf("%s %9s %12s %12s %7s %9s", label, m.figure(r.row, "ttft_ms", r.row.TTFTMS),
		m.figure(r.row, "prompt_tok_s_client", r.row.PromptTokSClient), m.figure(r.row, "decode_tok_s", r.row.DecodeTokS), number(watts), memory(t))
	out := []string{m.cutKeep(line)}
	if r.row.Phase == row.Warmup {
		out[0] = faint.Render(out[0])
	}
	if len(r.row.Withheld) > 0 {
		out = append(out, warn.Render(m.cutKeep("  withheld: "+codes(r.row))))
	}
	return out
}

// figure is a value, or the word that says where it went.
func (m *model) figure(r *row.Row, path string, v *float64) string {
	if v != nil {
		return number(v)
	}
	for _, w := range r.Withheld {
		if w.Figure == path {
			return "withheld"
		}
	}
	return "-"
}

func number(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f", *v)
}

// memory is what the target's processes hold, or the GPU where that is not known.
func memory(t row.Telemetry) string {
	switch {
	case t.Pinned.VmRSSMaxBytes != nil:
		return mib(float64(*t.Pinned.VmRSSMaxBytes) / (1 << 20))
	case t.VRAM.MaxUsedMiB != nil:
		return mib(*t.VRAM.MaxUsedMiB)
	}
	return "-"
}

func mib(v float64) string {
	if v >= 1024 {
		return fmt.Sprintf("%.1f GiB", v/1024)
	}
	return fmt.Sprintf("%.0f MiB", v)
}

// last are the plain lines that stay when the view ends.
func (m *model) last() []string {
	if m.plan == nil {
		return m.kept
	}
	out := make([]string, 0, len(m.kept)+1)
	for _, text := range m.kept {
		out = append(out, "assay: "+oneLine(text))
	}
	var rows []string
	if n := m.height - 8; n >= 2 {
		for _, line := range m.table(min(n, 20)) {
			rows = append(rows, ansi.Strip(line))
		}
	}
	behind := 0
	for _, n := range m.counts {
		behind += n
	}
	text := fmt.Sprintf("assay: %d of %d runs in %s: %d ok", behind, m.of, duration(m.now().Sub(m.began)), m.counts[row.OK])
	if m.held > 0 {
		text += fmt.Sprintf(" (%d with figures withheld)", m.held)
	}
	for _, s := range []row.Status{row.Failed, row.Stopped} {
		if m.counts[s] > 0 {
			text += fmt.Sprintf(", %d %s", m.counts[s], s)
		}
	}
	return append(append(out, rows...), text)
}
