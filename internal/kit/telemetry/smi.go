package telemetry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"assay/internal/kit/proc"
)

// smiField is a column that nvidia-smi is asked for. Drivers know different
// names, and one that is not known spoils the whole query, so such a field is
// left out and the query made again.
type smiField struct {
	name   string
	metric Metric
	scale  float64
}

const mebibyte = 1 << 20

// smiFields come after timestamp and index, in this order.
var smiFields = []smiField{
	{"power.draw.instant", GPUPower, 1},
	{"power.draw", GPUPowerMean, 1}, // the mean of a second on most boards since Ampere
	{"memory.used", GPUMem, mebibyte},
	{"temperature.gpu", GPUTemp, 1},
	{"clocks.sm", GPUClock, 1},
	{"clocks.mem", GPUMemClock, 1},
	{"enforced.power.limit", GPULimit, 1},
	{"utilization.gpu", GPUBusy, 1},
	{"clocks_throttle_reasons.active", GPUThrottle, 1},
	{"clocks_event_reasons.active", GPUThrottle, 1}, // its newer name
}

// viaSMI returns nil when nvidia-smi gave readings until it ended.
func (r *Recorder) viaSMI(ctx context.Context, f *feed) error {
	path, err := findSMI(r.opt.SMI)
	if err != nil {
		return err
	}
	fields := slices.Clone(smiFields)
	for {
		s := smiReader{rec: r, feed: f, fields: fields}
		err := r.helpers.run(ctx, helper{argv: smiCommand(path, fields, r.opt.Fast), line: s.line}, &r.helperCPU)
		if bad, ok := errors.AsType[unknownField](err); ok && len(fields) > 1 {
			n := len(fields)
			fields = slices.DeleteFunc(fields, func(f smiField) bool { return f.name == string(bad) })
			if len(fields) < n {
				continue
			}
		}
		switch {
		case s.readings == 0 && err == nil:
			return ctx.Err()
		case s.readings == 0:
			return err
		case err != nil:
			f.ended("nvidia-smi/", "nvidia-smi: "+err.Error())
		}
		return nil
	}
}

func smiCommand(path string, fields []smiField, every time.Duration) []string {
	names := []string{"timestamp", "index"}
	for _, f := range fields {
		names = append(names, f.name)
	}
	return []string{
		path, "--query-gpu=" + strings.Join(names, ","), "--format=csv,noheader,nounits",
		"-lms", strconv.FormatInt(max(1, every.Milliseconds()), 10),
	}
}

// unknownField is a field that this driver does not know.
type unknownField string

func (f unknownField) Error() string {
	return fmt.Sprintf("this driver knows no field %q", string(f))
}

// smiReader turns the lines of nvidia-smi into readings, a track a GPU.
type smiReader struct {
	rec      *Recorder
	feed     *feed
	fields   []smiField
	readings int
	odd      string // the last line that is no reading
}

func (s *smiReader) line(line []byte, at time.Time) error {
	text := string(line)
	if rest, ok := strings.CutPrefix(text, `Field "`); ok {
		if name, _, ok := strings.Cut(rest, `" is not a valid field`); ok {
			return unknownField(name)
		}
	}
	p, err := parseSMI(text, s.fields, time.Local)
	if err != nil {
		// A GPU that falls off the bus is told in words between the readings.
		s.odd = proc.Clip(text)
		if s.readings == 0 {
			return fmt.Errorf("%w: it says %q", err, s.odd)
		}
		s.feed.lost("nvidia-smi/", at, errors.New("nvidia-smi: "+s.odd))
		return nil
	}
	s.readings++
	// The stamp is the program's own where it can be: its output may be held back
	// in a pipe.
	if late := at.Sub(p.stamp); late > 0 && late < 10*time.Second {
		at = at.Add(-late)
	}
	p.reading.note = "nvidia-smi -lms " + strconv.FormatInt(s.rec.opt.Fast.Milliseconds(), 10)
	p.reading.failOf(gpuName(p.index), errors.New("nvidia-smi has no energy counter"), GPUEnergy)
	p.reading.failOf(gpuName(p.index), errors.New("nvidia-smi in a loop does not tell the memory of processes"), GPUMemTarget)
	s.feed.add("nvidia-smi/"+gpuName(p.index), s.rec.opt.Fast, at, &p.reading)
	return nil
}

// smiLine is one line: one GPU at one moment.
type smiLine struct {
	stamp   time.Time // wall clock, to the millisecond
	index   int
	reading reading
}

// parseSMI reads "2024/05/14 10:11:12.123, 0, 61.20, ..." with the given fields.
// nvidia-smi prints local time without a zone.
func parseSMI(line string, fields []smiField, zone *time.Location) (*smiLine, error) {
	cols := strings.Split(line, ",")
	if len(cols) != len(fields)+2 {
		return nil, fmt.Errorf("%d columns, want %d", len(cols), len(fields)+2)
	}
	for i := range cols {
		cols[i] = strings.TrimSpace(cols[i])
	}
	stamp, err := time.ParseInLocation("2006/01/02 15:04:05.000", cols[0], zone)
	if err != nil {
		return nil, fmt.Errorf("%q is not a time", proc.Clip(cols[0]))
	}
	index, err := strconv.Atoi(cols[1])
	if err != nil || index < 0 || index > 1023 {
		return nil, fmt.Errorf("%q is not the index of a GPU", proc.Clip(cols[1]))
	}
	out := &smiLine{stamp: stamp, index: index}
	of := gpuName(index)
	have := map[Metric]bool{}
	for i, f := range fields {
		text := cols[i+2]
		v, err := smiNumber(text)
		switch {
		case have[f.metric]:
		case err == nil:
			out.reading.set(f.metric, of, v*f.scale)
			have[f.metric] = true
		default:
			out.reading.failOf(of, fmt.Errorf("nvidia-smi: %s is %w", f.name, err), f.metric)
		}
	}
	return out, nil
}

// smiNumber reads a number, decimal or 0x..., or says what stands in its place:
// "[N/A]", "[Not Supported]", "[GPU is lost]", "ERR!".
func smiNumber(text string) (float64, error) {
	if hex, ok := strings.CutPrefix(text, "0x"); ok {
		v, err := strconv.ParseUint(hex, 16, 53)
		if err != nil {
			return 0, fmt.Errorf("%q", proc.Clip(text))
		}
		return float64(v), nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || v != v || v < 0 || v > 1e12 {
		return 0, fmt.Errorf("%q", proc.Clip(text))
	}
	return v, nil
}
