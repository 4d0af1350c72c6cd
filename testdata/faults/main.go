//go:build unix

// Faults kills mfgs at random instants, restarts it, and compares the result with that of an undisturbed run. Then it
// corrupts the inputs of mfgs and checks that the error names them. From the root of the repository:
//
//	go run -C testdata ./faults            200 kills, some minutes
//	go run -C testdata ./faults -kills 10  some seconds
//
// After each kill every output must be whole, either old or new. A finished bundle or part is never lost. Some
// kills come right after a periodic checkpoint, some while one is written; in some runs the clock jumps. The
// exit status is 1 on any failure, and the seed printed reproduces it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	kills := flag.Int("kills", 200, "how often to kill, in all")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "of the random instants")
	examples := flag.Int("examples", 24_000, "how many to calibrate with: enough for a run to write some checkpoints")
	only := flag.String("only", "", "the scenarios whose names hold this")
	verbose := flag.Bool("v", false, "tell of every kill")
	flag.Parse()
	fmt.Printf("seed %d\n", *seed)
	h := &harness{rng: rand.New(rand.NewPCG(*seed, 1)), verbose: *verbose, examples: *examples}
	if err := h.run(*kills, *only); err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
	if h.failures > 0 {
		fmt.Printf("%d failures\n", h.failures)
		os.Exit(1)
	}
}

// A harness is one run of this program.
type harness struct {
	rng      *rand.Rand
	verbose  bool
	examples int
	mfgs     string // the program
	dir      string // of all files written
	clock    string // clock error of the next process; see clock.go
	failures int
}

func (h *harness) failf(format string, args ...any) {
	h.failures++
	fmt.Printf("FAIL "+format+"\n", args...)
}

// every is the interval of checkpoints in the program under test: short, so that kills hit them.
const every = "40ms"

func (h *harness) run(kills int, only string) (err error) {
	if h.dir, err = os.MkdirTemp("", "mfgs-faults-"); err != nil {
		return err
	}
	defer os.RemoveAll(h.dir)
	h.mfgs = filepath.Join(h.dir, "mfgs")
	var list []*scenario
	for _, s := range scenarios {
		if strings.Contains(s.name, only) {
			list = append(list, s)
		}
	}
	if err := h.build(slices.ContainsFunc(list, func(s *scenario) bool { return s.clock })); err != nil {
		return err
	}
	if err := h.makeData(); err != nil {
		return err
	}
	for _, s := range list {
		if err := h.reference(s); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	for done := 0; done < kills && len(list) > 0; {
		for _, s := range list {
			n, err := h.round(s)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			if done += n; done >= kills {
				break
			}
		}
	}
	fmt.Printf("\n%-24s %6s %7s %7s %11s %8s %8s %8s\n",
		"", "kills", "before", "after", "checkpoint", "writing", "resumed", "seconds")
	total := 0
	for _, s := range list {
		total += s.kills
		fmt.Printf("%-24s %6d %7d %7d %11d %8d %8d %8.2f\n",
			s.name, s.kills, s.before, s.after, s.kept, s.writing, s.resumed, s.takes.Seconds())
	}
	fmt.Printf("%d kills\n\n", total)
	if only != "" {
		return nil
	}
	return h.tryBreakages()
}

// A scenario is a command that is killed while it writes.
type scenario struct {
	name string
	// prepare creates the inputs in an empty folder.
	prepare [][]string
	// command is killed; again is the next attempt, nil for the same command.
	command, again []string
	once           bool     // it cannot run again after it finished
	clock          bool     // the clock jumps between and during attempts
	scratch        string   // a folder whose content may differ
	units          []string // outputs, each of which appears atomically; file/* are the files of a folder

	input, want   state // before and after an undisturbed run
	takes         time.Duration
	kills, tries  int
	before, after int // kills that left the old and the new output
	kept, writing int // kills that left a periodic checkpoint, and the draft of one
	resumed       int // attempts that resumed from a checkpoint
	folder        string
}

// state is file contents by path.
type state map[string]string

// validation is how many of the examples are for validation.
const validation = 3000

// command prepares a command; DATA in its arguments is the data folder.
func (h *harness) command(dir string, args []string) *exec.Cmd {
	cmd := exec.Command(h.mfgs)
	for _, a := range args {
		cmd.Args = append(cmd.Args, strings.NewReplacer("DATA", filepath.Join(h.dir, "data"),
			"[train]", fmt.Sprintf("[:%d]", h.examples-validation), "[val]", fmt.Sprintf("[%d:]", h.examples-validation),
		).Replace(a))
	}
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), clockVariable+"="+h.clock)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// must runs a command undisturbed.
func (h *harness) must(dir string, args []string) (string, error) {
	out, err := h.command(dir, args).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("mfgs %s: %v: %s", strings.Join(args, " "), err, lastLine(out))
	}
	return string(out), nil
}

func lastLine(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}

// reference runs a scenario undisturbed.
func (h *harness) reference(s *scenario) error {
	s.folder = filepath.Join(h.dir, strings.ReplaceAll(s.name, " ", "-"))
	dir := s.folder + "-reference"
	if err := h.prepare(s, dir); err != nil {
		return err
	}
	var err error
	if s.input, err = read(dir); err != nil {
		return err
	}
	start := time.Now()
	if _, err := h.must(dir, s.command); err != nil {
		return err
	}
	s.takes = time.Since(start)
	s.want, err = read(dir)
	return err
}

func (h *harness) prepare(s *scenario, dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if s.input != nil {
		return s.input.write(dir)
	}
	for _, args := range s.prepare {
		if _, err := h.must(dir, args); err != nil {
			return err
		}
	}
	return nil
}

// write writes the files of a state below a folder.
func (s state) write(dir string) error {
	for name, data := range s {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// read returns the content of all files below a folder.
func read(dir string) (state, error) {
	s := state{}
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		if len(data) == 0 && filepath.Base(name) == "lock" {
			return err // left by a killed process; removed a day later
		}
		s[name] = string(data)
		return err
	})
	return s, err
}

// under returns the files of a unit without drafts, which readers ignore.
func (s state) under(unit string) state {
	part := state{}
	for name, data := range s {
		if strings.Contains(name, "/.mfgs-") {
			continue
		}
		if name == unit || strings.HasPrefix(name, unit+"/") {
			part[name] = data
		}
	}
	return part
}

// without returns the files outside a folder.
func (s state) without(folder string) state {
	rest := maps.Clone(s)
	maps.DeleteFunc(rest, func(name, _ string) bool { return strings.HasPrefix(name, folder+"/") })
	return rest
}

func (s state) equal(o state) bool {
	if len(s) != len(o) {
		return false
	}
	for name, data := range s {
		if other, ok := o[name]; !ok || other != data {
			return false
		}
	}
	return true
}

// differences lists the files that differ.
func (s state) differences(o state) string {
	var names []string
	for name, data := range s {
		if other, ok := o[name]; !ok {
			names = append(names, "+"+name)
		} else if other != data {
			names = append(names, "≠"+name)
		}
	}
	for name := range o {
		if _, ok := s[name]; !ok {
			names = append(names, "-"+name)
		}
	}
	return strings.Join(names, " ")
}

// round kills a scenario one or more times and then lets it finish. It returns the number of kills.
func (h *harness) round(s *scenario) (kills int, err error) {
	dir := s.folder
	if err := h.prepare(s, dir); err != nil {
		return 0, err
	}
	args := s.command
	for attempt := 0; ; attempt++ {
		h.clock = ""
		if s.clock {
			h.clock = h.jump(s.takes)
		}
		cmd := h.command(dir, args)
		h.clock = ""
		var out strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			return kills, err
		}
		done := make(chan struct{})
		if attempt < 8 && (attempt == 0 || h.rng.IntN(5) > 0) {
			go h.kill(cmd.Process.Pid, h.instant(s, dir), done)
		}
		err = cmd.Wait()
		close(done)
		if strings.Contains(out.String(), "resuming after") {
			s.resumed++
		}
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signaled() {
			kills++
			s.kills++
			ended, err := h.inspect(s, dir)
			if err != nil || ended && s.once {
				return kills, err
			}
			if s.again != nil {
				args = s.again
			}
			continue
		}
		if err != nil {
			h.failf("%s: after %d kills: %v: %s", s.name, kills, err, lastLine([]byte(out.String())))
			return kills, nil
		}
		got, err := read(dir)
		if err != nil {
			return kills, err
		}
		want := s.want
		if s.scratch != "" {
			got, want = got.without(s.scratch), want.without(s.scratch)
		}
		if !got.equal(want) {
			h.failf("%s: after %d kills: %s", s.name, kills, got.differences(want))
		}
		return kills, nil
	}
}

// instant returns a function that waits for the moment to kill, or returns false when done is closed. The moments
// alternate: for scenarios with checkpoints, after some were written and while one is; at any time; and soon after
// the program begins to write its output.
func (h *harness) instant(s *scenario, dir string) func(done <-chan struct{}) bool {
	const (
		anyTime = iota
		writing
		afterCheckpoints
		inCheckpoint
	)
	way := s.tries % 2
	if s.checkpoint() != "" {
		way = []int{afterCheckpoints, inCheckpoint, anyTime, writing}[s.tries%4]
	}
	s.tries++
	if way == anyTime {
		at := time.Duration(h.rng.Float64() * float64(s.takes))
		return func(done <-chan struct{}) bool { return wait(at, done) }
	}
	checkpoints, after := 0, time.Duration(h.rng.Float64()*0.2*float64(min(s.takes, 200*time.Millisecond)))
	switch way {
	case afterCheckpoints:
		checkpoints, after = 1+h.rng.IntN(3), time.Duration(h.rng.Float64()*float64(5*time.Millisecond))
	case inCheckpoint:
		checkpoints, after = h.rng.IntN(3), time.Duration(h.rng.Float64()*float64(2*time.Millisecond))
	}
	part := filepath.Join(dir, s.checkpoint(), "part", "part.yaml")
	return func(done <-chan struct{}) bool {
		last, _ := os.Stat(part)
		for written := 0; written < checkpoints; {
			if now, err := os.Stat(part); err == nil && !os.SameFile(now, last) {
				last = now
				written++
			} else if !wait(100*time.Microsecond, done) {
				return false
			}
		}
		for way != afterCheckpoints && !writes(dir) {
			if !wait(100*time.Microsecond, done) {
				return false
			}
		}
		return wait(after, done)
	}
}

// checkpoint is the folder of a scenario's checkpoint, "" if it has none.
func (s *scenario) checkpoint() string {
	if !slices.Contains(s.command, "--resume") {
		return ""
	}
	return s.units[0] + ".checkpoint"
}

func wait(d time.Duration, done <-chan struct{}) bool {
	select {
	case <-done:
		return false
	case <-time.After(d):
		return true
	}
}

// writes reports whether a folder holds a non-empty draft.
func writes(dir string) bool {
	return drafted(dir, ".mfgs-*.tmp/new/*", ".mfgs-*.tmp/new/*/*", "*/.mfgs-*.tmp/new/*", "*/.mfgs-*.tmp/new/*/*")
}

// drafted reports whether a non-empty file matches one of the patterns.
func drafted(dir string, patterns ...string) bool {
	for _, pattern := range patterns {
		names, _ := filepath.Glob(filepath.Join(dir, pattern))
		for _, name := range names {
			if s, err := os.Stat(name); err == nil && s.Mode().IsRegular() && s.Size() > 0 {
				return true
			}
		}
	}
	return false
}

// kill waits for the instant and kills a process group.
func (h *harness) kill(pid int, instant func(<-chan struct{}) bool, done <-chan struct{}) {
	if instant(done) {
		syscall.Kill(-pid, syscall.SIGKILL)
	}
}

// inspect checks the files after a kill, and reports whether the outputs are complete.
func (h *harness) inspect(s *scenario, dir string) (ended bool, err error) {
	got, err := read(dir)
	if err != nil {
		return false, err
	}
	ended = true
	for _, unit := range s.unitsIn(got) {
		has := got.under(unit)
		if has.equal(s.want.under(unit)) {
			continue
		}
		ended = false
		if !has.equal(s.input.under(unit)) {
			h.failf("%s: after a kill %s is neither as before nor as in the end: %s", s.name, unit, has.differences(s.want.under(unit)))
		}
	}
	for name, data := range s.input {
		if _, there := got[name]; !there || got[name] != data && s.want[name] == data {
			if s.want[name] == data {
				h.failf("%s: after a kill %s is lost or changed", s.name, name)
			}
		}
	}
	if ended {
		s.after++
	} else {
		s.before++
	}
	if c := s.checkpoint(); c != "" {
		if _, there := got[c+"/part/part.yaml"]; there {
			s.kept++
		}
		if drafted(dir, c+"/.mfgs-*.tmp/new/*", c+"/.mfgs-*.tmp/new/*/*") {
			s.writing++
		}
	}
	if h.verbose {
		fmt.Printf("%s: killed, ended %v: %s\n", s.name, ended, got.differences(s.want))
	}
	return ended, nil
}

// unitsIn lists a scenario's outputs; for a folder, the files of an undisturbed run.
func (s *scenario) unitsIn(got state) (units []string) {
	for _, unit := range s.units {
		folder, all := strings.CutSuffix(unit, "/*")
		if !all {
			units = append(units, unit)
			continue
		}
		for name := range s.want.under(folder) {
			units = append(units, name)
		}
		for name := range got.under(folder) {
			if _, known := s.want[name]; !known && filepath.Ext(name) == ".rows" {
				units = append(units, name)
			}
		}
	}
	return units
}
