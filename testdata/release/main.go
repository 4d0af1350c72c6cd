// Mfgs-release builds a release of mfgs: for each platform an archive, a wheel that installs the program into
// a Python environment, and a bill of materials; and checksums of all.
//
//		go run -C testdata ./release -version 0.1.0
//
//	 1. The commit that is checked out is cloned, and the clone tagged with the version (source.go).
//	 2. Each platform (platform.go) is built by zig, which compiles C for all of them (zig.go), against
//	    stubs of what macOS has (stubs.go), and the program examined (examine.go).
//	 3. Licences, the manual page, completion and the bill of materials are added (parts.go); archives and
//	    wheels are written (archive.go, wheel.go).
//	 4. The programs are run as users would, where this machine can (try.go).
//
// The bytes depend only on the commit, the version, and the versions of Go and zig, not on folders or time. With -twice
// everything is built a second time with empty caches, and compared. Programs that name a folder of this machine are
// refused.
//
// Releases are built on Linux on x86-64, with Go, git and Python; zig is installed from PyPI, at a pinned version and
// hash. The first build of a platform takes about three minutes of one processor, and another one ten seconds.
//
// # What was built and run
//
// All five platforms were built. Of one commit, Windows and Linux on arm64 were built twice with -twice, in two runs,
// and macOS from two folders with the same caches: the bytes were the same. Linux on amd64 runs with each release, and
// others if this machine has an emulator, such as those of Debian 13:
//
//	apt install qemu-user libc6-arm64-cross libstdc++6-arm64-cross wine64 wine
//
// Under qemu-aarch64 7.2 (Debian 12) and 10.0 (Debian 13) the wheel's program for Linux on arm64 and the official ONNX
// Runtime 1.30.0 ran; the demonstration takes two minutes there. No machine with such a processor has run them.
//
// Under Wine 10.0 (Debian 13) the wheel's program for Windows and the official onnxruntime.dll 1.30.0 ran, and the
// tests of internal/files, wrap/bundle and mfgs doctor pass, except for symbolic links, which Wine does not follow.
// Wine 8.0 (Debian 12) lacks bcryptprimitives.dll, which all programs of Go call. No Windows has run them or installed
// ONNX Runtime by mfgs setup.
//
// Nothing has run on macOS. zig links for it without Apple's SDK; stubs.go writes what zig lacks.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/mfgs/mfgs/internal/files"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	err := run(ctx, os.Args[1:], os.Stdout)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "mfgs-release:", err)
		os.Exit(1)
	}
}

// A release is the configuration of a release.
type release struct {
	version string // without a v
	out     string // the folder of the files
	work    string // a temporary folder
	log     io.Writer
	zig     string // the folder that holds zig
}

func run(ctx context.Context, args []string, stdout io.Writer) (err error) {
	r := &release{log: stdout}
	set := flag.NewFlagSet("mfgs-release", flag.ContinueOnError)
	set.StringVar(&r.version, "version", "", "of the release, such as 0.1.0")
	set.StringVar(&r.out, "out", "dist", "the `folder` for the files, which must not exist")
	set.StringVar(&r.zig, "zig", "", "the `folder` that holds zig "+zigVersion+": none has it installed into the user's cache")
	only := set.String("only", "", "the `platforms` to build, such as linux/amd64,windows/amd64: none means all")
	twice := set.Bool("twice", false, "build a second time, with empty caches, and compare")
	if err := set.Parse(args); err != nil {
		return err
	}
	chosen, err := choose(*only)
	if err != nil {
		return err
	}
	if !isVersion(r.version) {
		return fmt.Errorf("-version %q: want three numbers, such as 0.1.0", r.version)
	}
	if r.work, err = os.MkdirTemp("", "mfgs-release-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.work)) }()
	// The folder appears under its name only when it is complete and tested.
	if r.out, err = filepath.Abs(r.out); err != nil {
		return err
	}
	if _, err := os.Lstat(r.out); err == nil {
		return fmt.Errorf("%s exists: remove it, or choose another folder with -out", r.out)
	}
	draft := filepath.Join(r.work, "dist")
	if err := r.build(ctx, chosen, draft, ""); err != nil {
		return err
	}
	if *twice {
		again := filepath.Join(r.work, "again", "dist")
		if err := r.build(ctx, chosen, again, filepath.Join(r.work, "caches")); err != nil {
			return err
		}
		if err := r.compare(draft, again); err != nil {
			return err
		}
	}
	if err := r.try(ctx, chosen, draft); err != nil {
		return err
	}
	return publish(draft, r.out)
}

// publish moves a folder to its place atomically.
func publish(from, to string) (err error) {
	d, err := files.NewDraft(filepath.Dir(to))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	name := filepath.Base(to)
	if err := os.CopyFS(d.Path(name), os.DirFS(from)); err != nil {
		return err
	}
	return d.MoveNew(name)
}

// build builds the files of all platforms in the folder out. caches, if not "", is a folder for fresh build caches.
func (r *release) build(ctx context.Context, chosen []platform, out, caches string) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	b, err := r.newBuilder(ctx, filepath.Dir(out), caches)
	if err != nil {
		return err
	}
	for _, p := range chosen {
		fmt.Fprintf(r.log, "building %s for %s/%s\n", b.source.name(), p.goos, p.goarch)
		if err := b.platform(ctx, p, out); err != nil {
			return fmt.Errorf("%s/%s: %w", p.goos, p.goarch, err)
		}
	}
	sums, err := checksums(out)
	if err != nil {
		return err
	}
	fmt.Fprint(r.log, sums)
	return os.WriteFile(filepath.Join(out, r.checksumsName()), []byte(sums), 0o644)
}

func (r *release) checksumsName() string { return "mfgs-" + r.version + "-sha256.txt" }

// checksums lists the SHA-256 of the files of a folder, in sha256sum's format.
func checksums(dir string) (string, error) {
	entries, err := os.ReadDir(dir) // in order
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(data), e.Name())
	}
	return b.String(), nil
}

// compare returns an error unless two folders hold the same files.
func (r *release) compare(one, other string) error {
	a, err := checksums(one)
	if err != nil {
		return err
	}
	b, err := checksums(other)
	if err != nil {
		return err
	}
	if a != b {
		var differ []string
		lines := strings.Split(b, "\n")
		for line := range strings.Lines(a) {
			if line = strings.TrimSpace(line); !slices.Contains(lines, line) {
				differ = append(differ, line[strings.LastIndex(line, " ")+1:])
			}
		}
		return fmt.Errorf("two builds differ in %s", strings.Join(differ, ", "))
	}
	fmt.Fprintln(r.log, "a second build, from another folder and with empty caches, has the same bytes")
	return nil
}
