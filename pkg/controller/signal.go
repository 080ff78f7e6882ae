package controller

// signal holds at most one wish to look again, so that any number of changes
// cost one look.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

func (s signal) raise() {
	select {
	case s <- struct{}{}:
	default:
	}
}
