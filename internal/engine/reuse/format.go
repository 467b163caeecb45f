package reuse

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
)

// A file holds one sequence:
//
//	magic    8 bytes
//	length   of the header, 4 bytes, little-endian
//	header   JSON
//	tokens   header.Tokens times 4 bytes, little-endian
//	sum      CRC-32C of all before it, 4 bytes
//	state    unless header.StateBytes is 0: as many bytes, CRC-32C of them in 4
//	pages    header.Pages times: header.PageBytes bytes, CRC-32C of them in 4
//
// Each page has a sum of its own, so that the first few can be read alone.
const magic = "assaykv\x01"

// extension is that of our files. No other file of the folder is touched.
const extension = ".assaykv"

type header struct {
	Model     string `json:"model"` // see Identity
	Layout    string `json:"layout"`
	Tokens    int    `json:"tokens"`
	Pages     int    `json:"pages"`
	PageBytes int    `json:"page_bytes"`

	StateBytes int `json:"state_bytes,omitempty"` // of recurrent layers, after all tokens
}

// Bounds of what a header may say, before the size of the file is looked at.
const (
	maxHeader = 1 << 16
	maxTokens = 1 << 26
	maxPage   = 1 << 36
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// size of a file with this header.
func (h *header) size(headerBytes int) int64 {
	n := int64(len(magic)+4+headerBytes) + 4*int64(h.Tokens) + 4 + int64(h.Pages)*(int64(h.PageBytes)+4)
	if h.StateBytes > 0 {
		n += int64(h.StateBytes) + 4
	}
	return n
}

// writeHeader writes everything before the pages.
func writeHeader(w io.Writer, h header, tokens []int32) error {
	head, err := json.Marshal(h)
	if err != nil {
		return err
	}
	buf := append([]byte(magic), 0, 0, 0, 0)
	binary.LittleEndian.PutUint32(buf[len(magic):], uint32(len(head)))
	buf = append(buf, head...)
	for _, id := range tokens {
		buf = binary.LittleEndian.AppendUint32(buf, uint32(id))
	}
	buf = binary.LittleEndian.AppendUint32(buf, crc32.Checksum(buf, castagnoli))
	_, err = w.Write(buf)
	return err
}

// readHeader reads everything before the pages of a file of the given size. at is
// where the pages begin.
func readHeader(r io.Reader, fileSize int64) (h header, tokens []int32, at int64, err error) {
	sum := crc32.New(castagnoli)
	in := io.TeeReader(bufio.NewReaderSize(r, 1<<16), sum)
	var start [len(magic) + 4]byte
	if _, err := io.ReadFull(in, start[:]); err != nil {
		return h, nil, 0, fmt.Errorf("the header is cut off: %w", whole(err))
	}
	if string(start[:len(magic)]) != magic {
		return h, nil, 0, fmt.Errorf("it begins with %q, not with %q", start[:len(magic)], magic)
	}
	n := int64(binary.LittleEndian.Uint32(start[len(magic):]))
	if n > maxHeader || n > fileSize {
		return h, nil, 0, fmt.Errorf("its header is said to have %d bytes", n)
	}
	head := make([]byte, n)
	if _, err := io.ReadFull(in, head); err != nil {
		return h, nil, 0, fmt.Errorf("the header is cut off: %w", whole(err))
	}
	if err := json.Unmarshal(head, &h); err != nil {
		return h, nil, 0, fmt.Errorf("the header: %w", err)
	}
	switch {
	case h.Tokens < 1 || h.Tokens > maxTokens || h.Pages < 1 || h.Pages > maxTokens || h.PageBytes < 1 || h.PageBytes > maxPage || h.StateBytes < 0 || h.StateBytes > maxPage:
		return h, nil, 0, fmt.Errorf("the header tells of %d tokens and %d pages of %d bytes", h.Tokens, h.Pages, h.PageBytes)
	case h.size(len(head)) != fileSize:
		return h, nil, 0, fmt.Errorf("it has %d bytes, where %d tokens in %d pages take %d", fileSize, h.Tokens, h.Pages, h.size(len(head)))
	}
	raw := make([]byte, 4*h.Tokens) // no more than the file has
	if _, err := io.ReadFull(in, raw); err != nil {
		return h, nil, 0, fmt.Errorf("the tokens are cut off: %w", whole(err))
	}
	want := sum.Sum32()
	var stored [4]byte
	if _, err := io.ReadFull(in, stored[:]); err != nil {
		return h, nil, 0, fmt.Errorf("the header's sum is cut off: %w", whole(err))
	}
	if got := binary.LittleEndian.Uint32(stored[:]); got != want {
		return h, nil, 0, fmt.Errorf("the header's sum is %08x, not %08x", want, got)
	}
	tokens = make([]int32, h.Tokens)
	for i := range tokens {
		tokens[i] = int32(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return h, tokens, int64(len(magic)+4) + n + int64(len(raw)) + 4, nil
}

// whole names the end of a file by what it means here.
func whole(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// chunk is how much is written between two looks at whether there is time left: a
// page may have many megabytes.
const chunk = 1 << 20

// writePiece ends with stop's error once it has one.
func writePiece(w io.Writer, piece []byte, stop func() error) error {
	for part := range slices.Chunk(piece, chunk) {
		if err := stop(); err != nil {
			return err
		}
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	var sum [4]byte
	binary.LittleEndian.PutUint32(sum[:], crc32.Checksum(piece, castagnoli))
	_, err := w.Write(sum[:])
	return err
}

func readPiece(r io.Reader, piece []byte) error {
	if _, err := io.ReadFull(r, piece); err != nil {
		return whole(err)
	}
	var sum [4]byte
	if _, err := io.ReadFull(r, sum[:]); err != nil {
		return whole(err)
	}
	if want, got := binary.LittleEndian.Uint32(sum[:]), crc32.Checksum(piece, castagnoli); got != want {
		return fmt.Errorf("its sum is %08x, not %08x", got, want)
	}
	return nil
}
