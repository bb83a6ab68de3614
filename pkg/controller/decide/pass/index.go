package pass

import (
	"cmp"
	"slices"
)

// Sorted are the keys of a map, in their order. Most maps of a pass are empty, which costs nothing here.
func Sorted[K cmp.Ordered, V any](m map[K]V) []K {
	if len(m) == 0 {
		return nil
	}
	keys := make([]K, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// Index finds values by a key that several of them have.
type Index[K, V comparable] map[K]map[V]struct{}

// Add enters a value at a key.
func (x Index[K, V]) Add(key K, value V) {
	if x[key] == nil {
		x[key] = map[V]struct{}{}
	}
	x[key][value] = struct{}{}
}

// Drop takes a value out at a key. A key without values is forgotten.
func (x Index[K, V]) Drop(key K, value V) {
	if delete(x[key], value); len(x[key]) == 0 {
		delete(x, key)
	}
}
