package engine

import (
	"reflect"
	"slices"
	"sync"
)

// Slots are the places in which inferences run, of all engines that share them. An engine that has
// a batch to run stands in line once, however long its queue, so that a busy model takes turns with
// the others. Each place runs on a goroutine that ends when no engine stands in line.
type Slots struct {
	mu   sync.Mutex
	free int
	line []*Engine
	// kept are the memory of batches that have been run, the latest last, for the next ones: no
	// more than two a place, whatever the number of engines.
	kept  []gathered
	count int
}

// NewSlots returns n places; it panics if n < 1. Inferences that each use all cores run best in
// one: each of n makes batches of an n-th.
func NewSlots(n int) *Slots {
	if n < 1 {
		panic("engine: fewer than one slot")
	}
	return &Slots{free: n, count: n}
}

// enter puts an engine in line, or gives it a free place.
func (s *Slots) enter(e *Engine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free == 0 {
		s.line = append(s.line, e)
		return
	}
	s.free--
	go s.work(e)
}

// unused returns how many places are free.
func (s *Slots) unused() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.free
}

// work runs batches in one place until no engine stands in line.
func (s *Slots) work(e *Engine) {
	for e != nil {
		if b := e.form(); b != nil {
			e.run(b)
		}
		e = s.next()
	}
}

// next returns the engine whose turn it is, or nil and frees the place.
func (s *Slots) next() *Engine {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.line) == 0 {
		s.free++
		return nil
	}
	e := s.line[0]
	s.line = slices.Delete(s.line, 0, 1)
	return e
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
