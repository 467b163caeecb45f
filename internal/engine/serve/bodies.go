package serve

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

// maxBody bounds a request's body.
const maxBody = 32 << 20

// bodies bounds the memory for request bodies that are read or parsed at a time, of all
// requests together: without that, many clients with a large one each would take as much
// as there is. What comes of a body, the tokens of a prompt, is bounded by the context.
type bodies struct {
	limit int64

	mu      sync.Mutex
	held    int64
	refused int64
}

// defaultBodies is two of the largest, and a little for small ones.
const defaultBodies = 2*maxBody + 1<<20

// take asks for n bytes more.
func (b *bodies) take(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held+n > b.limit {
		b.refused++
		return false
	}
	b.held += n
	return true
}

func (b *bodies) give(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held -= n
}

// counted is what is held now, and how many bodies were refused.
func (b *bodies) counted() (held, refused int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held, b.refused
}

// block is how much of a body has to come within Config.Stall: who sends no more holds
// memory that others wait for. It is also what is asked for first; a body counts as far
// as it has come, since what a client says that it will send is not there yet.
const block = 64 << 10

// read is a request's body. release is to be called when nothing of it is needed any
// more; it is nil beside an error.
func (b *bodies) read(w http.ResponseWriter, r *http.Request, stall time.Duration) (body []byte, release func(), failed *apiError) {
	if r.ContentLength > maxBody {
		return nil, nil, errTooLarge
	}
	in, control := http.MaxBytesReader(w, r.Body, maxBody), http.NewResponseController(w)
	defer func() { _ = control.SetReadDeadline(time.Time{}) }() // without deadlines, it does not matter
	held := int64(0)
	defer func() {
		if failed != nil {
			b.give(held)
		}
	}()
	for {
		if len(body) == cap(body) {
			size := int64(max(block, 2*cap(body)))
			if n := r.ContentLength; n >= 0 {
				size = min(size, n+1) // one more finds the end
			}
			size = min(max(size, int64(cap(body))+1), maxBody+1)
			if !b.take(size - held) {
				return nil, nil, &apiError{
					Message: fmt.Sprintf("the requests that are being read take %d MiB together, and there is no room for this one; try again later, or send less at once", b.limit>>20),
					Type:    typeUnavailable, Code: http.StatusServiceUnavailable, retryAfter: int(retryLeast.Seconds()),
				}
			}
			held = size
			body = append(make([]byte, 0, size), body...)
		}
		_ = control.SetReadDeadline(time.Now().Add(stall))
		n, err := fill(in, body[len(body):min(cap(body), len(body)+block)])
		body = body[:len(body)+n]
		var tooLarge *http.MaxBytesError
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			return body, func() { b.give(held) }, nil
		case errors.As(err, &tooLarge):
			return nil, nil, errTooLarge
		case errors.Is(err, os.ErrDeadlineExceeded):
			e := badRequest("the request's body stalled: of the next %d bytes, only %d came in %v", block, n, stall)
			e.Code = http.StatusRequestTimeout
			return nil, nil, e
		default:
			return nil, nil, badRequest("the request's body could not be read: %v", err)
		}
	}
}

// fill reads until buf is full; unlike io.ReadFull it tells the end from a body that is
// cut off.
func fill(r io.Reader, buf []byte) (n int, err error) {
	for n < len(buf) && err == nil {
		var k int
		k, err = r.Read(buf[n:])
		n += k
	}
	return n, err
}

var errTooLarge = &apiError{
	Message: fmt.Sprintf("the request's body is larger than the limit of %d bytes", maxBody),
	Type:    typeInvalid, Code: http.StatusRequestEntityTooLarge,
}
