//go:build linux

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// An outcome is the result of a request.
type outcome string

const (
	answered  outcome = "answered"  // correctly
	shed      outcome = "shed"      // refused for load
	absent    outcome = "absent"    // refused because the model was unloaded
	rejected  outcome = "rejected"  // invalid, and refused
	abandoned outcome = "abandoned" // by the client
	cut       outcome = "cut off"   // for slowness
	reloaded  outcome = "reloaded"
	refused   outcome = "without a connection"
)

// A tally counts outcomes by kind of request, and records failures.
type tally struct {
	mu       sync.Mutex
	of       map[string]map[outcome]int
	examples int
	slowest  time.Duration
	failures []string
}

func (t *tally) add(kind string, o outcome, examples int, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil {
		t.of = map[string]map[outcome]int{}
	}
	if t.of[kind] == nil {
		t.of[kind] = map[outcome]int{}
	}
	t.of[kind][o]++
	if o == answered {
		t.examples += examples
		t.slowest = max(t.slowest, took)
	}
}

func (t *tally) fail(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	what := fmt.Sprintf(format, args...)
	t.failures = append(t.failures, what)
	if len(t.failures) <= 50 {
		fmt.Println("FAIL", time.Now().Format(time.TimeOnly), what)
	}
}

func (t *tally) wrong() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.failures)
}

// count returns the number of requests with an outcome.
func (t *tally) count(o outcome) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, by := range t.of {
		n += by[o]
	}
	return n
}

// line summarises the outcomes in one line.
func (t *tally) line() string {
	var all []string
	for _, o := range []outcome{answered, shed, absent, rejected, abandoned, cut, refused, reloaded} {
		if n := t.count(o); n > 0 {
			all = append(all, fmt.Sprintf("%d %s", n, o))
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return fmt.Sprintf("%s; slowest %.2f s; %d failures", strings.Join(all, ", "), t.slowest.Seconds(), len(t.failures))
}

// table lists the outcomes by kind.
func (t *tally) table() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(t.of)) {
		fmt.Fprintf(&b, "%-28s", kind)
		for _, o := range slices.Sorted(maps.Keys(t.of[kind])) {
			fmt.Fprintf(&b, "  %d %s", t.of[kind][o], o)
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "%d examples, every answer held against its bundle's predictions\n", t.examples)
	return b.String()
}
