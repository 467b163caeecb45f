package stats

import "sync"

// counted keeps distributions of ranks without ties. A comparison of many figures
// asks for the same few sizes over and over, and counting one takes milliseconds.
var counted = struct {
	sync.Mutex
	of map[[2]int][]float64 // not to be changed
}{of: map[[2]int][]float64{}}

// mostCounted bounds the memory of counted to some 5 MB.
const mostCounted = 256

// ofRankSums counts, by their sum, the ways to choose n of the ranks 1 to n+m.
func ofRankSums(n, m int) []float64 {
	return once([2]int{n, m}, func() []float64 { return subsets(plainRanks(n+m), n) })
}

// ofSignedRanks counts, by the sum of the positive ones, the ways to give each of
// the ranks 1 to n a sign.
func ofSignedRanks(n int) []float64 {
	return once([2]int{n, -1}, func() []float64 { return signs(plainRanks(n)) })
}

func once(key [2]int, count func() []float64) []float64 {
	counted.Lock()
	defer counted.Unlock()
	if ways, ok := counted.of[key]; ok {
		return ways
	}
	if len(counted.of) >= mostCounted {
		clear(counted.of)
	}
	ways := count()
	counted.of[key] = ways
	return ways
}
