//go:build linux

// Soak runs mfgs serve, built with the race detector, with two bundles under mixed traffic: JSON and binary over HTTP,
// gRPC and its streams, POST /v1/predict; cancelled requests, clients that send bodies slowly or do not read
// answers, invalid requests. Meanwhile bundles are replaced in place, reloaded by request, by SIGHUP and by
// watching, corrupted on disk and repaired. From the root of the repository:
//
//	go run -C testdata ./serve/soak               an hour
//	go run -C testdata ./serve/soak -time 1m
//	go run -C testdata ./serve/soak -race=false -reloads 10000 -requests 1000000
//	go run -C testdata ./serve/soak -race=false -exchanges 10000 -workers 32
//	go run -C testdata ./serve/soak -race=false -restarts 100
//
// Every answer is compared with the predictions of a wrap.Predictor of the bundle that it names. The exit status is
// 1 if one differs, if a valid request is not answered in time, if the race detector reports anything, or if after
// a quiet period goroutines, threads or file descriptors have leaked, or memory kept growing.
//
// With -restarts the server itself is restarted by SIGTERM, while 64 clients over HTTP and gRPC, with persistent or
// new connections, send requests. Any lost request is a failure, except refused connections.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	s := &soak{}
	flag.DurationVar(&s.lasts, "time", time.Hour, "how long to ask")
	flag.IntVar(&s.reloads, "reloads", 0, "instead: until there were so many reloads")
	flag.IntVar(&s.exchanges, "exchanges", 0, "instead: until a bundle was exchanged so often, in all the ways that files are copied")
	flag.IntVar(&s.requests, "requests", 0, "and so many requests, none of which is wrong or slow")
	flag.IntVar(&s.restarts, "restarts", 0, "instead: end the server and start it again so often, while clients connect")
	flag.DurationVar(&s.every, "every", 30*time.Second, "how often to tell how it stands")
	flag.IntVar(&s.workers, "workers", 8, "how many ask at a time")
	flag.BoolVar(&s.race, "race", true, "build mfgs with the race detector")
	flag.StringVar(&s.program, "mfgs", "", "the program, if it is built already")
	flag.Uint64Var(&s.seed, "seed", uint64(time.Now().UnixNano()), "of all that is random")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := s.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
	if n := s.tally.wrong(); n > 0 {
		fmt.Printf("%d failures\n", n)
		os.Exit(1)
	}
	fmt.Println("no failure")
}

// A soak is one run of this program.
type soak struct {
	lasts, every      time.Duration
	reloads, requests int // 0: until lasts
	exchanges         int
	restarts          int // 0: none
	workers           int
	race              bool
	program           string
	seed              uint64

	dir     string    // of all files written
	until   time.Time // end of the traffic
	bundles *bundles
	server  *server
	tally   tally
	rss     []int64 // of the server, once per second
}

func (s *soak) run(ctx context.Context) (err error) {
	fmt.Printf("seed %d\n", s.seed)
	if s.dir, err = os.MkdirTemp("", "mfgs-soak-"); err != nil {
		return err
	}
	defer os.RemoveAll(s.dir)
	if s.program == "" {
		s.program = filepath.Join(s.dir, "mfgs")
		if err := s.build(ctx); err != nil {
			return err
		}
	}
	if s.bundles, err = makeBundles(ctx, s.dir); err != nil {
		return fmt.Errorf("making bundles: %w", err)
	}
	if s.restarts > 0 {
		return s.restart(ctx)
	}
	if s.server, err = startServer(s.program, filepath.Join(s.dir, "log"), s.bundles.args()...); err != nil {
		return err
	}
	defer s.server.kill()
	if s.reloads > 0 || s.requests > 0 || s.exchanges > 0 {
		err = s.count(ctx)
	} else {
		err = s.mix(ctx)
	}
	return errors.Join(err, s.finish())
}

func (s *soak) build(ctx context.Context) error {
	args := []string{"build", "-C", "..", "-o", s.program}
	if s.race {
		args = append(args, "-race")
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "./cmd/mfgs")...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

// rng returns the random generator of a client.
func (s *soak) rng(i int) *rand.Rand { return rand.New(rand.NewPCG(s.seed, uint64(i))) }

// quiet is how long to wait until idle connections are closed and garbage is returned.
const quiet = 45 * time.Second

// finish checks the idle server for leaks and stops it.
func (s *soak) finish() error {
	time.Sleep(quiet)
	end, err := s.server.usage()
	if err != nil {
		return fmt.Errorf("the server is gone: %w", err)
	}
	fmt.Printf("at the start %v\nat the end   %v\n", s.server.start, end)
	if err := end.grown(s.server.start); err != nil {
		s.tally.fail("%v", err)
	}
	if err := leaks(s.rss); err != nil {
		s.tally.fail("%v", err)
	}
	// A fresh server gives the number of goroutines.
	fresh, err := startServer(s.program, filepath.Join(s.dir, "fresh"), s.bundles.args()...)
	if err != nil {
		return err
	}
	defer fresh.kill()
	want, err := fresh.goroutines()
	if err != nil {
		return err
	}
	got, err := s.server.goroutines()
	if err != nil {
		return err
	}
	fmt.Printf("goroutines %d, of a fresh server %d\n", got, want)
	if got > want+4 {
		s.tally.fail("%d goroutines are left, where a fresh server has %d", got, want)
	}
	for _, bad := range s.server.badLines() {
		s.tally.fail("the server says: %s", bad)
	}
	return nil
}
