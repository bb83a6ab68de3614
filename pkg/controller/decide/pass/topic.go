package pass

// Topic tells which of a stage's results have changed.
type Topic[K comparable] struct {
	stage     Stage
	followers []follower[K]
}

// follower is who hears of a topic. The stage is kept for the picture of who hears whom, which a test of package decide draws.
type follower[K comparable] struct {
	stage Stage
	do    func(K)
}

// NewTopic makes a topic of a stage's results.
func NewTopic[K comparable](stage Stage) *Topic[K] { return &Topic[K]{stage: stage} }

// Follow calls do for every changed key. The following stage must not run before the topic's, or it would hear too late.
func (t *Topic[K]) Follow(stage Stage, do func(K)) {
	if stage.place < t.stage.place {
		t.stage.order.wrong("stage %s follows results of %s, which runs later", stage.name(), t.stage.name())
	}
	t.followers = append(t.followers, follower[K]{stage, do})
}

// Changed says that the result of a key is another one.
func (t *Topic[K]) Changed(key K) {
	for _, f := range t.followers {
		f.do(key)
	}
}

// Reads records who has looked at which results, and marks them when these change.
type Reads[Q, K comparable] struct {
	readers Index[K, Q]
	read    Index[Q, K]
}

// NewReads makes the records of those who are in queue and look at results of topic.
func NewReads[Q, K comparable](queue *Queue[Q], topic *Topic[K]) *Reads[Q, K] {
	r := &Reads[Q, K]{readers: Index[K, Q]{}, read: Index[Q, K]{}}
	topic.Follow(queue.stage, func(key K) { queue.MarkAll(r.readers[key]) })
	return r
}

// Note records that reader has looked at the result of key.
func (r *Reads[Q, K]) Note(reader Q, key K) {
	if _, noted := r.read[reader][key]; !noted {
		r.readers.Add(key, reader)
		r.read.Add(reader, key)
	}
}

// Forget drops what reader has looked at: before it looks anew, and when it goes.
func (r *Reads[Q, K]) Forget(reader Q) {
	for key := range r.read[reader] {
		r.readers.Drop(key, reader)
	}
	delete(r.read, reader)
}

// Readers are those who have looked at the result of key. The caller does not change them.
func (r *Reads[Q, K]) Readers(key K) map[Q]struct{} { return r.readers[key] }

// Of is what reader has looked at. The caller does not change it.
func (r *Reads[Q, K]) Of(reader Q) map[K]struct{} { return r.read[reader] }
