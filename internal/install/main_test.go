package install

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// The test binary doubles as the programs that tests start: a package manager
// that hands out a prepared archive, and a process that loads a library.
const (
	helperEnv  = "ORT_TEST_HELPER"  // fetch, fail, nothing, hang, load
	archiveEnv = "ORT_TEST_ARCHIVE" // what fetch hands out; what load loads
)

// raceExit keeps the race detector from making each helper wait a second before it ends.
const raceExit = "GORACE=atexit_sleep_ms=0"

func TestMain(m *testing.M) {
	switch os.Getenv(helperEnv) {
	case "":
		os.Exit(runTests(m))
	case "fetch":
		i := slices.IndexFunc(os.Args, func(a string) bool { return a == "--dest" || a == "--pack-destination" })
		if err := copyFile(os.Getenv(archiveEnv),
			filepath.Join(os.Args[i+1], filepath.Base(os.Getenv(archiveEnv)))); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case "fail":
		fmt.Fprintln(os.Stderr, "error: no such package,\n  it says")
		os.Exit(3)
	case "nothing":
	case "hang":
		time.Sleep(time.Minute)
	case "load":
		LoadHelper(Library{Path: os.Getenv(archiveEnv), Source: SourceFlag})
	}
}

// What the tests of loading use, which are outside the package: package ort imports it.
var (
	LoadHelper  func(Library)
	FakeLibrary = fakeLibrary
	Unusable    = unusable
	Put         = put
	TempDir     = tempDir
)

const (
	HelperEnv  = helperEnv
	ArchiveEnv = archiveEnv
	RaceExit   = raceExit
)

// runTests runs the tests with a real ONNX Runtime, and installs it if it is missing.
func runTests(m *testing.M) int {
	_, err := Ensure(context.Background(), Config{Install: true})
	if err == nil {
		fakes.dir, err = os.MkdirTemp("", "ort-test-")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(fakes.dir)
	return m.Run()
}

func copyFile(from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.Create(to)
	if err != nil {
		return err
	}
	if _, err := io.Copy(dst, src); err != nil {
		return err
	}
	return dst.Close()
}

// fakes are the libraries compiled so far, by version and source.
var fakes = struct {
	sync.Mutex
	dir   string
	built map[[2]string]string
}{built: map[[2]string]string{}}

// fakeLibrary compiles a shared library that claims to be a version of ONNX Runtime ("" for one without a version),
// but offers no API. extra is more C for it. The file must not be changed.
func fakeLibrary(t testing.TB, version, extra string) string {
	t.Helper()
	source := `struct base { const void *(*api)(unsigned); const char *(*version)(void); };
static const void *api(unsigned v) { return 0; }
static const char *version(void) { return "` + version + `"; }
static struct base base = { api, version };
const struct base *OrtGetApiBase(void) { return &base; }
` + extra
	return compile(t, version, source)
}

func compile(t testing.TB, version, source string) string {
	t.Helper()
	fakes.Lock()
	defer fakes.Unlock()
	if path, ok := fakes.built[[2]string{version, source}]; ok {
		return path
	}
	dir, err := os.MkdirTemp(fakes.dir, "fake-")
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "fake.so")
	args := []string{"-shared", "-fPIC", "-o", out, "-xc", "-"}
	switch runtime.GOOS {
	case "darwin":
		if version != "" {
			args = append(args, "-Wl,-current_version,"+version)
		}
	case "windows":
		t.Skip("the fake libraries of this test are made for ELF and Mach-O")
	default:
		if version != "" {
			script := filepath.Join(dir, "versions")
			if err := os.WriteFile(script, []byte("VERS_"+version+" { global: *; };\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			args = append(args, "-Wl,--version-script="+script)
		}
	}
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "cc"
	}
	cmd := exec.Command(cc, args...)
	cmd.Stdin = strings.NewReader(source)
	if msg, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cc, err, msg)
	}
	fakes.built[[2]string{version, source}] = out
	return out
}

// put copies a library to a folder, under its usual name unless one is given.
func put(t testing.TB, library, folder string, name ...string) string {
	t.Helper()
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, append(name, libraryName(runtime.GOOS))[0])
	if err := copyFile(library, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// tempDir is t.TempDir by its real name: on macOS it lies behind a link.
func tempDir(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
