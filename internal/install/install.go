package install

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/lockedfile"

	"github.com/mfgs/mfgs/internal/files"
)

// Ensure finds the library, or installs it if c allows that.
func Ensure(ctx context.Context, c Config) (Library, error) {
	return c.ensure(ctx, places(c))
}

func (c *Config) ensure(ctx context.Context, places []place) (Library, error) {
	lib, err := c.find(places)
	var missing *NotFoundError
	if err == nil || !c.Install || !errors.As(err, &missing) {
		return lib, err
	}
	if noInstall() {
		missing.Forbidden = true
		return Library{}, missing
	}
	return Install(ctx, *c)
}

// Install installs the library of PinnedVersion in the cache, unless it is there and complete and c.Force is not set.
// It tries the GitHub release, then the PyPI wheel by pip, and uses the first archive with the expected SHA-256; if
// there is none the error is an [*InstallError]. It may run in several processes: one installs, the others wait for
// it.
func Install(ctx context.Context, c Config) (Library, error) {
	p, ok := pinsFor(runtime.GOOS, runtime.GOARCH)
	if !ok {
		return Library{}, fmt.Errorf("there is no official ONNX Runtime %s for %s/%s: build one and set %s to its path",
			PinnedVersion, runtime.GOOS, runtime.GOARCH, EnvLibrary)
	}
	return c.install(ctx, c.routes(p))
}

// noInstall reports whether the environment forbids installations.
func noInstall() bool {
	switch strings.ToLower(os.Getenv(EnvNoInstall)) {
	case "", "0", "false":
		return false
	}
	return true
}

// An InstallError says why each route of installation failed.
type InstallError struct {
	Tried []error
}

func (e *InstallError) Error() string {
	tried := make([]string, len(e.Tried))
	for i, err := range e.Tried {
		tried[i] = err.Error()
	}
	return fmt.Sprintf("cannot install ONNX Runtime %s: %s: install %s %s or newer by other means and set %s to its path",
		PinnedVersion, strings.Join(tried, "; "), libraryName(runtime.GOOS), MinVersion, EnvLibrary)
}

func (e *InstallError) Unwrap() []error { return e.Tried }

func (c *Config) install(ctx context.Context, routes []route) (Library, error) {
	if noInstall() {
		return Library{}, fmt.Errorf("%s forbids installing ONNX Runtime: unset it, or set %s to an installed library",
			EnvNoInstall, EnvLibrary)
	}
	dir, err := c.installDir()
	if err != nil {
		return Library{}, fmt.Errorf("no folder to install ONNX Runtime to: %w", err)
	}
	if err := os.MkdirAll(dir, files.FolderMode); err != nil {
		return Library{}, fmt.Errorf("cannot install ONNX Runtime: %w: choose another cache folder, or set %s to an installed library",
			err, EnvLibrary)
	}
	unlock, err := c.lock(ctx, dir)
	if err != nil {
		return Library{}, fmt.Errorf("cannot install ONNX Runtime: %w", err)
	}
	defer unlock()
	if !c.Force {
		// Another process may have installed it meanwhile.
		if lib, err := search([]place{{SourceCache, func() []string { return []string{dir} }}}); err == nil {
			return lib, nil
		}
	}
	failed := new(InstallError)
	for _, r := range routes {
		lib, err := c.installBy(ctx, r, dir)
		if err == nil {
			return lib, nil
		}
		if ctx.Err() != nil {
			return Library{}, fmt.Errorf("installing ONNX Runtime: %w", context.Cause(ctx))
		}
		failed.Tried = append(failed.Tried, fmt.Errorf("%s: %w", r.name, err))
		if errors.Is(err, syscall.ENOSPC) {
			break // the other routes need more space
		}
	}
	return Library{}, failed
}

// lock serialises installations to dir.
func (c *Config) lock(ctx context.Context, dir string) (unlock func(), err error) {
	type result struct {
		unlock func()
		err    error
	}
	locked := make(chan result, 1)
	go func() {
		unlock, err := lockedfile.MutexAt(filepath.Join(dir, ".lock")).Lock()
		locked <- result{unlock, err}
	}()
	waiting := time.NewTimer(time.Second)
	defer waiting.Stop()
	for {
		select {
		case <-waiting.C:
			c.report("waiting for another installation", 0, 0)
		case r := <-locked:
			if errors.Is(r.err, errors.ErrUnsupported) {
				// Some network file systems have no locks. The library still appears
				// in one step; at worst it is downloaded twice.
				return func() {}, nil
			}
			if r.err != nil {
				return nil, r.err
			}
			return r.unlock, nil
		case <-ctx.Done():
			go func() {
				if r := <-locked; r.err == nil {
					r.unlock()
				}
			}()
			return nil, context.Cause(ctx)
		}
	}
}

// installBy fetches the archive by one route and moves its library to dir.
func (c *Config) installBy(ctx context.Context, r route, dir string) (Library, error) {
	draft, err := files.NewDraft(dir)
	if err != nil {
		return Library{}, err
	}
	defer draft.Close()
	// Files that pip leaves stay in this temporary folder.
	tmp := draft.Path("archive")
	if err := os.Mkdir(tmp, files.FolderMode); err != nil {
		return Library{}, err
	}
	file := filepath.Join(tmp, r.archive.name)
	if err := r.fetch(ctx, r.archive, file); err != nil {
		return Library{}, err
	}
	if err := r.archive.verify(ctx, file); err != nil {
		return Library{}, err
	}
	c.report("unpacking "+r.archive.name, 0, 0)
	library := draft.Path(libraryName(runtime.GOOS))
	if err := r.archive.extract(ctx, file, library); err != nil {
		return Library{}, err
	}
	version, err := probe(library, runtime.GOOS, runtime.GOARCH)
	if err != nil {
		return Library{}, fmt.Errorf("%s in %s: %w", r.archive.entry, r.archive.name, err)
	}
	if version != PinnedVersion {
		return Library{}, fmt.Errorf("%s in %s: want version %s, got %q", r.archive.entry, r.archive.name,
			PinnedVersion, version)
	}
	final := filepath.Join(dir, libraryName(runtime.GOOS))
	if err := draft.Move(libraryName(runtime.GOOS)); err != nil {
		return Library{}, err
	}
	return Library{Path: final, Version: version, Source: SourceCache, Installed: r.name + " " + r.archive.name}, nil
}

// report calls c.Progress if it is set.
func (c *Config) report(stage string, done, total int64) {
	if c.Progress != nil {
		c.Progress(stage, done, total)
	}
}

// A route is one way to get an archive with the library.
type route struct {
	name    string
	archive archive
	// fetch writes the archive to file, in a folder that it may use for other files.
	fetch func(ctx context.Context, a archive, file string) error
}

// routes lists the routes in the order to try them: the smaller download, which needs no tool, first.
func (c *Config) routes(p pins) []route {
	return []route{
		{"GitHub release", p.github, c.download},
		{"PyPI wheel", p.wheel, func(ctx context.Context, a archive, file string) error {
			pip := c.Pip
			if len(pip) == 0 {
				pip = findPip()
			}
			// Any Python will do, as only the library in the wheel is used.
			return c.command(ctx, a, file, pip, "download", "onnxruntime=="+PinnedVersion,
				"--dest", filepath.Dir(file), "--no-deps", "--only-binary=:all:",
				"--platform", p.wheelPlatform, "--python-version", "3.12", "--implementation", "cp", "--abi", "cp312",
				"--no-cache-dir", "--no-input", "--disable-pip-version-check", "--quiet", "--retries", "2")
		}},
	}
}

// findPip returns the command that runs pip.
func findPip() []string {
	for _, name := range []string{"pip3", "pip"} {
		if _, err := exec.LookPath(name); err == nil {
			return []string{name}
		}
	}
	for _, name := range []string{"python3", "python"} { // Windows has the second
		if _, err := exec.LookPath(name); err == nil {
			return []string{name, "-m", "pip"}
		}
	}
	return []string{"pip"} // running it reports its absence
}

// download downloads the archive from the GitHub release.
func (c *Config) download(ctx context.Context, a archive, file string) (err error) {
	base := strings.TrimSuffix(c.GitHubURL, "/")
	if base == "" {
		base = "https://github.com"
	}
	url := fmt.Sprintf("%s/microsoft/onnxruntime/releases/download/v%s/%s", base, PinnedVersion, a.name)
	stall := c.StallTimeout
	if stall == 0 {
		stall = time.Minute
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchdog := time.AfterFunc(stall, func() { cancel(fmt.Errorf("%s: nothing came for %v", url, stall)) })
	defer watchdog.Stop()
	defer func() {
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx) // more specific than "context canceled"
		}
	}()

	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
	}()
	stage := "downloading " + a.name
	c.report(stage, 0, a.size)
	var done int64
	var last time.Time
	buf := make([]byte, 64<<10)
	for {
		n, err := resp.Body.Read(buf)
		if n > 0 {
			watchdog.Reset(stall)
			if done += int64(n); done > a.size {
				return fmt.Errorf("%s: want %d bytes, got more", url, a.size)
			}
			if _, err := f.Write(buf[:n]); err != nil {
				return err
			}
			if now := time.Now(); now.Sub(last) > 100*time.Millisecond || done == a.size {
				c.report(stage, done, a.size)
				last = now
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: after %d of %d bytes: %w", url, done, a.size, err)
		}
	}
}

// command runs a package manager that must write the archive to file.
func (c *Config) command(ctx context.Context, a archive, file string, command []string, args ...string) error {
	program, err := exec.LookPath(command[0])
	if err != nil {
		return err
	}
	if program, err = filepath.Abs(program); err != nil { // cmd.Dir is another folder
		return err
	}
	limit := c.CommandTimeout
	if limit == 0 {
		limit = 10 * time.Minute
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s did not finish in %v", command[0], limit))
	defer cancel()
	dir := filepath.Dir(file)
	cmd := exec.CommandContext(ctx, program, slices.Concat(command[1:], args)...)
	// Its other files are removed with the folder.
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, "TMP="+dir, "TEMP="+dir)
	if os.Getenv("HOME") == "" && runtime.GOOS != "windows" {
		cmd.Env = append(cmd.Env, "HOME="+dir)
	}
	cmd.WaitDelay = 2 * time.Second
	var stderr head
	cmd.Stderr = &stderr

	stage := "downloading " + a.name + " by " + command[0]
	c.report(stage, 0, a.size)
	finished, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-finished:
				return
			case <-tick.C:
				c.report(stage, min(folderSize(dir), a.size), a.size)
			}
		}
	}()
	err = cmd.Run()
	close(finished)
	<-watched
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		if said := stderr.String(); said != "" {
			return fmt.Errorf("%s: %w: %s", command[0], err, said)
		}
		return fmt.Errorf("%s: %w", command[0], err)
	}
	if _, err := os.Stat(file); err != nil {
		return fmt.Errorf("%s left no file %s", command[0], a.name)
	}
	return nil
}

// A head keeps the beginning of what is written to it, for a message.
type head struct{ bytes.Buffer }

func (t *head) Write(p []byte) (int, error) {
	const limit = 300
	t.Buffer.Write(p[:min(len(p), limit-min(t.Len(), limit))])
	return len(p), nil
}

func (t *head) String() string { return strings.Join(strings.Fields(t.Buffer.String()), " ") }

// folderSize returns the bytes in the readable files of a folder.
func folderSize(dir string) int64 {
	var total int64
	filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			total += info.Size()
		}
		return nil
	})
	return total
}
