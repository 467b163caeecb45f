package telemetry

import "time"

// poller is a source that is asked.
type poller interface {
	// source names it in the record.
	source() string
	// read fills in what it finds now. A metric that it covers is set, or has a
	// reason.
	read(*reading)
}

// reading is what one source told at one moment.
type reading struct {
	at     time.Time
	note   string // what is read, for the track
	values []value
	whys   []reason
}

// value is one number. Several of one metric are told apart by what they are of.
type value struct {
	metric Metric
	of     string
	v      float64
	wraps  float64 // a counter starts anew from 0 after this; 0: it does not
	covers string  // what else the sensor sees; empty: nothing
}

// reason is why there is no number. An empty of stands for all.
type reason struct {
	metric Metric
	of     string
	why    string
}

func (r *reading) set(m Metric, of string, v float64) {
	r.values = append(r.values, value{metric: m, of: of, v: v})
}

func (r *reading) fail(err error, metrics ...Metric) {
	r.failOf("", err, metrics...)
}

func (r *reading) failOf(of string, err error, metrics ...Metric) {
	for _, m := range metrics {
		r.whys = append(r.whys, reason{m, of, err.Error()})
	}
}

// number sets a metric from a file that holds one number, times scale.
func (r *reading) number(from root, path string, scale float64, m Metric, of string) bool {
	v, err := from.Number(path)
	if err != nil {
		r.failOf(of, err, m)
		return false
	}
	r.set(m, of, v*scale)
	return true
}
