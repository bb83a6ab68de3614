package policies

// Pairs counts the pairs of a selector and a pod that the stage holds, and Selectors the selectors.
func (s *Stage) Pairs() (n int) {
	for _, m := range s.members {
		n += len(m.selectors)
	}
	return n
}

func (s *Stage) Selectors() int { return len(s.selectors) }

// Watched counts the Networks where policies need pods.
func (s *Stage) Watched() int { return len(s.watched) }
