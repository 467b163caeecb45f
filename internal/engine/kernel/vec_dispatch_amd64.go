package kernel

// The functions of vec.go: whole vectors of 16 in assembly, what is left in Go.

// sixteens is how many vectors of 16 the level in use takes of n floats.
func sixteens(n int) int {
	if level == None {
		return 0
	}
	return n / 16
}

var toItself Route // token 0 to row 0

func dot(x, y []float32) (out float32) {
	n := len(x)
	if n == 0 || n%64 != 0 || len(y) < n || level == None {
		return dotGeneric(x, y)
	}
	w, v := asByte(&x[0]), asByte(&y[0])
	if level == AVX512 {
		f32t1(w, n/64, v, 0, &toItself, &out, 0)
	} else {
		f32t1AVX2(w, n/64, v, 0, &toItself, &out, 0)
	}
	return out
}

func scaled(out, x, gamma []float32, scale float32) {
	n := sixteens(len(x))
	switch {
	case n == 0:
	case level == AVX512:
		scaledAVX512(&out[0], &x[0], &gamma[0], scale, n)
	default:
		scaledAVX2(&out[0], &x[0], &gamma[0], scale, n)
	}
	scaledGeneric(out[16*n:], x[16*n:], gamma[16*n:], scale)
}

func siluMul(gate, up []float32) {
	n := sixteens(len(gate))
	switch {
	case n == 0:
	case level == AVX512:
		siluMulAVX512(&gate[0], &up[0], n)
	default:
		siluMulAVX2(&gate[0], &up[0], n)
	}
	siluMulGeneric(gate[16*n:], up[16*n:])
}

func geluMul(gate, up []float32) {
	n := sixteens(len(gate))
	switch {
	case n == 0:
	case level == AVX512:
		geluMulAVX512(&gate[0], &up[0], n)
	default:
		geluMulAVX2(&gate[0], &up[0], n)
	}
	geluMulGeneric(gate[16*n:], up[16*n:])
}

func clampedSwiGLU(gate, up []float32, limit float32) {
	n := sixteens(len(gate))
	switch {
	case n == 0:
	case level == AVX512:
		clampedSwiGLUAVX512(&gate[0], &up[0], limit, n)
	default:
		clampedSwiGLUAVX2(&gate[0], &up[0], limit, n)
	}
	clampedSwiGLUGeneric(gate[16*n:], up[16*n:], limit)
}

func axpy(out, x []float32, w float32) {
	n := sixteens(len(out))
	switch {
	case n == 0:
	case level == AVX512:
		axpyAVX512(&out[0], &x[0], w, n)
	default:
		axpyAVX2(&out[0], &x[0], w, n)
	}
	axpyGeneric(out[16*n:], x[16*n:], w)
}

func added(out, x []float32) {
	n := sixteens(len(out))
	switch {
	case n == 0:
	case level == AVX512:
		addedAVX512(&out[0], &x[0], n)
	default:
		addedAVX2(&out[0], &x[0], n)
	}
	addedGeneric(out[16*n:], x[16*n:])
}

func merge(out, x []float32, before, here float32) {
	n := sixteens(len(out))
	switch {
	case n == 0:
	case level == AVX512:
		mergeAVX512(&out[0], &x[0], before, here, n)
	default:
		mergeAVX2(&out[0], &x[0], before, here, n)
	}
	mergeGeneric(out[16*n:], x[16*n:], before, here)
}

func divide(out []float32, by float32) {
	n := sixteens(len(out))
	switch {
	case n == 0:
	case level == AVX512:
		divideAVX512(&out[0], by, n)
	default:
		divideAVX2(&out[0], by, n)
	}
	divideGeneric(out[16*n:], by)
}

func rope(x, y, cos, sin []float32) {
	n := sixteens(len(x))
	switch {
	case n == 0:
	case level == AVX512:
		ropeAVX512(&x[0], &y[0], &cos[0], &sin[0], n)
	default:
		ropeAVX2(&x[0], &y[0], &cos[0], &sin[0], n)
	}
	ropeGeneric(x[16*n:], y[16*n:], cos[16*n:], sin[16*n:])
}

func toHalf(to []uint16, x []float32) {
	n := sixteens(len(x))
	switch {
	case n == 0:
	case level == AVX512:
		toHalfAVX512(&to[0], &x[0], n)
	default:
		toHalfAVX2(&to[0], &x[0], n)
	}
	toHalfGeneric(to[16*n:], x[16*n:])
}

// fromHalf makes floats of half floats.
func fromHalf(to []float32, x []uint16) {
	n := sixteens(len(x))
	switch {
	case n == 0:
	case level == AVX512:
		fromHalfAVX512(&to[0], &x[0], n)
	default:
		fromHalfAVX2(&to[0], &x[0], n)
	}
	fromHalfGeneric(to[16*n:], x[16*n:])
}

// softmaxPage takes whole vectors of 16.
func softmaxPage(w []float32) (top, sum float32) {
	switch level {
	case AVX512:
		softmaxPageAVX512(&w[0], len(w)/16, &top, &sum)
	case AVX2:
		softmaxPageAVX2(&w[0], len(w)/16, &top, &sum)
	default:
		return softmaxPageGeneric(w)
	}
	return top, sum
}
