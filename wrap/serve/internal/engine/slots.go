package engine

import (
	"reflect"
	"slices"
	"sync"
)

// Slots bound the inferences that run at a time, of all engines that share them: a slot is a processor, say,
// and an inference takes Config.Width of them. An engine with a batch to run stands in line once, however
// long its queue, so that a busy model takes turns with the others. While a wide one waits for enough free
// slots, narrow ones may pass it, but for no more than the number of slots in all, so that slots are
// used and the wide one gets its turn.
type Slots struct {
	mu   sync.Mutex
	free int
	line []*Engine
	// passed is the number of slots given past the first in line.
	passed int
	// kept holds buffers of finished batches for the next ones, the latest last: at most two per slot,
	// whatever the number of engines.
	kept  []buffers
	count int
}

// NewSlots returns n slots; it panics if n < 1.
func NewSlots(n int) *Slots {
	if n < 1 {
		panic("engine: fewer than one slot")
	}
	return &Slots{free: n, count: n}
}

// enter puts an engine in line, and gives it slots if it is its turn.
func (s *Slots) enter(e *Engine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line = append(s.line, e)
	if e := s.turn(); e != nil {
		go s.work(e)
	}
}

// turn takes the engine whose turn it is out of the line and gives it its slots, or returns nil. s.mu is
// held.
func (s *Slots) turn() *Engine {
	for i, e := range s.line {
		width := e.config.Width
		if i > 0 && s.passed+width > s.count {
			return nil
		}
		if width > s.free {
			continue
		}
		if s.passed += width; i == 0 {
			s.passed = 0
		}
		s.line = slices.Delete(s.line, i, i+1)
		s.free -= width
		return e
	}
	return nil
}

// unused returns how many inferences of a width fit into the free slots.
func (s *Slots) unused(width int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.free / width
}

// work runs a batch in the slots that the engine was given, and then those of engines whose turn comes.
func (s *Slots) work(e *Engine) {
	for e != nil {
		if b := e.form(); b != nil {
			e.run(b)
		}
		e = s.next(e.config.Width)
	}
}

// next frees slots and returns the engine whose turn it is, or nil. If there are slots for several engines, the
// others begin as well.
func (s *Slots) next(width int) *Engine {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free += width
	first := s.turn()
	if first == nil {
		return nil
	}
	for e := s.turn(); e != nil; e = s.turn() {
		go s.work(e)
	}
	return first
}

// buffers hold the inputs of a batch: slices of the inputs' types.
type buffers []reflect.Value

// fits reports whether g has room for a batch whose inputs have so many elements.
func (g buffers) fits(types []reflect.Type, elements []int) bool {
	if len(g) != len(types) {
		return false
	}
	for i, v := range g {
		if v.Type() != types[i] || v.Cap() < elements[i] {
			return false
		}
	}
	return true
}

// take returns buffers for a batch, kept or new.
func (s *Slots) take(types []reflect.Type, elements []int) buffers {
	s.mu.Lock()
	for i := len(s.kept) - 1; i >= 0; i-- {
		if g := s.kept[i]; g.fits(types, elements) {
			s.kept = slices.Delete(s.kept, i, i+1)
			s.mu.Unlock()
			return g
		}
	}
	s.mu.Unlock()
	g := make(buffers, len(types))
	for i := range g {
		g[i] = reflect.MakeSlice(types[i], elements[i], elements[i])
	}
	return g
}

// keep takes back buffers that nothing reads any more.
func (s *Slots) keep(g buffers) {
	for _, v := range g {
		if v.Type().Elem().Kind() == reflect.String {
			v.Clear() // else it would keep the strings alive
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.kept) == 2*s.count {
		s.kept = slices.Delete(s.kept, 0, 1)
	}
	s.kept = append(s.kept, g)
}
