package doctor

import (
	"fmt"
	"strings"

	"assay/internal/kit/host"
	"assay/internal/kit/plan"
)

// width is how long a line of the report for people may be.
const width = 100

// Text is the report for people.
func (r Report) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", machineInWords(r.Host))
	for _, d := range r.Disks {
		fmt.Fprintf(&b, "model of %s: %s\n", d.Arm, diskInWords(d.Disk))
	}
	b.WriteString("\nWHAT CAN BE MEASURED\n")
	for _, f := range r.Figures {
		word, text := "yes", f.Source
		if !f.Can {
			word, text = "no", f.Why
		}
		item(&b, word, f.What, text, f.Note, f.Do)
	}
	b.WriteString("\nIS THE MACHINE FIT\n")
	unfit, warnings := 0, 0
	for _, c := range r.Checks {
		switch c.Level {
		case Unfit:
			unfit++
		case Warn:
			warnings++
		}
		word := string(c.Level)
		if c.Level == Unknown {
			word = "?"
		}
		item(&b, word, c.Name, c.Found, "", c.Do)
	}
	asked := "what assay run does without a plan"
	if r.Plan != "" {
		asked = "the plan: " + r.Plan
	}
	b.WriteString("\n")
	switch {
	case unfit > 0:
		fmt.Fprintf(&b, "Not fit for %s (%s).\n", asked, counted(unfit, "reason"))
	case warnings > 0:
		fmt.Fprintf(&b, "Fit for %s, with %s.\n", asked, counted(warnings, "warning"))
	default:
		fmt.Fprintf(&b, "Fit for %s.\n", asked)
	}
	return b.String()
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// item is one line with what goes with it below.
func item(b *strings.Builder, word, name, text, note, do string) {
	const indent = 6 + 38 + 1
	fmt.Fprintf(b, "%-5s %-38s ", word, name)
	paragraph(b, text, indent, indent)
	if note != "" {
		fmt.Fprintf(b, "%*s", indent, "")
		paragraph(b, "note: "+note, indent, indent+2)
	}
	if do != "" {
		fmt.Fprintf(b, "%*s", indent, "")
		paragraph(b, "do:   "+do, indent, indent+6)
	}
}

// paragraph writes a text that begins in column at, its further lines indented.
func paragraph(b *strings.Builder, text string, at, indent int) {
	column := at
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case column+1+len(word) > width:
			fmt.Fprintf(b, "\n%*s", indent, "")
			column = indent
		default:
			b.WriteString(" ")
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	b.WriteString("\n")
}

func or(s *string, instead string) string {
	if s == nil {
		return instead
	}
	return *s
}

func machineInWords(h host.Host) string {
	var parts []string
	parts = append(parts, or(h.CPUModel, "a processor without a name"))
	if h.Cores != nil && h.CPUs != nil {
		parts = append(parts, fmt.Sprintf("%s (%s for this process)", counted(*h.Cores, "core"), counted(*h.CPUs, "thread")))
	}
	if h.MemoryBytes != nil {
		parts = append(parts, plan.FormatBytes(float64(*h.MemoryBytes)))
	}
	if n := len(h.NUMANodes); n > 1 {
		parts = append(parts, fmt.Sprintf("%d memory nodes", n))
	}
	for _, g := range h.GPUs {
		parts = append(parts, "GPU "+or(g.Name, g.Vendor+" "+g.PCIID))
	}
	parts = append(parts, or(h.OS, "")+" "+or(h.Kernel, "of an unknown release"))
	if h.Virtualisation != nil && *h.Virtualisation != "none" {
		parts = append(parts, *h.Virtualisation)
	}
	return strings.Join(parts, ", ")
}

func diskInWords(d host.Disk) string {
	s := or(d.FileSystem, "an unknown file system")
	if d.Device == nil {
		return s
	}
	s += " on " + *d.Device
	if len(d.Below) > 0 {
		s += " (" + strings.Join(d.Below, ", ") + ")"
	}
	if d.Model != nil {
		s += ", " + *d.Model
	}
	return s
}
