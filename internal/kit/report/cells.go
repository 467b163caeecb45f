package report

import (
	"fmt"
	"strconv"
	"strings"
)

// tokensOf reads a context such as "512", "4K" or "4Ki" for sorting; others
// come first.
func tokensOf(ctx string) float64 {
	scale := 1.0
	for _, suffix := range []struct {
		text  string
		scale float64
	}{{"Ki", 1 << 10}, {"Mi", 1 << 20}, {"K", 1e3}, {"M", 1e6}} {
		if rest, ok := strings.CutSuffix(ctx, suffix.text); ok {
			ctx, scale = rest, suffix.scale
			break
		}
	}
	n, err := strconv.ParseFloat(ctx, 64)
	if err != nil {
		return -1
	}
	return n * scale
}

// nameVariants tells cells of one arm and context apart: [1], [2] ...
func nameVariants(cells []*Cell) {
	byName := map[string][]*Cell{}
	for _, c := range cells {
		name := c.Arm + "\x00" + c.where()
		byName[name] = append(byName[name], c)
	}
	for _, same := range byName {
		if len(same) < 2 {
			continue
		}
		for i, c := range same {
			c.Variant = fmt.Sprintf("[%d]", i+1)
		}
	}
}

// where is the cell's context and what it is beyond.
func (c *Cell) where() string {
	if c.Part == "" {
		return clean(c.Ctx)
	}
	return clean(c.Ctx) + " " + clean(c.Part)
}

// name is the arm as the table shows it.
func (c *Cell) name() string {
	if c.Variant == "" {
		return clean(c.Arm)
	}
	return clean(c.Arm) + " " + c.Variant
}
