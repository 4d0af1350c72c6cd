package rows

// Stats counts a pass over a source so far, up to the end of the last batch handed over.
type Stats struct {
	Examples int   // handed over
	Bad      []Bad // skipped
	Cached   bool  // the examples came from a store
}

// Messages returns the message of each record that was skipped.
func (s *Stats) Messages() []string {
	list := make([]string, len(s.Bad))
	for i, b := range s.Bad {
		list[i] = b.Message
	}
	return list
}

// Bad is a record that could not be read.
type Bad struct {
	Position int // in the source
	Message  string
}
