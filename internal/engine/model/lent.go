package model

import "sync/atomic"

// lent is one thing for each worker, which borrow them for moments: a channel would
// have them wait for its lock.
type lent[T any] []atomic.Pointer[T]

// lend makes things for so many workers.
func lend[T any](workers int, one func() *T) lent[T] {
	l := make(lent[T], workers)
	for i := range l {
		l[i].Store(one())
	}
	return l
}

// take borrows one. There must be one for each worker.
func (l lent[T]) take() *T {
	for {
		for i := range l {
			if x := l[i].Load(); x != nil && l[i].CompareAndSwap(x, nil) {
				return x
			}
		}
	}
}

// give gives one back.
func (l lent[T]) give(x *T) {
	for i := range l {
		if l[i].Load() == nil && l[i].CompareAndSwap(nil, x) {
			return
		}
	}
}
