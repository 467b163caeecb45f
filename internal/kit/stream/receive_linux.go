package stream

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// stampedConn reads a TCP socket with recvmsg, which also tells when the kernel
// received the bytes.
type stampedConn struct {
	*net.TCPConn
	raw  syscall.RawConn
	oob  []byte
	wall int64
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
	s := &stampedConn{TCPConn: tcp, raw: raw, oob: make([]byte, 256), wall: -1}
	return s, func() int64 { return s.wall }
}

// Read is as net.Conn wants it.
func (s *stampedConn) Read(p []byte) (int, error) {
	var n, oobn int
	var rerr error
	s.wall = -1
	err := s.raw.Read(func(fd uintptr) bool {
		for {
			n, oobn, _, _, rerr = unix.Recvmsg(int(fd), p, s.oob, unix.MSG_DONTWAIT)
			if rerr != unix.EINTR {
				return rerr != unix.EAGAIN
			}
		}
	})
	switch {
	case err != nil:
		return 0, err
	case rerr != nil:
		return 0, os.NewSyscallError("recvmsg", rerr)
	case n == 0 && len(p) > 0:
		return 0, io.EOF
	}
	s.wall = receiveStamp(s.oob[:oobn])
	return n, nil
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
