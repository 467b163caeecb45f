package bundle

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"testing"
)

// FuzzManifest: what is read as a manifest keeps to the limits, and is written as
// one that reads the same.
func FuzzManifest(f *testing.F) {
	good, err := manifestOf(members()).Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"format":"assay-bundle-1","rows":[{}],"files":[],"left_out":null,"redactions":[],"searched":[]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ParseManifest(data)
		if err != nil {
			if len(err.Error()) > 4000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		again, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		back, err := ParseManifest(again)
		if err != nil {
			t.Fatalf("%v of %s", err, again)
		}
		if third, err := back.Encode(); err != nil || !bytes.Equal(third, again) {
			t.Errorf("%v: it became %s of %s", err, third, again)
		}
		for _, file := range m.Files {
			if err := checkName(file.Name); err != nil || m.File(file.Name) == nil {
				t.Errorf("%q: %v", file.Name, err)
			}
		}
	})
}

// FuzzOpenings: a file of openings is written as it was read, value for value.
func FuzzOpenings(f *testing.F) {
	o, err := NewOpening(1, "r", "p", json.RawMessage(`{"a":  [1, "<"]}`))
	if err != nil {
		f.Fatal(err)
	}
	good, err := (&Openings{Format: RevealFormat, Openings: []Opening{o, o}}).Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"format":"assay-salts-1","openings":[{"value":null}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		in, err := ParseOpenings("f", data)
		if err != nil {
			return
		}
		again, err := in.Encode()
		if err != nil {
			t.Fatal(err)
		}
		out, err := ParseOpenings("f", again)
		if err != nil || len(out.Openings) != len(in.Openings) {
			t.Fatalf("%v of %s", err, again)
		}
		for i, o := range out.Openings {
			if was := in.Openings[i]; !bytes.Equal(o.Value, was.Value) || o.Path != was.Path || o.Salt != was.Salt {
				t.Errorf("%+v became %+v", was, o)
			}
			_ = o.Check(o.Commitment)
		}
	})
}

// FuzzKey: whatever stands in a key's file, a key that is read from it can sign.
func FuzzKey(f *testing.F) {
	k := newKey(f)
	der, err := x509.MarshalPKCS8PrivateKey(k.private)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: der}), string(k.Public()))
	f.Add([]byte("-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n"), "ed25519:")
	f.Fuzz(func(t *testing.T, file []byte, public string) {
		if k, err := parseKey(file); err == nil && !k.Public().signed(kindSeal, []byte("m"), k.sign(kindSeal, []byte("m"))) {
			t.Error("what it signs does not hold")
		}
		if p, err := ParsePublicKey(public); err == nil {
			if again, err := ParsePublicKey(string(p)); err != nil || again != p {
				t.Errorf("%q is %q: %v", p, again, err)
			}
			p.signed(kindSeal, file, file)
		}
	})
}
