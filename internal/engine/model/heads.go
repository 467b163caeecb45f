package model

// heads is the shape of ordinary attention. See attention for the fields.
type heads struct {
	n, kv  int // query and key-value heads
	dim    int // of queries and keys
	values int // dimensions of values; 0: dim
	gated  bool
}

// heads reads the shape that all layers have.
func (b *builder) heads() heads {
	h := heads{n: b.number("attention.head_count", 1, 1<<12)}
	h.kv = b.numberOr("attention.head_count_kv", h.n, 1, h.n)
	if h.n%h.kv != 0 {
		b.fail("attention.head_count_kv", "%d does not divide the %d query heads", h.kv, h.n)
		h.kv = h.n
	}
	h.dim = b.numberOr("attention.key_length", max(2, b.Width/h.n), 2, 1<<12)
	if v := b.numberOr("attention.value_length", h.dim, 2, 1<<12); v != h.dim {
		h.values = v
	}
	return h
}

// attention reads the matrices of a layer's attention, with biases where the file
// has some. They are three, or one with the rows of q, k and v.
func (b *builder) attention(prefix string, h heads) *attention {
	a := &attention{heads: h.n, kvHeads: h.kv, dim: h.dim, values: h.values, gated: h.gated}
	d := a.valueDim()
	q, k, v := h.n*h.dim, h.kv*h.dim, h.kv*d
	if h.gated {
		q *= 2
	}
	if all := prefix + "attn_qkv"; b.has(all + ".weight") {
		cut := b.cut(all+".weight", b.linear(all, q+k+v, b.Width), q, k, v)
		a.q, a.k, a.v = cut[0], cut[1], cut[2]
	} else {
		a.q = b.linear(prefix+"attn_q", q, b.Width)
		a.k = b.linear(prefix+"attn_k", k, b.Width)
		a.v = b.linear(prefix+"attn_v", v, b.Width)
	}
	a.out = b.linear(prefix+"attn_output", b.Width, h.n*d)
	return a
}
