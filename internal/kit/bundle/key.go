package bundle

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Key signs bundles. Its file is the usual PEM of PKCS #8, which other programs
// read as well.
type Key struct{ private ed25519.PrivateKey }

// PublicKey is who signed: "ed25519:" and the key in base64.
type PublicKey string

const keyPrefix = "ed25519:"

func publicOf(k ed25519.PublicKey) PublicKey {
	return PublicKey(keyPrefix + base64.RawURLEncoding.EncodeToString(k))
}

// raw are the bytes of the key.
func (p PublicKey) raw() (ed25519.PublicKey, error) {
	text, ok := strings.CutPrefix(string(p), keyPrefix)
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if !ok || err != nil || len(b) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("%q is no public key (want %s and 43 letters, as assay key show prints it)", cut(string(p)), keyPrefix)
	}
	return b, nil
}

// ParsePublicKey reads what assay key show prints.
func ParsePublicKey(s string) (PublicKey, error) {
	p := PublicKey(strings.TrimSpace(s))
	_, err := p.raw()
	return p, err
}

// NewKey makes a key of the system's randomness.
func NewKey() (*Key, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	return &Key{private}, nil
}

// Public is the half that may be told.
func (k *Key) Public() PublicKey { return publicOf(k.private.Public().(ed25519.PublicKey)) }

const pemType = "PRIVATE KEY"

// Store writes the key to a new file that only its owner can read. A file that
// exists is never overwritten: what it signed could not be signed again.
func (k *Key) Store(path string) error {
	der, err := x509.MarshalPKCS8PrivateKey(k.private)
	if err != nil {
		return fmt.Errorf("key: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("key: %w", err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("key: %w", err)
	}
	_, err = f.Write(pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: der}))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("key: %w", err)
	}
	return nil
}

// mostKey is more than any file of a key has.
const mostKey = 64 << 10

// LoadKey reads a key's file, and refuses one that others may read.
func LoadKey(path string) (*Key, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("key %s: mode %04o: others may read it; chmod 600 it, or make a new one", path, mode)
	}
	data, err := io.ReadAll(io.LimitReader(f, mostKey))
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	k, err := parseKey(data)
	if err != nil {
		return nil, fmt.Errorf("key %s: %w (assay key new makes one)", path, err)
	}
	return k, nil
}

// parseKey reads the contents of a key's file.
func parseKey(data []byte) (*Key, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != pemType {
		return nil, fmt.Errorf("no PEM block %q", pemType)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	private, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("a %T, want an ed25519 key", parsed)
	}
	return &Key{private}, nil
}

// sign signs a message of one kind; what is signed as one kind is no signature
// of another.
func (k *Key) sign(kind string, message []byte) []byte {
	return ed25519.Sign(k.private, append([]byte(kind+"\n"), message...))
}

// signed says whether the owner of the key signed the message as this kind.
func (p PublicKey) signed(kind string, message, signature []byte) bool {
	raw, err := p.raw()
	return err == nil && ed25519.Verify(raw, append([]byte(kind+"\n"), message...), signature)
}

// cut shortens a text of strangers for an error.
func cut(s string) string {
	const most = 80
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}
