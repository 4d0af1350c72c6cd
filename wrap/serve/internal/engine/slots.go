package engine

import (
	"reflect"
	"slices"
	"sync"
)

// Slots are the places in which inferences run, of all engines that share them: a place is a processor,
// say, and an inference takes as many as its engine's Config.Width. An engine that has a batch to run
// stands in line once, however long its queue, so that a busy model takes turns with the others. While
// a wide one waits for places, as many narrow ones pass it as there are places, so that these are used,
// and no more, so that it gets them.
type Slots struct {
	mu   sync.Mutex
	free int
	line []*Engine
	// passed is how many places were given past the first in line.
	passed int
	// kept are the memory of batches that have been run, the latest last, for the next ones: no
	// more than two a place, whatever the number of engines.
	kept  []gathered
	count int
}

// NewSlots returns n places; it panics if n < 1.
func NewSlots(n int) *Slots {
	if n < 1 {
		panic("engine: fewer than one slot")
	}
	return &Slots{free: n, count: n}
}

// enter puts an engine in line, and gives it places if it is its turn.
func (s *Slots) enter(e *Engine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line = append(s.line, e)
	if e := s.turn(); e != nil {
		go s.work(e)
	}
}

// turn takes the engine whose turn it is out of the line and gives it its places, or returns nil. s.mu is
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

// unused returns how many inferences of a width there are free places for.
func (s *Slots) unused(width int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.free / width
}

// work runs a batch in the places that the engine was given, and then those of engines whose turn comes.
func (s *Slots) work(e *Engine) {
	for e != nil {
		if b := e.form(); b != nil {
			e.run(b)
		}
		e = s.next(e.config.Width)
	}
}

// next frees places and returns the engine whose turn it is, or nil. Where they do for several, the others
// begin as well.
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

// gathered is the memory of the inputs of a batch: slices of the inputs' types.
type gathered []reflect.Value

// fits reports whether g has room for a batch in which the inputs have so many elements.
func (g gathered) fits(types []reflect.Type, elements []int) bool {
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

// take returns memory for a batch, kept or new.
func (s *Slots) take(types []reflect.Type, elements []int) gathered {
	s.mu.Lock()
	for i := len(s.kept) - 1; i >= 0; i-- {
		if g := s.kept[i]; g.fits(types, elements) {
			s.kept = slices.Delete(s.kept, i, i+1)
			s.mu.Unlock()
			return g
		}
	}
	s.mu.Unlock()
	g := make(gathered, len(types))
	for i := range g {
		g[i] = reflect.MakeSlice(types[i], elements[i], elements[i])
	}
	return g
}

// keep takes back memory that is not read any more.
func (s *Slots) keep(g gathered) {
	for _, v := range g {
		if v.Type().Elem().Kind() == reflect.String {
			v.Clear() // or it would hold on to what was sent
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.kept) == 2*s.count {
		s.kept = slices.Delete(s.kept, 0, 1)
	}
	s.kept = append(s.kept, g)
}
