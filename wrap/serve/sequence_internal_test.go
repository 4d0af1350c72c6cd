package serve

import (
	"fmt"
	"testing"
	"time"
)

// Beyond the most sequences one that begins is refused, until another has ended or was idle for long.
func TestOpenSequencesAreCounted(t *testing.T) {
	t.Parallel()
	var s sequences
	begin := func(id int) (*sequence, error) { return s.get(chunk{id: fmt.Sprint(id), start: true}, 2) }
	for _, id := range []int{1, 2, 2} {
		if _, err := begin(id); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := begin(3); err == nil || err.Error() != "2 sequences are open: end those that are over with sequence_end" {
		t.Fatalf("a third sequence: %v", err)
	}
	q, err := begin(1)
	if err != nil {
		t.Fatal(err)
	}
	q.used = time.Now().Add(-sequenceIdle)
	if _, err := begin(3); err != nil || !q.over {
		t.Errorf("after one was idle: %v, over %t", err, q.over)
	}
}
