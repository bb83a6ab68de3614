package pass

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
