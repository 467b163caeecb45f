package tokenizer

import "unicode/utf8"

// normalize returns text as llama.cpp reads it: by the shape of UTF-8 sequences
// only. Overlong forms become the shortest form of their code point, surrogates
// stay as their three bytes, any other byte that doesn't start a complete
// sequence becomes U+FFFD.
func normalize(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	out := make([]byte, 0, len(text)+len(text)/2)
	for at := 0; at < len(text); {
		r, size := shaped(text[at:])
		at += size
		if r >= 0xD800 && r < 0xE000 {
			out = append(out, 0xE0|byte(r>>12), 0x80|byte(r>>6)&0xBF, 0x80|byte(r)&0xBF)
			continue
		}
		out = utf8.AppendRune(out, r)
	}
	return string(out)
}

// shaped decodes the sequence at the start of s, or gives U+FFFD for one byte.
func shaped(s string) (r rune, size int) {
	lead := s[0]
	switch {
	case lead < 0x80:
		return rune(lead), 1
	case lead >= 0xC0 && lead < 0xE0:
		r, size = rune(lead&0x1F), 2
	case lead >= 0xE0 && lead < 0xF0:
		r, size = rune(lead&0x0F), 3
	case lead >= 0xF0 && lead < 0xF8:
		r, size = rune(lead&0x07), 4
	default:
		return utf8.RuneError, 1
	}
	if len(s) < size {
		return utf8.RuneError, 1
	}
	for _, b := range []byte(s[1:size]) {
		if b&0xC0 != 0x80 {
			return utf8.RuneError, 1
		}
		r = r<<6 | rune(b&0x3F)
	}
	if r > utf8.MaxRune {
		return utf8.RuneError, 1
	}
	return r, size
}

// appendValid appends src to dst with U+FFFD for what is not UTF-8. A sequence
// that src ends in the middle of is returned as rest, unless final is set.
func appendValid(dst, src []byte, final bool) (out, rest []byte) {
	for len(src) > 0 {
		n, ok, cut := sequence(src)
		switch {
		case ok:
			dst = append(dst, src[:n]...)
		case cut && !final:
			return dst, src
		default:
			dst = utf8.AppendRune(dst, utf8.RuneError)
		}
		src = src[n:]
	}
	return dst, nil
}

// sequence looks at the start of b: how many bytes belong together, whether
// they are a code point (or a longer stretch of ASCII), and if not, whether b
// ends before that could be known.
func sequence(b []byte) (n int, ok, cut bool) {
	for n < len(b) && b[n] < utf8.RuneSelf {
		n++
	}
	if n > 0 {
		return n, true, false
	}
	// The second byte's range is narrower after some leads, so that overlong
	// forms, surrogates and what is past U+10FFFF end after the first byte.
	want, low, high := 0, byte(0x80), byte(0xBF)
	switch lead := b[0]; {
	case lead >= 0xC2 && lead <= 0xDF:
		want = 2
	case lead >= 0xE0 && lead <= 0xEF:
		want = 3
		switch lead {
		case 0xE0:
			low = 0xA0
		case 0xED:
			high = 0x9F
		}
	case lead >= 0xF0 && lead <= 0xF4:
		want = 4
		switch lead {
		case 0xF0:
			low = 0x90
		case 0xF4:
			high = 0x8F
		}
	default:
		return 1, false, false
	}
	for n = 1; n < want; n++ {
		if n == len(b) {
			return n, false, true
		}
		if b[n] < low || b[n] > high {
			return n, false, false
		}
		low, high = 0x80, 0xBF
	}
	return want, true, false
}
