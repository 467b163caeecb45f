package tokenizer

import "unicode/utf8"

// The byte alphabet of GPT-2 writes each byte as a code point that shows: those
// that are visible in Latin-1 as themselves, the others, in order, from U+0100.
var (
	byteRune [256]rune
	runeByte [256 + 68]int16 // none where a code point is outside the alphabet
)

func init() {
	for r := range runeByte {
		runeByte[r] = int16(none)
	}
	hidden := rune(256)
	for c := range byteRune {
		r := rune(c)
		if visible := r > ' ' && r < 0x7F || r > 0xA0 && r != 0xAD; !visible {
			r = hidden
			hidden++
		}
		byteRune[c] = r
		runeByte[r] = int16(c)
	}
}

// appendBytes appends the bytes that a token's text spells. Text outside the
// alphabet stands for itself.
func appendBytes(dst []byte, text string) []byte {
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRuneInString(text[at:])
		if int(r) < len(runeByte) && runeByte[r] >= 0 {
			dst = append(dst, byte(runeByte[r]))
		} else {
			dst = append(dst, text[at:at+size]...)
		}
		at += size
	}
	return dst
}
