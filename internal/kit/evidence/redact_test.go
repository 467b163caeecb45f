package evidence

import "testing"

// A secret is masked in each form in which a JSON writer may put it: some escape
// what HTML could misread, some do not.
func TestMaskInEveryForm(t *testing.T) {
	const key = `a"b&c<d"`
	for _, text := range []string{key, `a\"b&c<d\"`, `a\"b\u0026c\u003cd\"`} {
		if got := string(mask([]byte("<"+text+">"), []string{key})); len(got) != len(text)+2 || got[1] != '*' || got[len(got)-2] != '*' {
			t.Errorf("%s: %s", text, got)
		}
	}
}
