package pass

import "maps"

// Queue holds the keys that a stage is to look at, each once.
type Queue[K comparable] struct {
	stage Stage
	keys  map[K]struct{}
	// spare is what was taken last, to be used again unless it is large.
	spare map[K]struct{}
}

// maxSpare bounds the keys of a map that is used again: to empty a large one takes long, however few keys come later.
const maxSpare = 32

// NewQueue makes a queue of a stage.
func NewQueue[K comparable](stage Stage) *Queue[K] {
	return &Queue[K]{stage: stage, keys: map[K]struct{}{}}
}

// Mark queues key for the stage's next run.
func (q *Queue[K]) Mark(key K) {
	q.check()
	q.keys[key] = struct{}{}
}

// MarkAll queues all keys for the stage's next run.
func (q *Queue[K]) MarkAll(keys map[K]struct{}) {
	if len(keys) > 0 {
		q.check()
		maps.Copy(q.keys, keys)
	}
}

func (q *Queue[K]) check() {
	if q.stage.over() {
		q.stage.order.wrong("stage %s marks work of %s, which has run", q.stage.order.names[q.stage.order.now], q.stage.name())
	}
}

// Drop takes a key out of the queue.
func (q *Queue[K]) Drop(key K) { delete(q.keys, key) }

// Take empties the queue and returns its keys. The caller may use the returned map until the next Take.
func (q *Queue[K]) Take() map[K]struct{} {
	keys := q.keys
	if q.spare == nil {
		q.spare = map[K]struct{}{}
	}
	clear(q.spare)
	q.keys, q.spare = q.spare, nil
	if len(keys) <= maxSpare {
		q.spare = keys
	}
	return keys
}

// Marked are the keys in the queue, which stay there. The caller does not change them.
func (q *Queue[K]) Marked() map[K]struct{} { return q.keys }

// Len is the number of keys in the queue.
func (q *Queue[K]) Len() int { return len(q.keys) }
