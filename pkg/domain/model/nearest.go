package model

// Nearest is the name that somebody may have meant who wrote another one: of the candidates the one with the fewest
// letters added, left out, changed or exchanged with their neighbour; of several, the first. Empty when none is near: with more
// than a third of the letters wrong, and more than one.
func Nearest(written string, candidates []string) string {
	best, least := "", max(1, len(written)/3)+1
	for _, c := range candidates {
		if d := distance(written, c, least); d < least && d > 0 {
			best, least = c, d
		}
	}
	return best
}

// distance counts the changes that make b of a, as far as they are fewer than limit. (Optimal string alignment.)
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	before, row, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row, next = row, next, before
	}
	return min(row[len(b)], limit)
}
