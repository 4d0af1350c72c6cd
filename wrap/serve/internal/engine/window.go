package engine

import "time"

// batchWindow decides how long, and for how many requests, an engine delays a batch that it could run: see the
// package documentation.
type batchWindow struct {
	requests int // expected
	layout   uint64
	until    time.Time
	held     bool // a request has waited for others
	skip     int  // waits still to skip
	penalty  int  // waits that the last one in vain made the engine skip

	timer *time.Timer
	armed bool
}

const maxPenalty = 31

// expect opens the window when a batch ends: as many requests may come together as it answered, and are queued.
func (g *batchWindow) expect(answered, queued int, layout uint64, now time.Time, wait time.Duration) {
	if now.Before(g.until) && layout == g.layout { // open since a batch in another slot
		g.requests += answered // until stays: requests that wait already do not wait longer
		return
	}
	requests := answered + queued
	g.requests, g.layout, g.until = requests, layout, now
	if requests < 2 || wait == 0 {
		return
	}
	if g.skip > 0 {
		g.skip--
		return
	}
	g.until = now.Add(wait)
}

// wait reports whether so many requests wait for more, and has overdue called when the window closes.
func (g *batchWindow) wait(requests int, now time.Time, overdue func()) bool {
	left := g.until.Sub(now)
	if left > 0 && requests < g.requests {
		g.held = true
		if !g.armed {
			g.armed = true
			if g.timer == nil {
				g.timer = time.AfterFunc(left, overdue)
			} else {
				g.timer.Reset(left)
			}
		}
		return true
	}
	if g.held && left > 0 {
		g.penalty /= 2
	} else if g.held {
		g.penalty = min(2*g.penalty+1, maxPenalty)
		g.skip = g.penalty
	}
	g.stop()
	return false
}

// stop closes the window, because a batch begins or the queue is empty.
func (g *batchWindow) stop() {
	g.until, g.held = time.Time{}, false
	if g.armed {
		g.armed = false
		g.timer.Stop()
	}
}

// speed estimates how fast examples leave the queue.
type speed struct {
	pace  time.Duration // per example
	known bool
	// The batch that began last.
	last time.Time
	rows int
	full bool // it left requests in the queue
}

// began records the beginning of a batch, and whether requests wait behind it. While some do, the time from
// one beginning to the next is the time of the first batch's examples, whatever other engines and slots do.
func (s *speed) began(rows int, full bool, now time.Time) {
	if s.full && s.rows > 0 {
		s.learn(now.Sub(s.last) / time.Duration(s.rows))
	}
	s.last, s.rows, s.full = now, rows, full
}

// ended records how long a batch took, which is all that is known as long as the engine was never busy.
func (s *speed) ended(rows int, took time.Duration) {
	if !s.known {
		s.learn(took / time.Duration(rows))
	}
}

func (s *speed) learn(pace time.Duration) {
	if s.known {
		pace = s.pace + (pace-s.pace)/4 // forgets half in three batches
	}
	s.pace, s.known = pace, true
}

// left estimates how long so many examples take to begin.
func (s *speed) left(examples int) time.Duration {
	if !s.known {
		return time.Second
	}
	return max(s.pace*time.Duration(examples), time.Millisecond)
}
