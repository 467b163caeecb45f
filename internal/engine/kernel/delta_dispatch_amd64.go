package kernel

// deltaColumns is how many of the columns left are taken at once: some sixteens.
func deltaColumns(left int) int {
	most := 4 * DeltaColumns
	if level == AVX2 {
		most = 2 * DeltaColumns // it has half the registers
	}
	if left >= most {
		return most
	}
	return min(left, DeltaColumns)
}

func deltaStep(state, k, q, v, out, wrong []float32, with *[3]float32) {
	m, n := &state[0], len(k)
	switch c := len(v) / DeltaColumns; {
	case level == AVX512 && c == 4:
		delta4AVX512(m, &k[0], &q[0], &v[0], &out[0], &wrong[0], &with[0], n)
	case level == AVX512 && c == 1:
		delta1AVX512(m, &k[0], &q[0], &v[0], &out[0], &wrong[0], &with[0], n)
	case level == AVX2 && c == 2:
		delta2AVX2(m, &k[0], &q[0], &v[0], &out[0], &wrong[0], &with[0], n)
	case level == AVX2 && c == 1:
		delta1AVX2(m, &k[0], &q[0], &v[0], &out[0], &wrong[0], &with[0], n)
	default:
		deltaStepGeneric(state, k, q, v, out, wrong, with)
	}
}

func deltaRead(state, k, q, v, out, wrong []float32, with *[3]float32) {
	m, n := &state[0], len(k)
	switch c := len(v) / DeltaColumns; {
	case level == AVX512 && c == 4:
		deltaRead4AVX512(m, &k[0], &q[0], &v[0], &out[0], &wrong[0], &with[0], n)
	case level == AVX512 && c == 1:
		deltaRead1AVX512(m, &k[0], &q[0], &v[0], &out[0], &wrong[0], &with[0], n)
	case level == AVX2 && c == 2:
		deltaRead2AVX2(m, &k[0], &q[0], &v[0], &out[0], &wrong[0], &with[0], n)
	case level == AVX2 && c == 1:
		deltaRead1AVX2(m, &k[0], &q[0], &v[0], &out[0], &wrong[0], &with[0], n)
	default:
		deltaReadGeneric(state, k, q, v, out, wrong, with)
	}
}

func deltaWrite(state, k, wrong []float32, decay float32) {
	m, n := &state[0], len(k)
	switch c := len(wrong) / DeltaColumns; {
	case level == AVX512 && c == 4:
		deltaWrite4AVX512(m, &k[0], &wrong[0], decay, n)
	case level == AVX512 && c == 1:
		deltaWrite1AVX512(m, &k[0], &wrong[0], decay, n)
	case level == AVX2 && c == 2:
		deltaWrite2AVX2(m, &k[0], &wrong[0], decay, n)
	case level == AVX2 && c == 1:
		deltaWrite1AVX2(m, &k[0], &wrong[0], decay, n)
	default:
		deltaWriteGeneric(state, k, wrong, decay)
	}
}

func sigmoidMul(x, gate []float32) {
	n := sixteens(len(x))
	switch {
	case n == 0:
	case level == AVX512:
		sigmoidMulAVX512(&x[0], &gate[0], n)
	default:
		sigmoidMulAVX2(&x[0], &gate[0], n)
	}
	sigmoidMulGeneric(x[16*n:], gate[16*n:])
}

func silu(x []float32) {
	n := sixteens(len(x))
	switch {
	case n == 0:
	case level == AVX512:
		siluAVX512(&x[0], n)
	default:
		siluAVX2(&x[0], n)
	}
	siluGeneric(x[16*n:])
}

func multiply(x, y []float32) {
	n := sixteens(len(x))
	switch {
	case n == 0:
	case level == AVX512:
		multiplyAVX512(&x[0], &y[0], n)
	default:
		multiplyAVX2(&x[0], &y[0], n)
	}
	multiplyGeneric(x[16*n:], y[16*n:])
}

func mulAdd(out, x, w []float32) {
	n := sixteens(len(out))
	switch {
	case n == 0:
	case level == AVX512:
		mulAddAVX512(&out[0], &x[0], &w[0], n)
	default:
		mulAddAVX2(&out[0], &x[0], &w[0], n)
	}
	mulAddGeneric(out[16*n:], x[16*n:], w[16*n:])
}

func scale(x []float32, by float32) {
	n := sixteens(len(x))
	switch {
	case n == 0:
	case level == AVX512:
		scaleAVX512(&x[0], by, n)
	default:
		scaleAVX2(&x[0], by, n)
	}
	scaleGeneric(x[16*n:], by)
}
