package stream

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stampedConn reads a TCP socket with recvmsg, which also tells when the kernel
// received the bytes. It waits in poll, on the reader's own thread: Go's poller
// would hand what arrived from one thread to another, each of which has to get a
// processor first.
type stampedConn struct {
	*net.TCPConn
	raw     syscall.RawConn
	waker   int        // an eventfd: wakes a Read that waits when its deadline is past
	closing sync.Mutex // so that nobody writes to a waker that is closed
	closed  bool
	expired atomic.Bool
	oob     []byte
	wall    int64
}

// stampReceive asks the kernel to stamp what conn receives (SO_TIMESTAMPNS) and
// returns a function that gives the stamp of the last read, in ns of the wall
// clock, -1 when there was none.
func stampReceive(conn net.Conn) (net.Conn, func() int64) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return conn, nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return conn, nil
	}
	var serr error
	err = raw.Control(func(fd uintptr) {
		serr = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	})
	if err != nil || serr != nil {
		return conn, nil
	}
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return conn, nil
	}
	s := &stampedConn{TCPConn: tcp, raw: raw, waker: event, oob: make([]byte, 256), wall: -1}
	return s, func() int64 { return s.wall }
}

// SetDeadline ends a Read that waits, and all later ones, when t is past; other
// deadlines are for writes.
func (s *stampedConn) SetDeadline(t time.Time) error {
	if !t.IsZero() && !t.After(time.Now()) {
		s.closing.Lock()
		defer s.closing.Unlock()
		s.expired.Store(true)
		if s.closed {
			return net.ErrClosed
		}
		if _, err := unix.Write(s.waker, binary.NativeEndian.AppendUint64(nil, 1)); err != nil {
			return os.NewSyscallError("write", err)
		}
	}
	return s.TCPConn.SetDeadline(t)
}

// Close is not called while a Read waits.
func (s *stampedConn) Close() error {
	s.closing.Lock()
	defer s.closing.Unlock()
	if !s.closed {
		s.closed = true
		_ = unix.Close(s.waker) // nothing is kept in it
	}
	return s.TCPConn.Close()
}

// Read is as net.Conn wants it.
func (s *stampedConn) Read(p []byte) (int, error) {
	var n, oobn int
	var rerr error
	s.wall = -1
	err := s.raw.Control(func(fd uintptr) {
		for rerr = s.wait(fd); rerr == nil; rerr = s.wait(fd) {
			n, oobn, _, _, rerr = unix.Recvmsg(int(fd), p, s.oob, unix.MSG_DONTWAIT)
			if rerr != unix.EAGAIN && rerr != unix.EINTR {
				return
			}
		}
	})
	switch {
	case err != nil:
		return 0, err
	case rerr == os.ErrDeadlineExceeded:
		return 0, rerr
	case rerr != nil:
		return 0, os.NewSyscallError("recvmsg", rerr)
	case n == 0 && len(p) > 0:
		return 0, io.EOF
	}
	s.wall = receiveStamp(s.oob[:oobn])
	return n, nil
}

// wait waits until the socket has something to tell, or the deadline is past.
func (s *stampedConn) wait(fd uintptr) error {
	fds := [...]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(s.waker), Events: unix.POLLIN}}
	for !s.expired.Load() {
		if _, err := unix.Poll(fds[:], -1); err != unix.EINTR {
			if err == nil && s.expired.Load() {
				break
			}
			return err
		}
	}
	return os.ErrDeadlineExceeded
}

// receiveStamp finds SCM_TIMESTAMPNS among a message's control data.
func receiveStamp(oob []byte) int64 {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return -1
	}
	for _, m := range msgs {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SCM_TIMESTAMPNS && len(m.Data) >= 16 {
			sec := int64(binary.NativeEndian.Uint64(m.Data))
			nsec := int64(binary.NativeEndian.Uint64(m.Data[8:]))
			return sec*1e9 + nsec
		}
	}
	return -1
}
