package bundle

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"time"

	"github.com/klauspost/compress/zstd"
)

// The seal: a skippable frame of zstd with the signer's key and a signature over
// the sha256 of all bytes before it.
const (
	sealMagic = 0x184D2A5E
	sealName  = "assay-seal-1\n"
	sealBody  = len(sealName) + 32 + 64
	sealSize  = 8 + sealBody
)

// Kinds of signature.
const (
	kindManifest = "assay-manifest-1"
	kindSeal     = "assay-seal-1"
)

// signature is the member beside the manifest.
type signature struct {
	Format    string    `json:"format"`
	Key       PublicKey `json:"key"`
	Signature string    `json:"signature"` // base64
}

// Write makes a bundle of the members that m lists; open gives each one's bytes,
// which must be as m says. The same members and key give the same bytes. It
// returns the sha256 of the whole bundle.
func Write(w io.Writer, k *Key, m *Manifest, open func(name string) (io.ReadCloser, error)) (string, error) {
	if err := m.check(); err != nil {
		return "", err
	}
	manifest, err := m.Encode()
	if err != nil {
		return "", err
	}
	if len(manifest) > maxManifest {
		return "", fmt.Errorf("%s: %d bytes, more than the %d that it may have: publish fewer rows at once", ManifestFile, len(manifest), maxManifest)
	}
	sig, err := json.Marshal(signature{
		Format: kindManifest, Key: k.Public(),
		Signature: base64.StdEncoding.EncodeToString(k.sign(kindManifest, manifest)),
	})
	if err != nil {
		return "", err
	}
	out := &summed{w: w, sum: sha256.New()}
	z, err := zstd.NewWriter(out, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(true))
	if err != nil {
		return "", err
	}
	t := tar.NewWriter(z)
	add := func(name string, size int64, r io.Reader) error {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: memberMode, ModTime: time.Unix(0, 0)}
		if err := t.WriteHeader(h); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if n, err := io.Copy(t, r); err != nil || n != size {
			return fmt.Errorf("%s: %d of %d bytes: %w", name, n, size, orShort(err))
		}
		return nil
	}
	if err := add(ManifestFile, int64(len(manifest)), bytes.NewReader(manifest)); err != nil {
		return "", err
	}
	if err := add(SignatureFile, int64(len(sig)+1), bytes.NewReader(append(sig, '\n'))); err != nil {
		return "", err
	}
	for _, f := range m.Files {
		r, err := open(f.Name)
		if err != nil {
			return "", err
		}
		err = add(f.Name, f.Size, r)
		_ = r.Close()
		if err != nil {
			return "", err
		}
	}
	if err := t.Close(); err != nil {
		return "", err
	}
	if err := z.Close(); err != nil {
		return "", err
	}
	if _, err := out.Write(k.seal(out.sum.Sum(nil))); err != nil {
		return "", err
	}
	return hex.EncodeToString(out.sum.Sum(nil)), nil
}

// memberMode is the mode that all members have.
const memberMode = 0o644

// seal is the frame over a sum.
func (k *Key) seal(sum []byte) []byte {
	raw, _ := k.Public().raw() // of our own making
	b := make([]byte, 0, sealSize)
	b = binary.LittleEndian.AppendUint32(b, sealMagic)
	b = binary.LittleEndian.AppendUint32(b, uint32(sealBody))
	b = append(append(b, sealName...), raw...)
	return append(b, k.sign(kindSeal, sum)...)
}

func orShort(err error) error {
	if err == nil {
		return io.ErrShortWrite
	}
	return err
}

// summed hashes what goes through it.
type summed struct {
	w   io.Writer
	sum hash.Hash
}

func (s *summed) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	s.sum.Write(p[:n])
	return n, err
}
