package publish

import (
	"net"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Machine is what is known of the publisher's machine and user: all of it is
// redacted wherever it stands.
type Machine struct {
	Homes, Users, Hosts, Keys, Addresses, Serials []string
}

// ReadMachine asks the running system. environ is the environment: the values of
// variables that are named like a key are secrets.
func ReadMachine(environ []string) Machine {
	var m Machine
	if h, err := os.Hostname(); err == nil {
		m.Hosts = append(m.Hosts, h)
		if short, _, ok := strings.Cut(h, "."); ok {
			m.Hosts = append(m.Hosts, short)
		}
	}
	if u, err := user.Current(); err == nil {
		m.Users, m.Homes = append(m.Users, u.Username), append(m.Homes, u.HomeDir)
	}
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		switch {
		case value == "":
		case name == "HOME" || name == "USERPROFILE":
			m.Homes = append(m.Homes, value)
		case name == "USER" || name == "LOGNAME" || name == "USERNAME" || name == "SUDO_USER":
			m.Users = append(m.Users, value)
		case name == "HOSTNAME" || name == "COMPUTERNAME":
			m.Hosts = append(m.Hosts, value)
		case secretName.MatchString(name) && !strings.ContainsAny(value[:1], "/.~") && !isSetting(value): // a path to a key is none
			m.Keys = append(m.Keys, value)
		}
	}
	if list, err := net.Interfaces(); err == nil {
		for _, i := range list {
			if mac := i.HardwareAddr.String(); len(mac) == 17 && mac != "00:00:00:00:00:00" {
				m.Addresses = append(m.Addresses, mac)
			}
			addrs, _ := i.Addrs()
			for _, a := range addrs {
				if p, err := netip.ParsePrefix(a.String()); err == nil && telling(p.Addr()) {
					m.Addresses = append(m.Addresses, p.Addr().WithZone("").String())
				}
			}
		}
	}
	for _, pattern := range []string{
		"/etc/machine-id", "/sys/class/dmi/id/*_serial", "/sys/class/dmi/id/product_uuid", "/sys/block/*/device/serial", "/sys/block/*/serial",
	} {
		paths, _ := filepath.Glob(pattern)
		for _, p := range paths {
			if b, err := os.ReadFile(p); err == nil {
				m.Serials = append(m.Serials, strings.TrimSpace(string(b)))
			}
		}
	}
	return m
}

// commonNames are users and hosts by the thousand, and words of everyday: a text
// that has one tells nothing of its publisher.
var commonNames = []string{
	"root", "user", "admin", "ubuntu", "debian", "fedora", "runner", "localhost", "host", "home", "test", "nobody", "app", "assay",
	"docker", "linux", "server", "client", "builder", "build", "jenkins", "vagrant", "pi", "ec2-user", "node", "node1", "desktop", "laptop",
	"workstation", "none", "model", "engine", "the", "and", "guest", "default", "system", "localdomain",
}

// isSetting says whether the value of a variable that is named like a key only says
// how keys are used: such a word stands everywhere.
func isSetting(value string) bool {
	switch strings.ToLower(value) {
	case "true", "false", "none", "null", "force", "auto", "always", "never", "prefer", "required", "enabled", "disabled":
		return true
	}
	return len(value) < 8 && strings.Trim(value, "0123456789") == ""
}

// secretName are variables, flags and fields whose value is a key.
var secretName = regexp.MustCompile(`(?i)(api[_-]?key|apikey|access[_-]?key|secret|passw(or)?d|token$|[_-]token|private[_-]?key|credential|^pat$|auth[_-]?key)`)

// notSecret are names that secretName takes for more than they are.
var notSecret = regexp.MustCompile(`(?i)(max|num|min|n)[_-]?(new[_-]?)?tokens?$|tokens$|chat[_-]?template|tokenizer`)

// patterns are what identifies by its form, wherever it came from.
var patterns = []struct {
	kind string
	re   *regexp.Regexp
	ok   func(string) bool
}{
	{KindHome, regexp.MustCompile(`/(?:home|Users)/[A-Za-z0-9._-]+`), nil},
	{KindHome, regexp.MustCompile(`[A-Za-z]:\\+Users\\+[A-Za-z0-9._-]+`), nil},
	{KindKey, regexp.MustCompile(`\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{16,}`), nil},
	{KindKey, regexp.MustCompile(`\bhf_[A-Za-z0-9]{16,}|\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_[A-Za-z0-9_]{20,}|\bglpat-[A-Za-z0-9_-]{16,}|\bAKIA[A-Z0-9]{16}|\bAIza[A-Za-z0-9_-]{30,}|\bnvapi-[A-Za-z0-9_-]{20,}|\bxox[abprs]-[A-Za-z0-9-]{10,}|\bgsk_[A-Za-z0-9]{20,}`), nil},
	{KindKey, regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}`), nil},
	{KindKey, regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----[A-Za-z0-9+/=\\\s]+`), nil},
	{KindMail, regexp.MustCompile(`\b[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}\b`), nil},
	{KindAddress, regexp.MustCompile(`\b(?:[0-9]{1,3}\.){3}[0-9]{1,3}\b`), isTellingAddress},
	{KindAddress, regexp.MustCompile(`(?i)\b[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){2,7}[0-9a-f]\b`), isTellingAddress},
	{KindAddress, regexp.MustCompile(`(?i)\b[0-9a-f]{2}(?:[:-][0-9a-f]{2}){5}\b`), nil},
	{KindSerial, regexp.MustCompile(`\b(?:GPU|MIG)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`), nil},
}

// keyed are values by the name that stands before them: the value is the last
// group.
var keyed = []struct {
	kind string
	re   *regexp.Regexp
}{
	{KindKey, regexp.MustCompile(`(?i)\bbearer\s+([A-Za-z0-9._~+/=-]{6,})`)},
	{KindKey, regexp.MustCompile(`(?i)(?:api[_-]?key|access[_-]?key|secret|password|passwd|auth[_-]?token|access[_-]?token|hf[_-]?token)["']?\s{0,2}[=:]\s{0,2}["']?([^\s"'&,;\\*\[\]{}()]{6,})`)},
	{KindKey, regexp.MustCompile(`(?i)--?(?:api[_-]?key|hf[_-]?token|token|password|secret)[= ]([^\s"'&,;\\*\[\]{}()]{4,})`)},
	{KindKey, regexp.MustCompile(`[a-z][a-z0-9+.-]{1,9}://[^\s/@:"']*:([^\s/@"'*]{3,})@`)},
	{KindSerial, regexp.MustCompile(`(?i)\bserial(?:[ _-]?(?:number|no))?["']?\s{0,2}[:=]\s{0,2}["']?([A-Za-z0-9][A-Za-z0-9-]{5,})`)},
}

// isTellingAddress says whether a text is an address that says where a machine is.
func isTellingAddress(s string) bool {
	a, err := netip.ParseAddr(s)
	return err == nil && telling(a)
}

// telling leaves out addresses that every machine has.
func telling(a netip.Addr) bool {
	return !a.IsLoopback() && !a.IsUnspecified() && !a.IsMulticast() && a != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// secretFlag says whether a flag's value is a key.
func secretFlag(name string) bool {
	return secretName.MatchString(name) && !notSecret.MatchString(name) || strings.TrimLeft(name, "-") == "token"
}

// finder collects what identifies.
type finder struct {
	found map[string]string // value to its kind
	skip  []string          // values that are kept, or too common to be searched for
}

func newFinder(m Machine, keep []string) *finder {
	f := &finder{found: map[string]string{}, skip: keep}
	add := func(kind string, values []string) {
		for _, v := range values {
			f.add(kind, v)
		}
	}
	add(KindKey, m.Keys)
	add(KindHome, m.Homes)
	add(KindSerial, m.Serials)
	add(KindAddress, m.Addresses)
	for _, list := range []struct {
		kind   string
		values []string
	}{{KindUser, m.Users}, {KindHost, m.Hosts}} {
		for _, v := range list.values {
			if len(v) > 2 && !slices.Contains(commonNames, strings.ToLower(v)) {
				f.add(list.kind, v)
			}
		}
	}
	return f
}

func (f *finder) add(kind, value string) {
	value = strings.TrimRight(strings.TrimSpace(value), "/.")
	if value == "" || slices.Contains(f.skip, value) || strings.Trim(value, "0.-: ") == "" || f.found[value] != "" {
		return
	}
	if kind == KindKey && strings.Trim(value, "*") == "" || strings.Contains(value, "redacted") {
		return // masked when the evidence was written
	}
	f.found[value] = kind
}

// text looks through a text for what identifies by its form.
func (f *finder) text(text []byte) {
	for _, v := range views(text) {
		for _, p := range patterns {
			for _, m := range p.re.FindAll(v.text, -1) {
				if p.ok == nil || p.ok(string(m)) {
					f.add(p.kind, string(m))
				}
			}
		}
		for _, p := range keyed {
			for _, m := range p.re.FindAllSubmatch(v.text, -1) {
				f.add(p.kind, string(m[len(m)-1]))
			}
		}
	}
}

// argv takes the values of flags that are named like a key.
func (f *finder) argv(args []string) {
	for i, a := range args {
		name, value, ok := strings.Cut(a, "=")
		if !strings.HasPrefix(name, "-") || !secretFlag(name) {
			continue
		}
		if !ok && i+1 < len(args) {
			value = args[i+1]
		}
		if len(value) >= shortest && !strings.HasPrefix(value, "-") {
			f.add(KindKey, value)
		}
	}
}

// env takes the values of variables that are named like a key.
func (f *finder) env(vars map[string]string) {
	for name, value := range vars {
		if secretFlag(name) && len(value) >= shortest {
			f.add(KindKey, value)
		}
	}
}

// secrets are what was found, the longest first: what holds another is redacted
// as one.
func (f *finder) secrets() []*secret {
	var out []*secret
	for value, kind := range f.found {
		if s := newSecret(kind, value); s != nil {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b *secret) int {
		if n := len(b.value) - len(a.value); n != 0 {
			return n
		}
		return strings.Compare(a.value, b.value)
	})
	return out
}
