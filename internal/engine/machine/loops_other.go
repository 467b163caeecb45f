//go:build !amd64

package machine

const (
	dotRounds = 2500
	readHow   = "plain Go"
	dotHow    = "plain Go"
	dotOps    = dotOpsGeneric
)

func read(b []byte) { readGeneric(b) }

func dot(rounds int) { dotGeneric(rounds) }
