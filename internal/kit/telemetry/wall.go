package telemetry

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"assay/internal/kit/proc"
)

// wallCommand reads a program that prints watts, a line a reading.
func (r *Recorder) wallCommand(ctx context.Context, f *feed) {
	const (
		track = "wall meter"
		note  = "a command of the user's" // which may hold a password
	)
	n := 0
	err := r.helpers.run(ctx, helper{argv: r.opt.WallCommand, line: func(line []byte, at time.Time) error {
		rd := &reading{note: note}
		if v, err := parseWatts(string(line)); err != nil {
			rd.fail(err, WallPower)
		} else {
			rd.set(WallPower, "", v)
			n++
		}
		f.add(track, 0, at, rd)
		return nil
	}}, &r.helperCPU)
	if err == nil {
		return
	}
	if n > 0 {
		f.ended(track, "the wall meter's command: "+err.Error())
		return
	}
	rd := &reading{note: note}
	rd.fail(fmt.Errorf("the wall meter's command gave no reading: %w", err), WallPower)
	r.add(track, 0, time.Now(), rd)
}

// wallFile polls a file that holds watts.
type wallFile struct{ path string }

func (wallFile) source() string { return "wall meter" }

func (s wallFile) read(r *reading) {
	r.note = s.path
	data, err := os.ReadFile(s.path)
	if err != nil {
		r.fail(err, WallPower)
		return
	}
	v, err := parseWatts(string(data))
	if err != nil {
		r.fail(fmt.Errorf("%s: %w", s.path, err), WallPower)
		return
	}
	r.set(WallPower, "", v)
}

// noWall has the reason when there is no wall meter.
type noWall struct{}

func (noWall) source() string { return "wall meter" }

func (noWall) read(r *reading) {
	r.fail(errors.New("no wall meter was named"), WallPower)
}

// parseWatts reads "123.4" or "123.4 W" from the beginning of a line. Anything
// above a megawatt is not a computer's.
func parseWatts(text string) (float64, error) {
	f := strings.Fields(text)
	if len(f) == 0 {
		return 0, errors.New("an empty reading, want watts such as 123.4")
	}
	v, err := strconv.ParseFloat(strings.TrimSuffix(f[0], "W"), 64)
	if err != nil || v != v || v < 0 || v > 1e6 || (len(f) > 1 && f[1] != "W") {
		return 0, fmt.Errorf("%q is not a number of watts such as 123.4", proc.Clip(strings.TrimSpace(text)))
	}
	return v, nil
}
