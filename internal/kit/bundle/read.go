package bundle

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/klauspost/compress/zstd"
)

// Opened is a bundle whose seal, signature and hashes hold.
type Opened struct {
	Manifest *Manifest
	Key      PublicKey // who signed it
	SHA256   string    // of the whole file
	Dir      string    // where its members lie
}

// zstdMagic begins a frame of zstd, and so a bundle.
var zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}

// Is says whether a file begins as bundles do. The place in it stays.
func Is(f io.ReaderAt) (bool, error) {
	b := make([]byte, len(zstdMagic))
	_, err := f.ReadAt(b, 0)
	if err == io.EOF || errors.Is(err, syscall.ESPIPE) { // short, or a pipe
		err = nil
	}
	return bytes.Equal(b, zstdMagic), err
}

// Open checks the bundle in the file and unpacks it into dir, which must be
// empty. Nothing is unpacked before the seal over all bytes holds. The first
// thing that is not as it should be is the error, and what was unpacked by then
// is left to the caller to remove.
func Open(ctx context.Context, file, dir string) (*Opened, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", file)
	}
	o, err := open(ctx, f, info.Size(), dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return o, nil
}

func open(ctx context.Context, f io.ReaderAt, size int64, dir string) (*Opened, error) {
	o := &Opened{Dir: dir}
	if err := o.unseal(f, size); err != nil {
		return nil, err
	}
	body := io.NewSectionReader(f, 0, size-int64(sealSize))
	z, err := zstd.NewReader(body, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	r := &reader{ctx: ctx, tar: tar.NewReader(&bounded{r: z, left: maxStream, ctx: ctx}), root: dir, unpacked: maxUnpacked}
	manifest, err := r.whole(ManifestFile, maxManifest)
	if err != nil {
		return nil, err
	}
	sig, err := r.whole(SignatureFile, maxSignature)
	if err != nil {
		return nil, err
	}
	if err := checkSignature(o.Key, manifest, sig); err != nil {
		return nil, err
	}
	if o.Manifest, err = ParseManifest(manifest); err != nil {
		return nil, err
	}
	for i := range o.Manifest.Files {
		if err := r.extract(&o.Manifest.Files[i]); err != nil {
			return nil, err
		}
	}
	switch h, err := r.tar.Next(); {
	case err == nil:
		return nil, fmt.Errorf("%s: the manifest does not list it", cut(h.Name))
	case !errors.Is(err, io.EOF):
		return nil, err
	}
	return o, nil
}

const (
	// maxWindow is more than the encoder asks for, at any level.
	maxWindow = 64 << 20
	// maxStream bounds the tar as a whole: members, their headers and padding.
	maxStream = maxTotal + maxManifest + maxFiles*(16<<10)
)

// unseal checks the last frame over all bytes before it.
func (o *Opened) unseal(f io.ReaderAt, size int64) error {
	if size < int64(sealSize) {
		return errors.New("not a bundle: too short for its seal")
	}
	seal := make([]byte, sealSize)
	if _, err := f.ReadAt(seal, size-int64(sealSize)); err != nil {
		return err
	}
	body := seal[8:]
	if binary.LittleEndian.Uint32(seal) != sealMagic || int(binary.LittleEndian.Uint32(seal[4:])) != sealBody || string(body[:len(sealName)]) != sealName {
		return errors.New("not a bundle, or cut short: its last bytes are no seal")
	}
	body = body[len(sealName):]
	o.Key = publicOf(body[:32])
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, size-int64(sealSize))); err != nil {
		return err
	}
	if !o.Key.signed(kindSeal, h.Sum(nil), body[32:]) {
		return fmt.Errorf("the seal does not hold: the file is not what %s signed", o.Key)
	}
	h.Write(seal)
	o.SHA256 = hex.EncodeToString(h.Sum(nil))
	return nil
}

func checkSignature(k PublicKey, manifest, member []byte) error {
	var s signature
	if err := strict(member).Decode(&s); err != nil {
		return fmt.Errorf("%s: %w", SignatureFile, err)
	}
	if s.Format != kindManifest || s.Key != k {
		return fmt.Errorf("%s: of format %q by %q, want %q by the key of the seal, %s", SignatureFile, cut(s.Format), cut(string(s.Key)), kindManifest, k)
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(s.Signature)
	if err != nil || !k.signed(kindManifest, manifest, raw) {
		return fmt.Errorf("%s: it does not hold: %s is not what %s signed", SignatureFile, ManifestFile, k)
	}
	return nil
}

// reader takes members out of a tar.
type reader struct {
	ctx      context.Context
	tar      *tar.Reader
	root     string
	unpacked int64 // that packed members may still hold
}

// next moves to the member that must come now.
func (r *reader) next(name string) (int64, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	h, err := r.tar.Next()
	if errors.Is(err, io.EOF) {
		return 0, fmt.Errorf("%s: missing", name)
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	plain := h.Typeflag == tar.TypeReg && h.Linkname == "" && h.Mode == memberMode && h.ModTime.Equal(time.Unix(0, 0)) &&
		h.Uid == 0 && h.Gid == 0 && h.Uname == "" && h.Gname == ""
	for k := range h.PAXRecords {
		plain = plain && k == "path" // names longer than a header holds
	}
	switch {
	case h.Name != name:
		return 0, fmt.Errorf("%q stands where %s must come", cut(h.Name), name)
	case !plain:
		return 0, fmt.Errorf("%s: not a plain file, or not as bundles have them", name)
	}
	return h.Size, nil
}

// whole reads a member into memory.
func (r *reader) whole(name string, most int64) ([]byte, error) {
	size, err := r.next(name)
	if err != nil {
		return nil, err
	}
	if size > most {
		return nil, fmt.Errorf("%s: %d bytes, more than the %d that it may have", name, size, most)
	}
	// The size is a stranger's word: the buffer grows with what there is.
	b, err := io.ReadAll(io.LimitReader(r.tar, most+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return b, nil
}

// extract writes a member to its place and checks it against the manifest.
func (r *reader) extract(f *File) error {
	size, err := r.next(f.Name)
	if err != nil {
		return err
	}
	if size != f.Size {
		return fmt.Errorf("%s: %d bytes, the manifest says %d", f.Name, size, f.Size)
	}
	path := filepath.Join(r.root, filepath.FromSlash(f.Name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	out, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	h := sha256.New()
	if _, err := io.Copy(io.MultiWriter(out, h), r.tar); err != nil {
		return fmt.Errorf("%s: %w", f.Name, err)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != f.SHA256 {
		return fmt.Errorf("%s: its sha256 is %s, the manifest says %s", f.Name, got, f.SHA256)
	}
	if !strings.HasSuffix(f.Name, ".zst") {
		return nil
	}
	return r.packed(f.Name, out)
}

// packed sees to it that what is packed in a member fits the limits, so that
// whoever reads it later can't be filled up.
func (r *reader) packed(name string, f *os.File) error {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	z, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer z.Close()
	most := min(maxOne, r.unpacked)
	n, err := io.Copy(io.Discard, &bounded{r: z, left: most, ctx: r.ctx})
	if err != nil {
		return fmt.Errorf("%s: unpacking: %w", name, err)
	}
	r.unpacked -= n
	return nil
}

var errTooMuch = errors.New("it unpacks to more than a bundle may hold")

// bounded fails once more than left bytes have come.
type bounded struct {
	r    io.Reader
	left int64
	ctx  context.Context
}

func (b *bounded) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.r.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, errTooMuch
	}
	return n, err
}
