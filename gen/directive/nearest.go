package directive

import "strings"

// synonyms are what other systems call the keys.
var synonyms = map[string]string{
	"topic": "stream", "subject": "stream",
	"queue":          "list",
	"consumer-group": "group", "groupname": "group",
	"min-idle": "claim", "idle": "claim", "autoclaim": "claim",
	"delayed": "delay-set", "delay": "delay-set", "ttl": "delay-ttl",
	"from": "start", "offset": "start", "id": "start",
	"encoding": "codec", "format": "codec", "deadline": "timeout",
}

// nearestKey returns the key that name was probably meant as, "" where nothing is near.
func nearestKey(name string) string {
	var names []string
	for _, k := range keys {
		names = append(names, k.name)
	}
	if near := nearest(name, names); near != "" {
		return near
	}
	return synonyms[normal(name)]
}

// normal undoes what habits from elsewhere do to a word.
func normal(word string) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimLeft(plainly(word), "-"), "_", "-"))
}

// nearest returns the known word that takes the fewest edits to reach from word, and "" where even that one takes more
// than two, or as many as a short word has letters to tell it apart by.
func nearest(word string, known []string) string {
	word = normal(word)
	if len(word) > 64 {
		return "" // no key is that long, and the cost grows with the length
	}
	best, bestDistance := "", 3
	for _, k := range known {
		if d := distance(word, strings.ReplaceAll(k, "-", "")); strings.ReplaceAll(word, "-", "") == strings.ReplaceAll(k, "-", "") {
			return k
		} else if d = min(d, distance(word, k)); d < bestDistance && d*2 < len(k) {
			best, bestDistance = k, d
		}
	}
	return best
}

// distance is the number of single letters to insert, delete, replace or swap with their neighbour.
func distance(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
