package policytrial

import "errors"

// maxWork bounds what a comparison does: a field in a match that is compared with a packet's is 1 (trace.Database.Bound), and so
// is anything else that is done as often. It is some seconds of one processor.
const maxWork = 20_000_000

// lookEvery is after how much work it is looked whether anybody still wants the outcome.
const lookEvery = 4096

// errSpent: a comparison is at its bound.
var errSpent = errors.New("it is too much to compare")

// spender counts work, and fails when there was enough of it, or nobody wants the outcome any more.
func spender(gone func() error) func(work int) error {
	done, looked := 0, lookEvery
	return func(work int) error {
		if done += work; done > maxWork {
			return errSpent
		}
		if looked += work; looked < lookEvery {
			return nil
		}
		looked = 0
		return gone()
	}
}
