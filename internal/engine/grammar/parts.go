package grammar

import (
	"encoding/json"
	"strings"
)

// Blank is the white space that may stand between the parts of a JSON value.
func Blank() *Expr { return blank }

// Behind is what follows prefix in an expression that begins with it: a text,
// or a sequence or choice of such. What begins otherwise is left out.
func Behind(prefix string, e *Expr) *Expr {
	switch {
	case prefix == "":
		return e
	case e.kind == kindText && strings.HasPrefix(e.text, prefix):
		return Lit(e.text[len(prefix):])
	case e.kind == kindSeq && len(e.list) > 0:
		return Seq(append([]*Expr{Behind(prefix, e.list[0])}, e.list[1:]...)...)
	case e.kind == kindAlt:
		options := make([]*Expr, len(e.list))
		for i, o := range e.list {
			options[i] = Behind(prefix, o)
		}
		return Alt(options...)
	}
	return Alt()
}

// Properties are the names of an object's properties by its schema, in order,
// and those that are required.
func Properties(schema json.RawMessage) (names, required []string, ok bool) {
	list, ok := members(schema)
	if !ok {
		return nil, nil, false
	}
	props, ok := members(find(list, "properties"))
	if !ok {
		return nil, nil, false
	}
	for _, p := range props {
		names = append(names, p.name)
	}
	_ = json.Unmarshal(find(list, "required"), &required) // what is no list requires nothing
	return names, required, true
}

// Property is the values of one property. isText says that these are strings
// about which nothing else is said; those of an enum come without quotes.
func Property(schema json.RawMessage, name string) (e *Expr, isText bool, err error) {
	c := newCompiler(schema)
	p, err := c.resolve("#/properties/" + strings.NewReplacer("%", "%25", "~", "~0", "/", "~1").Replace(name))
	if err != nil {
		return nil, false, err
	}
	s := c.gather([]part{p})
	isText = s.types == typeString && !s.hasEnum && len(s.choices) == 0
	e = c.value([]part{p})
	if s.hasEnum && s.kinds() == typeString { // as they are, without quotes
		e = Alt()
		for _, v := range s.enum {
			var text string
			_ = json.Unmarshal(v, &text) // a string
			e.list = append(e.list, Lit(text))
		}
	}
	if len(c.problems) > 0 {
		return nil, false, &SchemaError{c.problems}
	}
	return e, isText, nil
}
