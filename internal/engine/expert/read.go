package expert

import (
	"fmt"
	"time"

	"assay/internal/engine/kernel"
)

// Reader reads the model's files.
type Reader interface {
	// ReadAt fills b from byte off of a file (an index into gguf.File.Shards). The
	// address and length of b and off are multiples of 4096. Fewer bytes than asked
	// for are no error: more are asked for, and none at all mean that the file ends.
	// It is called from several goroutines.
	ReadAt(shard int, b []byte, off int64) (int, error)
	Close() error
}

// job is a matrix to be read.
type job struct {
	e    *entry
	part int
}

// queue is jobs in order.
type queue struct {
	jobs []job
	head int
}

func (q *queue) len() int { return len(q.jobs) - q.head }

func (q *queue) push(j job) { q.jobs = append(q.jobs, j) }

func (q *queue) pop() job {
	j := q.jobs[q.head]
	if q.head++; q.head == len(q.jobs) {
		q.jobs, q.head = q.jobs[:0], 0
	}
	return j
}

// filter keeps the jobs that keep says true of.
func (q *queue) filter(keep func(job) bool) {
	if q.len() == 0 {
		return
	}
	n := 0
	for _, j := range q.jobs[q.head:] {
		if keep(j) {
			q.jobs[n] = j
			n++
		}
	}
	q.jobs, q.head = q.jobs[:n], 0
}

// fetch queues the reads of e into slot t.
func (s *Store) fetch(e *entry, t *slot, q *queue) {
	e.slot, t.owner = t, e
	e.state, e.left, e.begun = loading, 3, false
	for p := range 3 {
		q.push(job{e, p})
		s.work.Signal()
	}
}

// read is one reader. buf is where it reads what is to be repacked.
func (s *Store) read(buf []byte) {
	hurry()
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		for s.demand.len()+s.ahead.len() == 0 && !s.ended() {
			s.work.Wait()
		}
		if s.ended() {
			return
		}
		q := &s.demand
		if q.len() == 0 {
			q = &s.ahead
		}
		j := q.pop()
		j.e.begun = true
		s.mu.Unlock()
		l, err := s.load(j, buf)
		s.mu.Lock()
		s.arrived(j, l, err)
	}
}

// ended says whether nobody wants anything more.
func (s *Store) ended() bool { return s.closed && s.open == 0 }

// loaded is what reading a matrix took.
type loaded struct {
	bytes      int
	read, pack time.Duration
}

// arrived notes the end of a read.
func (s *Store) arrived(j job, l loaded, err error) {
	e := j.e
	s.stats.Reads++
	s.stats.BytesRead += int64(l.bytes)
	s.stats.Read += l.read
	s.stats.Pack += l.pack
	if err != nil {
		s.stats.Errors++
		if e.err == nil {
			e.err = err
		}
	}
	if e.left--; e.left > 0 {
		return
	}
	e.slot.used = true
	if e.err == nil {
		e.state = ready
		if e.refs == 0 {
			s.rest(e)
		}
	} else {
		if e.ahead {
			s.stats.AheadWasted++
			s.unmark(e)
		}
		t := e.slot
		e.state, e.slot, t.owner = absent, nil, nil
		t.class.free = append(t.class.free, t)
		if e.refs == 0 {
			e.err = nil
		}
	}
	s.freed()
	s.notify()
}

// load reads a matrix and puts it into its slot.
func (s *Store) load(j job, buf []byte) (l loaded, err error) {
	g, n := s.origin(j.e, j.part)
	mem, view := j.e.slot.mem[j.part], j.e.slot.view.part(j.part)
	to := buf
	if !g.packed {
		to = mem
	}
	began := time.Now()
	data, err := piece(s.reader, g.shard, g.offset+int64(n)*int64(g.bytes), g.bytes, to)
	l.read = time.Since(began)
	if err != nil {
		return l, fmt.Errorf("%s: tensor %s, expert %d: %w", s.name, g.name, n, err)
	}
	l.bytes = g.bytes
	if !g.packed {
		*view = kernel.NewMatrix(g.kind, g.rows, g.cols, data)
		return l, nil
	}
	s.packing <- struct{}{}
	began = time.Now()
	(*view).Pack(data, 0)
	l.pack = time.Since(began)
	<-s.packing
	return l, nil
}

// piece reads n bytes at any offset by reads of whole sectors into buf, and
// returns them.
func piece(r Reader, shard int, at int64, n int, buf []byte) ([]byte, error) {
	skip := int(at % sector)
	b := buf[:padded(skip+n, sector)]
	for got := 0; got < skip+n; {
		k, err := r.ReadAt(shard, b[got:], at-int64(skip)+int64(got))
		if err != nil {
			return nil, fmt.Errorf("reading %d bytes at %d: %w", n, at, err)
		}
		if k <= 0 {
			return nil, fmt.Errorf("reading %d bytes at %d: the file ends before; it was longer when it was opened", n, at)
		}
		// What ends within a sector is read again from the sector's start; at the
		// file's end nothing new comes of it.
		if got+k < skip+n && (got+k)%sector != 0 {
			whole := (got + k) / sector * sector
			if whole <= got {
				return nil, fmt.Errorf("reading %d bytes at %d: the file ends before; it was longer when it was opened", n, at)
			}
			got = whole
			continue
		}
		got += k
	}
	return b[skip : skip+n : skip+n], nil
}
