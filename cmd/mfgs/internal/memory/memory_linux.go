package memory

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"runtime"
	"syscall"

	"github.com/mfgs/mfgs/internal/text"
	"golang.org/x/term"
)

// failed is the exit code of a program that failed.
const failed = 1

// watchedEnv tells a process that another watches over it.
const watchedEnv = "MFGS_WATCHED"

// Watched runs the command line in a second process where the address space is limited, as by
// ulimit -v, and reports whether it has: neither Go nor ONNX Runtime can go on, or say anything
// sensible, when an allocation fails. The one that watches tells what happened, in one line.
func Watched() (code int, ok bool) {
	var limit syscall.Rlimit
	const unlimited = 1 << 62
	if err := syscall.Getrlimit(syscall.RLIMIT_AS, &limit); err != nil || limit.Cur >= unlimited ||
		os.Getenv(watchedEnv) != "" {
		return 0, false
	}
	exe, err := os.Executable()
	if err != nil {
		return 0, false
	}
	cmd := &exec.Cmd{
		Path: exe, Args: os.Args, Env: append(os.Environ(), watchedEnv+"=1"), Stdin: os.Stdin, Stdout: os.Stdout,
		SysProcAttr: &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM},
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return 0, false
	}
	runtime.LockOSThread() // by whose end Pdeathsig goes
	defer runtime.UnlockOSThread()
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if err := cmd.Start(); err != nil {
		return 0, false
	}
	go func() {
		for s := range signals {
			// The terminal interrupts both.
			if s != os.Interrupt || !term.IsTerminal(int(os.Stdin.Fd())) {
				_ = cmd.Process.Signal(s)
			}
		}
	}()
	died := copyUntilDeath(os.Stderr, stderr)
	err = cmd.Wait()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, true
	case died:
		fmt.Fprintf(os.Stderr, "mfgs: out of memory: this process may have %d MiB of address space (ulimit -v): allow more, or ask for less by --structure kron, a smaller --batch or fewer examples\n", limit.Cur>>20)
		return failed, true
	case errors.As(err, &exit) && exit.Exited():
		return exit.ExitCode(), true
	}
	fmt.Fprintln(os.Stderr, "mfgs:", text.Line(err.Error()))
	return failed, true
}

// death matches what the runtimes of Go, C and C++ write when they end a process that
// got no memory. What else ends one, such as a panic, is a fault to be reported.
var death = regexp.MustCompile(`^libgcc_s.so.1 must be installed|^(runtime|runtime/cgo|fatal error|terminate called).*(out of memory|cannot allocate|failed to reserve|failed to create new OS thread|pthread_create failed|bad_alloc)`)

// copyUntilDeath copies lines, and tells whether there came one that matches death.
// What follows that is for those who mend runtimes.
func copyUntilDeath(w io.Writer, r io.Reader) (died bool) {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		died = died || death.MatchString(line)
		if !died {
			_, _ = io.WriteString(w, line)
		}
		if err != nil {
			return died
		}
	}
}
