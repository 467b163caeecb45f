package bundle

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
)

func hashOf(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// members are those of a small bundle.
func members() map[string][]byte {
	return map[string][]byte{
		"rows.jsonl":                  []byte(`{"row_id":"a"}` + "\n"),
		"row.schema.json":             []byte("{}\n"),
		"evidence/a/m/a1/run/prompt":  bytes.Repeat([]byte("Some text. "), 300),
		"evidence/a/m/a1/run/" + long: []byte("x"),
	}
}

// long is a name that a tar's header has no room for.
var long = strings.Repeat("n", 180)

func manifestOf(members map[string][]byte) *Manifest {
	m := &Manifest{
		Format: Format, AssayVersion: "test", Made: "2026-12-02", Evidence: All,
		Rows: []Row{{SHA256: hashOf([]byte(`{"row_id":"a"}`))}}, Redactions: []Redaction{{1, "error", hashOf(nil)}},
		LeftOut: []LeftOut{}, Searched: []Searched{},
	}
	for name, data := range members {
		m.Files = append(m.Files, File{Name: name, Size: int64(len(data)), SHA256: hashOf(data)})
	}
	m.sort()
	return m
}

func (m *Manifest) sort() {
	for i := range m.Files {
		for j := i; j > 0 && m.Files[j].Name < m.Files[j-1].Name; j-- {
			m.Files[j], m.Files[j-1] = m.Files[j-1], m.Files[j]
		}
	}
}

func newKey(t testing.TB) *Key {
	t.Helper()
	k, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func written(t testing.TB, k *Key) []byte {
	t.Helper()
	all := members()
	var out bytes.Buffer
	sum, err := Write(&out, k, manifestOf(all), func(name string) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(all[name])), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if sum != hashOf(out.Bytes()) {
		t.Error("the sum is not that of the file")
	}
	return out.Bytes()
}

func opened(t testing.TB, data []byte) (*Opened, error) {
	t.Helper()
	return open(t.Context(), bytes.NewReader(data), int64(len(data)), t.TempDir())
}

func TestRoundTrip(t *testing.T) {
	k := newKey(t)
	data := written(t, k)
	if !bytes.Equal(data, written(t, k)) {
		t.Error("the same members and key give other bytes")
	}
	o, err := opened(t, data)
	if err != nil {
		t.Fatal(err)
	}
	if o.Key != k.Public() || o.SHA256 != hashOf(data) {
		t.Errorf("%+v", o)
	}
	for name, want := range members() {
		if got, err := os.ReadFile(filepath.Join(o.Dir, name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Every byte, and every end, is covered by the seal.
func TestTampered(t *testing.T) {
	data := written(t, newKey(t))
	dir := t.TempDir()
	step := 1
	if testing.Short() {
		step = 17
	}
	for at := 0; at < len(data); at += step {
		for _, flip := range []byte{1, 0x80, 0xff} {
			changed := bytes.Clone(data)
			changed[at] ^= flip
			if _, err := open(t.Context(), bytes.NewReader(changed), int64(len(changed)), dir); err == nil {
				t.Fatalf("byte %d of %d: a change by %#x is not found", at, len(data), flip)
			}
		}
		if _, err := open(t.Context(), bytes.NewReader(data[:at]), int64(at), dir); err == nil {
			t.Fatalf("cut at byte %d: not found", at)
		}
	}
	for _, more := range [][]byte{{0}, []byte("\n"), data, data[len(data)-sealSize:]} {
		longer := append(bytes.Clone(data), more...)
		if _, err := open(t.Context(), bytes.NewReader(longer), int64(len(longer)), dir); err == nil {
			t.Errorf("%d bytes more: not found", len(more))
		}
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("unpacked before the seal was found broken: %v", left)
	}
}

// forge seals any members: what a stranger can do with a key of his own.
func forge(t testing.TB, k *Key, fill func(w *tar.Writer)) []byte {
	t.Helper()
	var out bytes.Buffer
	z, err := zstd.NewWriter(&out)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	fill(w)
	_ = w.Close()
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return sealed(k, out.Bytes())
}

func sealed(k *Key, body []byte) []byte {
	sum := sha256.Sum256(body)
	return append(bytes.Clone(body), k.seal(sum[:])...)
}

func put(w *tar.Writer, h tar.Header, data []byte) {
	if h.Typeflag == 0 {
		h.Typeflag = tar.TypeReg
	}
	if h.Mode == 0 {
		h.Mode = memberMode
	}
	h.ModTime = time.Unix(0, 0)
	if h.Typeflag == tar.TypeReg {
		h.Size = int64(len(data))
	}
	if w.WriteHeader(&h) == nil { // the writer has scruples of its own
		_, _ = w.Write(data)
	}
}

// manifested puts a manifest and its signature first.
func manifested(k *Key, w *tar.Writer, manifest []byte) {
	put(w, tar.Header{Name: ManifestFile}, manifest)
	sig, _ := json.Marshal(map[string]any{"format": kindManifest, "key": k.Public(), "signature": k.sign(kindManifest, manifest)})
	put(w, tar.Header{Name: SignatureFile}, append(sig, '\n'))
}

// A hostile bundle, sealed and signed as it should be, is refused in bounded time
// and memory, and leaves nothing outside of its folder.
func TestHostile(t *testing.T) {
	if testing.Short() {
		t.Skip("large files")
	}
	k := newKey(t)
	all := members()
	encode := func(change func(m *Manifest)) []byte {
		m := manifestOf(all)
		change(m)
		b, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	plain := func(w *tar.Writer, names ...string) {
		for _, n := range names {
			put(w, tar.Header{Name: n}, all[n])
		}
	}
	order := func() (names []string) {
		for _, f := range manifestOf(all).Files {
			names = append(names, f.Name)
		}
		return names
	}()
	good := encode(func(*Manifest) {})
	named := func(name string) func(w *tar.Writer) {
		return func(w *tar.Writer) {
			manifested(k, w, encode(func(m *Manifest) { m.Files[0].Name = name; m.sort() }))
			put(w, tar.Header{Name: name}, all[order[0]])
		}
	}
	first := func(h tar.Header) func(w *tar.Writer) {
		return func(w *tar.Writer) {
			manifested(k, w, good)
			h.Name = order[0]
			put(w, h, all[order[0]])
			plain(w, order[1:]...)
		}
	}
	// lists puts n values into a list of the manifest.
	lists := func(open, value string, n int) func(w *tar.Writer) {
		return func(w *tar.Writer) {
			before, after, _ := strings.Cut(string(good), open)
			all := strings.Repeat(value+",", n)
			if strings.HasPrefix(after, "]") { // it is empty
				all = all[:len(all)-1]
			}
			manifested(k, w, []byte(before+open+all+after))
		}
	}
	bomb := func(size int64) []byte {
		var b bytes.Buffer
		z, _ := zstd.NewWriter(&b)
		zero := make([]byte, 1<<20)
		for ; size > 0; size -= int64(len(zero)) {
			_, _ = z.Write(zero)
		}
		_ = z.Close()
		return b.Bytes()
	}
	cases := map[string]struct {
		fill func(w *tar.Writer)
		want string
	}{
		"nothing":          {func(*tar.Writer) {}, "manifest.json: missing"},
		"no signature":     {func(w *tar.Writer) { put(w, tar.Header{Name: ManifestFile}, good) }, "manifest.sig: missing"},
		"not the manifest": {func(w *tar.Writer) { plain(w, order...) }, "stands where manifest.json must come"},
		"a wrong signature": {func(w *tar.Writer) {
			put(w, tar.Header{Name: ManifestFile}, good)
			put(w, tar.Header{Name: SignatureFile}, []byte(`{}`))
		}, "manifest.sig: of format"},
		"another's signature": {func(w *tar.Writer) { manifested(newKey(t), w, good) }, "want \"assay-manifest-1\" by the key of the seal"},
		"unknown form":        {func(w *tar.Writer) { manifested(k, w, encode(func(m *Manifest) { m.Format = "assay-bundle-9" })) }, "was it made by a newer assay?"},
		"unknown field":       {func(w *tar.Writer) { manifested(k, w, bytes.Replace(good, []byte(`"made"`), []byte(`"mode"`), 1)) }, "unknown field"},
		"manifest and more":   {func(w *tar.Writer) { manifested(k, w, append(bytes.Clone(good), "{}"...)) }, "after top-level value"},
		"a level":             {func(w *tar.Writer) { manifested(k, w, encode(func(m *Manifest) { m.Evidence = "some" })) }, "is none of"},
		"path up":             {named("evidence/../../../x"), "leads elsewhere"},
		"path up, short":      {named("../x"), "no member of a bundle has it"},
		"absolute path":       {named("/etc/passwd"), "no member of a bundle has it"},
		"a backslash":         {named(`evidence/..\x`), "leads elsewhere"},
		"a control character": {named("evidence/a\x1b[2J"), "control characters"},
		"the folder":          {named("evidence/"), "leads elsewhere"},
		"no UTF-8":            {named("evidence/\xff"), ""},
		"a huge name":         {named("evidence/" + strings.Repeat("a/", 600) + "b"), "too long"},
		"a huge part":         {named("evidence/" + strings.Repeat("a", 300)), "too long or leads elsewhere"},
		"named twice": {func(w *tar.Writer) {
			manifested(k, w, encode(func(m *Manifest) { m.Files = append(m.Files[:1:1], m.Files...) }))
		}, "names are in order, each once"},
		"there twice":  {func(w *tar.Writer) { manifested(k, w, good); plain(w, order[0], order[0]) }, "must come"},
		"out of order": {func(w *tar.Writer) { manifested(k, w, good); plain(w, order[1], order[0]) }, "must come"},
		"one missing":  {func(w *tar.Writer) { manifested(k, w, good); plain(w, order[:2]...) }, "missing"},
		"one more":     {func(w *tar.Writer) { manifested(k, w, good); plain(w, append(order, "x")...) }, "the manifest does not list it"},
		"a symlink":    {first(tar.Header{Typeflag: tar.TypeSymlink, Linkname: "/etc"}), "not a plain file"},
		"a hard link":  {first(tar.Header{Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}), "not a plain file"},
		"a device":     {first(tar.Header{Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}), "not a plain file"},
		"a pipe":       {first(tar.Header{Typeflag: tar.TypeFifo}), "not a plain file"},
		"a folder":     {first(tar.Header{Typeflag: tar.TypeDir}), "not a plain file"},
		"setuid":       {first(tar.Header{Mode: 0o4755}), "not a plain file"},
		"an owner":     {first(tar.Header{Uid: 7}), "not a plain file"},
		"extended":     {first(tar.Header{PAXRecords: map[string]string{"SCHILY.xattr.security.capability": "x"}}), "not a plain file"},
		"other contents": {func(w *tar.Writer) {
			manifested(k, w, good)
			put(w, tar.Header{Name: order[0]}, bytes.ToUpper(all[order[0]]))
		}, "the manifest says"},
		"another size": {func(w *tar.Writer) { manifested(k, w, good); put(w, tar.Header{Name: order[0]}, []byte("yy")) }, "bytes, the manifest says"},
		"a huge member": {func(w *tar.Writer) {
			manifested(k, w, encode(func(m *Manifest) { m.Files[0].Size = 1 << 40 }))
		}, "bytes, want 0 to"},
		"a million rows": {func(w *tar.Writer) {
			manifested(k, w, encode(func(m *Manifest) { m.Rows = make([]Row, 1_000_000) }))
		}, "rows: more than the 100000 that a bundle may have"},
		"a million rows with their hashes": {func(w *tar.Writer) {
			manifested(k, w, encode(func(m *Manifest) {
				m.Rows = slices.Repeat([]Row{{SHA256: hashOf(nil)}}, 1_000_000)
			}))
		}, "bytes, more than the 67108864 that it may have"},
		"rows of nothing":        {lists(`"rows": [`, "{}", 2*maxRedacted), "rows: more than the 100000"},
		"redactions of nothing":  {lists(`"redactions": [`, "{}", 2*maxRedacted), "redactions: more than the 1000000"},
		"left out, of nothing":   {lists(`"left_out": [`, "null", 2*maxRedacted), "left_out: more than the 200000"},
		"folders without an end": {lists(`"searched": [`, strings.Repeat("[", 9000)+strings.Repeat("]", 9000), 100), "searched[0]:"},
		"a list that is a number": {func(w *tar.Writer) {
			manifested(k, w, bytes.Replace(good, []byte(`"left_out": []`), []byte(`"left_out": 7`), 1))
		}, "left_out: want a list"},
		"a list that is missing": {func(w *tar.Writer) { manifested(k, w, bytes.Replace(good, []byte(`"left_out": [],`), nil, 1)) }, "left_out: missing"},
		"a million files": {func(w *tar.Writer) {
			manifested(k, w, encode(func(m *Manifest) {
				m.Files = make([]File, 1_000_000)
				for i := range m.Files {
					m.Files[i].Name = fmt.Sprintf("evidence/%07d", i)
				}
			}))
		}, "bytes, more than the 67108864 that it may have"},
		"a zip bomb in the place of the manifest": {func(w *tar.Writer) { put(w, tar.Header{Name: ManifestFile}, make([]byte, maxManifest+1)) }, "more than the"},
		"a zip bomb in a member": {func(w *tar.Writer) {
			b := bomb(maxOne + 2<<20)
			manifested(k, w, encode(func(m *Manifest) {
				m.Files = append(m.Files, File{Name: "evidence/a/stream.zst", Size: int64(len(b)), SHA256: hashOf(b)})
				m.sort()
			}))
			for _, n := range order {
				if strings.HasPrefix(n, "evidence") {
					plain(w, n)
				}
			}
			put(w, tar.Header{Name: "evidence/a/stream.zst"}, b)
		}, "unpacks to more than"},
	}
	for name, tt := range cases {
		t.Run(name, func(t *testing.T) {
			data := forge(t, k, tt.fill)
			refused(t, data, tt.want)
		})
	}
	// Below the tar: a bomb that is no tar, a frame that asks for a huge window, and
	// no zstd at all.
	refused(t, sealed(k, bomb(maxStream + 4<<20)[:]), "")
	refused(t, sealed(k, []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xf8, 0x01, 0x00, 0x00}), "")
	refused(t, sealed(k, []byte("nothing")), "")
	refused(t, nil, "too short")
}

// refused demands an error within a few seconds and a bounded heap.
func refused(t *testing.T, data []byte, want string) {
	t.Helper()
	outside := t.TempDir()
	dir := filepath.Join(outside, "in")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begin := time.Now()
	_, err := open(t.Context(), bytes.NewReader(data), int64(len(data)), dir)
	runtime.ReadMemStats(&after)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	} else if len(err.Error()) > 1000 {
		t.Errorf("an error of %d bytes", len(err.Error()))
	}
	took, allocated := time.Since(begin), int64(after.TotalAlloc-before.TotalAlloc) // in all, what was freed meanwhile included
	if took > 30*time.Second {
		t.Errorf("took %v", took)
	}
	if allocated > 1<<30 {
		t.Errorf("%d MiB of memory", allocated>>20)
	}
	t.Logf("%d bytes, refused in %v and %d MiB: %.100v", len(data), took.Round(time.Millisecond), allocated>>20, err)
	if entries, _ := os.ReadDir(outside); len(entries) != 1 {
		t.Errorf("outside of its folder: %v", entries)
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	data := written(t, newKey(t))
	if _, err := open(ctx, bytes.NewReader(data), int64(len(data)), t.TempDir()); err == nil {
		t.Error("opened all the same")
	}
}

// The salt has 128 bits and each counts: without it, all ports are equally likely.
func TestCommitment(t *testing.T) {
	const path = "command_line[7]"
	o, err := NewOpening(3, "a/run-003", path, json.RawMessage(`"48151"`))
	if err != nil {
		t.Fatal(err)
	}
	salt, err := hex.DecodeString(o.Salt)
	if err != nil || len(salt) != 16 {
		t.Fatalf("salt %q", o.Salt)
	}
	guess := func(salt []byte) (found []int) {
		for port := range 1 << 16 {
			if commitment(salt, 3, path, fmt.Appendf(nil, `"%d"`, port)) == o.Commitment {
				found = append(found, port)
			}
		}
		return found
	}
	if got := guess(salt); len(got) != 1 || got[0] != 48151 {
		t.Errorf("with the salt: %v", got)
	}
	for name, wrong := range map[string][]byte{"none": nil, "zeros": make([]byte, 16), "half": append(bytes.Clone(salt[:8]), make([]byte, 8)...)} {
		if got := guess(wrong); got != nil {
			t.Errorf("with %s for a salt: %v", name, got)
		}
	}
	for bit := range 128 {
		other := bytes.Clone(salt)
		other[bit/8] ^= 1 << (bit % 8)
		if commitment(other, 3, path, o.Value) == o.Commitment {
			t.Errorf("bit %d of the salt does not count", bit)
		}
	}
	// Salts are drawn anew, so that equal values can't be told to be equal.
	seen, ones := map[string]bool{}, 0
	for range 1000 {
		again, err := NewOpening(3, "a", path, o.Value)
		if err != nil {
			t.Fatal(err)
		}
		seen[again.Salt], seen[again.Commitment] = true, true
		for _, b := range []byte(again.Salt) {
			ones += strings.Count(fmt.Sprintf("%b", hexDigit(b)), "1")
		}
	}
	if len(seen) != 2000 {
		t.Errorf("%d salts and commitments of 1000", len(seen))
	}
	if mean := float64(ones) / 1000; mean < 63 || mean > 65 { // 64, ± 0.18
		t.Errorf("%v of 128 bits of the salts are ones", mean)
	}
	// What is committed to can't be cut in another place.
	if commitment(salt, 1, "ab", []byte("c")) == commitment(salt, 1, "a", []byte("bc")) {
		t.Error("path and value run into each other")
	}
}

func hexDigit(c byte) int { return strings.IndexByte("0123456789abcdef", c) }

func TestOpenings(t *testing.T) {
	in := &Openings{Format: SaltsFormat, Bundle: hashOf(nil)}
	for _, v := range []string{`"a<b>&\u0041"`, ` `, `12.50`, `{"a":  1}`, `"\"value\":null"`} {
		if v = strings.TrimSpace(v); v == "" {
			continue
		}
		o, err := NewOpening(1, `r"value":null`, `p."value":null`, json.RawMessage(v))
		if err != nil {
			t.Fatal(err)
		}
		in.Openings = append(in.Openings, o)
	}
	data, err := in.Encode()
	if err != nil {
		t.Fatal(err)
	}
	out, err := ParseOpenings("f", data)
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range out.Openings {
		if err := o.Check(in.Openings[i].Commitment); err != nil {
			t.Errorf("%s: %v", o.Value, err)
		}
	}
	for _, bad := range []string{
		"", "{}", `{"format":"assay-salts-1","more":1}`, `{"format":"assay-salts-1"} {}`, `{"format":"assay-salts-1","openings":[{}]}`,
		`{"format":"assay-salts-1","openings":[` + strings.Repeat(`{},`, maxRedacted+maxRows) + `{}]}`,
	} {
		if _, err := ParseOpenings("f", []byte(bad)); err == nil || !strings.HasPrefix(err.Error(), "f: ") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "key.pem")
	k := newKey(t)
	if err := k.Store(path); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info.Mode(), err)
	}
	if err := newKey(t).Store(path); err == nil {
		t.Error("a key was overwritten")
	}
	back, err := LoadKey(path)
	if err != nil || back.Public() != k.Public() {
		t.Errorf("%v", err)
	}
	if p, err := ParsePublicKey(" " + string(k.Public()) + "\n"); err != nil || p != k.Public() {
		t.Errorf("%q, %v", p, err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadKey(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("readable by others: %v", err)
	}
	for _, bad := range []string{"", "x", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"} {
		p := filepath.Join(t.TempDir(), "k")
		if err := os.WriteFile(p, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadKey(p); err == nil {
			t.Errorf("%q is a key", bad)
		}
	}
	for _, bad := range []string{"", "ed25519:", "ed25519:AAAA", string(k.Public()) + "A", "rsa:" + string(k.Public())[8:]} {
		if _, err := ParsePublicKey(bad); err == nil {
			t.Errorf("%q is a public key", bad)
		}
	}
	if k.Public().signed(kindSeal, []byte("m"), k.sign(kindManifest, []byte("m"))) {
		t.Error("a signature of one kind is one of another")
	}
}

// FuzzOpen gives the reader any tar and any manifest, sealed as they should be.
func FuzzOpen(f *testing.F) {
	k := newKey(f)
	good := written(f, k)
	z, err := zstd.NewReader(bytes.NewReader(good[:len(good)-sealSize]))
	if err != nil {
		f.Fatal(err)
	}
	raw, err := io.ReadAll(z)
	if err != nil {
		f.Fatal(err)
	}
	manifest, err := manifestOf(members()).Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw, true)
	f.Add(manifest, false)
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		b := bytes.Clone(raw)
		b[random.IntN(len(b))] ^= byte(random.IntN(255) + 1)
		f.Add(b, true)
	}
	f.Fuzz(func(t *testing.T, data []byte, isTar bool) {
		var body bytes.Buffer
		z, err := zstd.NewWriter(&body, zstd.WithEncoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		if isTar {
			_, _ = z.Write(data)
		} else {
			w := tar.NewWriter(z)
			manifested(k, w, data)
			for _, file := range manifestOf(members()).Files {
				put(w, tar.Header{Name: file.Name}, members()[file.Name])
			}
			_ = w.Close()
		}
		_ = z.Close()
		outside := t.TempDir()
		dir := filepath.Join(outside, "in")
		file := sealed(k, body.Bytes())
		o, err := open(t.Context(), bytes.NewReader(file), int64(len(file)), dir)
		if entries, _ := os.ReadDir(outside); len(entries) > 1 || len(entries) == 1 && entries[0].Name() != "in" {
			t.Errorf("outside of its folder: %v", entries)
		}
		if err != nil {
			return
		}
		for _, m := range o.Manifest.Files {
			data, err := os.ReadFile(filepath.Join(dir, m.Name))
			if err != nil || hashOf(data) != m.SHA256 {
				t.Errorf("%s: %v", m.Name, err)
			}
		}
	})
}
