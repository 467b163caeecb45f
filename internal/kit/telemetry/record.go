package telemetry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
)

// Form names the layout of a Record.
const Form = "assay-samples-1"

// Record is everything that was read around a window. It is evidence: every
// figure is a pure function of it.
type Record struct {
	Form   string  `json:"form"`
	Origin int64   `json:"origin_unix_ns"` // wall clock at time 0 of the tracks, whose times are monotonic
	Tracks []Track `json:"tracks"`
}

// Track is what one source told: one stamp a reading, and a column of numbers for
// each thing that it reads.
type Track struct {
	Source string   `json:"source"`
	Note   string   `json:"note,omitempty"` // what is read
	Hz     float64  `json:"hz"`             // readings a second that were asked for
	At     []int64  `json:"at_ns"`          // since Origin, rising
	Series []Series `json:"series"`
	Ended  string   `json:"ended,omitempty"` // why the source told nothing more; empty: it went on to the end
}

// Series is one column of a track.
type Series struct {
	Metric  Metric  `json:"metric"`
	Of      string  `json:"of,omitempty"` // which one, where there are several
	Unit    string  `json:"unit"`
	Counter bool    `json:"counter,omitempty"`
	Wraps   float64 `json:"wraps,omitempty"`  // a counter starts anew from 0 after this; 0: it does not
	Covers  string  `json:"covers,omitempty"` // what else the sensor sees
	V       Values  `json:"v"`                // one a stamp, NaN (in JSON null) where it was not read; empty: it never was
	Why     string  `json:"why,omitempty"`    // the last reason for a number that is missing
}

// Values are numbers of which some may be missing: NaN here, null in JSON.
type Values []float64

// MarshalJSON writes what is missing as null.
func (v Values) MarshalJSON() ([]byte, error) {
	out := []byte{'['}
	for i, x := range v {
		if i > 0 {
			out = append(out, ',')
		}
		if math.IsNaN(x) || math.IsInf(x, 0) {
			out = append(out, "null"...)
		} else {
			out = strconv.AppendFloat(out, x, 'g', -1, 64)
		}
	}
	return append(out, ']'), nil
}

// UnmarshalJSON reads null as missing.
func (v *Values) UnmarshalJSON(data []byte) error {
	var in []*float64
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	out := make(Values, len(in))
	for i, x := range in {
		if out[i] = math.NaN(); x != nil {
			out[i] = *x
		}
	}
	*v = out
	return nil
}

// UnmarshalJSON reads a record and refuses one that doesn't hold together.
func (r *Record) UnmarshalJSON(data []byte) error {
	type plain Record // without this method
	var p plain
	d := json.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(&p); err != nil {
		return fmt.Errorf("samples: %w", err)
	}
	if p.Form != Form {
		return fmt.Errorf("samples: form %q, want %q", p.Form, Form)
	}
	for i := range p.Tracks {
		t := &p.Tracks[i]
		for k := 1; k < len(t.At); k++ {
			if t.At[k] <= t.At[k-1] {
				return fmt.Errorf("samples: tracks[%d] (%s): at_ns[%d] is %d, not after the one before it", i, t.Source, k, t.At[k])
			}
		}
		for k := range t.Series {
			if n := len(t.Series[k].V); n != 0 && n != len(t.At) {
				return fmt.Errorf("samples: tracks[%d] (%s): %s has %d values for %d stamps", i, t.Source, t.Series[k].Metric, n, len(t.At))
			}
		}
	}
	*r = Record(p)
	return nil
}

// track is a Track that grows.
type track struct {
	Track
	last   int64 // of the last reading, also of one that told nothing
	fed    bool  // it comes of its own accord
	column map[seriesKey]int
}

type seriesKey struct {
	metric Metric
	of     string
}

// most is how many columns a track may have, so that no source can fill the
// memory with names.
const most = 400

// add appends a reading. A source that never had a number leaves its reasons and
// no stamps.
func (t *track) add(at int64, rd *reading) {
	t.last = max(t.last, at)
	if rd.note != "" {
		t.Note = rd.note
	}
	n := len(t.At)
	if len(rd.values) > 0 || (n > 0 && len(rd.whys) > 0) {
		if n > 0 && at <= t.At[n-1] {
			return // two readings at once tell the same
		}
		t.At = append(t.At, at)
		n++
		for i := range t.Series {
			t.Series[i].V = append(t.Series[i].V, math.NaN())
		}
	}
	for _, v := range rd.values {
		s := t.col(v.metric, v.of, n)
		if s == nil {
			continue
		}
		s.V[n-1], s.Wraps, s.Covers = v.v, v.wraps, v.covers
	}
	for _, w := range rd.whys {
		found := false
		for i := range t.Series {
			s := &t.Series[i]
			if s.Metric == w.metric && (w.of == "" || s.Of == w.of) {
				s.Why, found = w.why, true
			}
		}
		if !found {
			if s := t.col(w.metric, w.of, n); s != nil {
				s.Why = w.why
			}
		}
	}
}

// col finds a column or makes one of n missing values.
func (t *track) col(m Metric, of string, n int) *Series {
	key := seriesKey{m, of}
	i, ok := t.column[key]
	if !ok {
		if len(t.Series) >= most {
			return nil
		}
		i = len(t.Series)
		k := kinds[m]
		v := make(Values, n)
		for j := range v {
			v[j] = math.NaN()
		}
		t.Series = append(t.Series, Series{Metric: m, Of: of, Unit: k.unit, Counter: k.counter, V: v})
		if t.column == nil {
			t.column = map[seriesKey]int{}
		}
		t.column[key] = i
	}
	return &t.Series[i]
}

// forget drops the readings before a time but for the last one, and the columns
// that then are empty and have no reason: what was noise an hour ago is of no
// interest.
func (t *track) forget(before int64) {
	from := min(sort.Search(len(t.At), func(i int) bool { return t.At[i] >= before }), len(t.At)-1)
	if from <= 0 {
		return
	}
	t.At = slices.Clone(t.At[from:])
	kept := t.Series[:0]
	t.column = map[seriesKey]int{}
	for _, s := range t.Series {
		s.V = slices.Clone(s.V[from:])
		if s.Why == "" && !slices.ContainsFunc(s.V, isThere) {
			continue
		}
		t.column[seriesKey{s.Metric, s.Of}] = len(kept)
		kept = append(kept, s)
	}
	t.Series = kept
}

func isThere(v float64) bool { return !math.IsNaN(v) }

// copied is the track as it goes into a record.
func (t *track) copied() Track {
	out := t.Track
	out.At = append([]int64{}, t.At...)
	out.Series = make([]Series, 0, len(t.Series))
	for _, s := range t.Series {
		if slices.ContainsFunc(s.V, isThere) {
			s.V = append(Values{}, s.V...)
			if !slices.ContainsFunc(s.V, math.IsNaN) {
				s.Why = "" // an older trouble, over by now
			}
		} else {
			s.V = Values{}
		}
		out.Series = append(out.Series, s)
	}
	return out
}
