package mcpserver

import "strings"

// nearest is the member that an unknown name most likely meant, "" when none is close.
func (s *schema) nearest(name string) string {
	plain := func(n string) string {
		return strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "").Replace(n))
	}
	if len(name) > 64 {
		return ""
	}
	best, least := "", 3
	for _, m := range s.Members {
		if d := distance(plain(name), plain(m.Name)); d < least && d*3 <= len(m.Name) {
			best, least = m.Name, d
		}
	}
	return best
}

// distance counts the insertions, deletions and replacements between two short words.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
