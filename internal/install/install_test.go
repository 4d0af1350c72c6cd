package install

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/mfgs/mfgs/internal/testerr"
)

// pack writes an archive (.tgz, .zip or .whl by its name) with some clutter
// around the library, and returns it with its path.
func pack(t testing.TB, name, entry string, library []byte) (archive, string) {
	t.Helper()
	files := []struct {
		name string
		data []byte
	}{{"README", []byte("read me")}, {"lib/" + path.Base(entry), []byte("not me")}, {entry, library}, {"zzz", nil}}
	var buf bytes.Buffer
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	if strings.HasSuffix(name, ".tgz") {
		z := gzip.NewWriter(&buf)
		w := tar.NewWriter(z)
		check(w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: entry + ".link", Linkname: path.Base(entry)}))
		for _, f := range files {
			check(w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: 0o644,
				Size: int64(len(f.data))}))
			_, err := w.Write(f.data)
			check(err)
		}
		check(w.Close())
		check(z.Close())
	} else {
		z := zip.NewWriter(&buf)
		for _, f := range files {
			w, err := z.Create(f.name)
			check(err)
			_, err = w.Write(f.data)
			check(err)
		}
		check(z.Close())
	}
	file := filepath.Join(tempDir(t), name)
	check(os.WriteFile(file, buf.Bytes(), 0o600))
	sum := sha256.Sum256(buf.Bytes())
	return archive{name, int64(buf.Len()), hex.EncodeToString(sum[:]), entry}, file
}

// serve answers like the release page of GitHub.
func serve(t testing.TB, handler http.HandlerFunc) string {
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return s.URL
}

// helper makes the test binary act as a package manager, for commands that this test runs.
func helper(t *testing.T, mode, file string) []string {
	t.Helper()
	t.Setenv(helperEnv, mode)
	t.Setenv(archiveEnv, file)
	name, value, _ := strings.Cut(raceExit, "=")
	t.Setenv(name, value)
	return []string{os.Args[0]}
}

// leftovers lists what an installation left in its folder besides the lock.
func leftovers(t testing.TB, c Config) []string {
	t.Helper()
	dir, err := c.installDir()
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if e.Name() != ".lock" {
			names = append(names, e.Name())
		}
	}
	return names
}

func TestEveryPinIsComplete(t *testing.T) {
	sums := map[string]string{}
	for _, platform := range []string{"linux/amd64", "linux/arm64", "darwin/arm64", "windows/amd64", "windows/arm64"} {
		goos, goarch, _ := strings.Cut(platform, "/")
		p, ok := pinsFor(goos, goarch)
		if !ok {
			t.Errorf("%s has no pins", platform)
			continue
		}
		for _, a := range []archive{p.github, p.wheel} {
			if raw, err := hex.DecodeString(a.sha256); err != nil || len(raw) != sha256.Size {
				t.Errorf("%s: bad sha256 %q", a.name, a.sha256)
			}
			if other, ok := sums[a.sha256]; ok && other != a.name {
				t.Errorf("%s and %s have one sha256", a.name, other)
			}
			sums[a.sha256] = a.name
			if a.size < 1<<20 || !strings.Contains(a.name, PinnedVersion) || a.entry == "" {
				t.Errorf("%s: %+v", platform, a)
			}
		}
		if !strings.Contains(p.wheel.name, p.wheelPlatform) {
			t.Errorf("%s is not for %s", p.wheel.name, p.wheelPlatform)
		}
	}
	if _, ok := pinsFor("plan9", "amd64"); ok {
		t.Error("there are pins for plan9/amd64")
	}
}

// Each route alone installs the library, the others failing as they may.
func TestEachRouteInstalls(t *testing.T) {
	library, err := os.ReadFile(fakeLibrary(t, PinnedVersion, ""))
	if err != nil {
		t.Fatal(err)
	}
	for i, test := range []struct{ name, archive, entry string }{
		{"GitHub release", "onnxruntime-x.tgz", "onnxruntime-x/lib/libonnxruntime.so.1"},
		{"GitHub release for Windows", "onnxruntime-x.zip", "onnxruntime-x/lib/onnxruntime.dll"},
		{"PyPI wheel", "onnxruntime-x.whl", "onnxruntime/capi/libonnxruntime.so"},
	} {
		t.Run(test.name, func(t *testing.T) {
			a, file := pack(t, test.archive, test.entry, library)
			var asked string
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				asked = r.URL.Path
				if i > 1 {
					http.NotFound(w, r)
					return
				}
				http.ServeFile(w, r, file)
			})
			command := helper(t, "fetch", file)
			var last string // stage
			var before int64
			c := Config{
				CacheDir: tempDir(t), GitHubURL: url + "/",
				Pip: []string{"no-such-pip"},
				Progress: func(stage string, done, total int64) {
					if stage == last && done < before || done > total {
						t.Errorf("progress from %d bytes of %q to %d of %d of %q", before, last, done, total, stage)
					}
					last, before = stage, done
				},
			}
			p := pins{github: a, wheel: a, wheelPlatform: "any"}
			if i == 2 {
				c.Pip = command
			}
			got, err := c.install(t.Context(), c.routes(p))
			if err != nil {
				t.Fatal(err)
			}
			if want := "/microsoft/onnxruntime/releases/download/v" + PinnedVersion + "/" + a.name; asked != want {
				t.Errorf("asked for %s, want %s", asked, want)
			}
			dir, _ := c.installDir()
			if got.Path != filepath.Join(dir, libraryName(runtime.GOOS)) || got.Version != PinnedVersion ||
				got.Source != SourceCache || !strings.Contains(got.Installed, a.name) {
				t.Errorf("got %+v", got)
			}
			if installed, err := os.ReadFile(got.Path); err != nil || !bytes.Equal(installed, library) {
				t.Errorf("the library is not the one of the archive (%v)", err)
			}
			if names := leftovers(t, c); len(names) != 1 {
				t.Errorf("left %q", names)
			}
			if last != "unpacking "+a.name {
				t.Errorf("the last stage was %q", last)
			}
			found, err := Find(Config{CacheDir: c.CacheDir})
			if err != nil || found.Path != got.Path {
				t.Errorf("found %+v, %v after installing %+v", found, err, got)
			}
		})
	}
}

func TestFailedDownloadsLeaveNothing(t *testing.T) {
	library, err := os.ReadFile(fakeLibrary(t, PinnedVersion, ""))
	if err != nil {
		t.Fatal(err)
	}
	const entry = "x/lib/library.so"
	good, file := pack(t, "x.tgz", entry, library)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	answer := func(data []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.Write(data) }
	}
	wrong := bytes.Clone(data)
	wrong[len(wrong)/2] ^= 1
	// Archives with the right sum, but the wrong thing in them.
	of := func(entry string, library []byte) (archive, http.HandlerFunc) {
		a, file := pack(t, "x.tgz", entry, library)
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return a, answer(data)
	}
	read := func(path string) []byte {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	without, withoutAnswer := of("elsewhere/library.so", library)
	without.entry = entry
	older, olderAnswer := of(entry, read(fakeLibrary(t, "1.29.0", "")))
	cut, cutAnswer := of(entry, library[:len(library)/2])
	tests := []struct {
		name    string
		archive archive
		answer  http.HandlerFunc
		words   []string
	}{
		{"404", good, http.NotFound, []string{"404 Not Found"}},
		{"truncated", good, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "1000000")
			w.Write(data[:len(data)/2])
		}, []string{"unexpected EOF"}},
		{"too short", good, answer(data[:len(data)-1]), []string{"bytes, got"}},
		{"too long", good, answer(append(bytes.Clone(data), 0)), []string{"got more"}},
		{"wrong sha256", good, answer(wrong), []string{"want sha256 " + good.sha256}},
		{"a web page", good, answer([]byte("<html>log in</html>")), []string{"bytes, got 19"}},
		{"stalled", good, func(w http.ResponseWriter, r *http.Request) {
			w.Write(data[:10])
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, []string{"nothing came for 50ms"}},
		{"no library", without, withoutAnswer, []string{"x.tgz has no file " + entry}},
		{"another version", older, olderAnswer, []string{`want version 1.30.0, got "1.29.0"`}},
		{"half a library", cut, cutAnswer, []string{"truncated"}},
	}
	if runtime.GOOS == "linux" {
		foreign := bytes.Clone(library)
		binary.LittleEndian.PutUint16(foreign[18:], 8) // e_machine: MIPS
		a, answer := of(entry, foreign)
		tests = append(tests, struct {
			name    string
			archive archive
			answer  http.HandlerFunc
			words   []string
		}{"another machine", a, answer, []string{"built for linux/mips"}})
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := Config{CacheDir: tempDir(t), GitHubURL: serve(t, test.answer), StallTimeout: time.Minute}
			if test.name == "stalled" {
				c.StallTimeout = 50 * time.Millisecond
			}
			_, err := c.install(t.Context(), c.routes(pins{github: test.archive})[:1])
			var failed *InstallError
			if !errors.As(err, &failed) || len(failed.Tried) != 1 {
				t.Fatalf("got %v, want an InstallError", err)
			}
			testerr.OneLine(t, err, append(test.words, "GitHub release: ", EnvLibrary)...)
			if names := leftovers(t, c); len(names) != 0 {
				t.Errorf("left %q", names)
			}
		})
	}
}

func TestFailedCommandsAreReported(t *testing.T) {
	a := archive{name: "x.tgz", size: 1 << 20, sha256: "00", entry: "x"}
	for mode, words := range map[string][]string{
		"fail":    {"exit status 3", "error: no such package, it says"},
		"nothing": {"left no file x.tgz"},
		"hang":    {"did not finish in 100ms"},
		"missing": {"no-such-command", "not found"},
	} {
		t.Run(mode, func(t *testing.T) {
			command := []string{"no-such-command"}
			if mode != "missing" {
				command = helper(t, mode, "")
			}
			c := Config{CacheDir: tempDir(t), Pip: command, CommandTimeout: time.Minute}
			if mode == "hang" {
				c.CommandTimeout = 100 * time.Millisecond
			}
			_, err := c.install(t.Context(), c.routes(pins{wheel: a})[1:])
			testerr.OneLine(t, err, append(words, "PyPI wheel: ")...)
			if names := leftovers(t, c); len(names) != 0 {
				t.Errorf("left %q", names)
			}
		})
	}
}

func TestInstallingCanBeCancelled(t *testing.T) {
	a := archive{name: "x.tgz", size: 1 << 20}
	for _, name := range []string{"download", "command", "lock"} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			time.AfterFunc(100*time.Millisecond, cancel)
			c := Config{CacheDir: tempDir(t),
				GitHubURL: serve(t, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })}
			routes := c.routes(pins{github: a, wheel: a})
			switch name {
			case "command":
				c.Pip = helper(t, "hang", "")
				routes = c.routes(pins{wheel: a})[1:]
			case "lock":
				dir, _ := c.installDir()
				if err := os.MkdirAll(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				unlock, err := c.lock(t.Context(), dir)
				if err != nil {
					t.Fatal(err)
				}
				defer unlock()
			}
			start := time.Now()
			_, err := c.install(ctx, routes)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			testerr.OneLine(t, err)
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("cancelling took %v", took)
			}
			if names := leftovers(t, c); len(names) != 0 {
				t.Errorf("left %q", names)
			}
		})
	}
}

func TestConcurrentInstallationsDownloadOnce(t *testing.T) {
	library, err := os.ReadFile(fakeLibrary(t, PinnedVersion, ""))
	if err != nil {
		t.Fatal(err)
	}
	a, file := pack(t, "x.tgz", "x/library", library)
	var downloads atomic.Int32
	c := Config{CacheDir: tempDir(t), GitHubURL: serve(t, func(w http.ResponseWriter, r *http.Request) {
		downloads.Add(1)
		http.ServeFile(w, r, file)
	})}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := c.install(t.Context(), c.routes(pins{github: a})); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := downloads.Load(); n != 1 {
		t.Errorf("%d downloads, want 1", n)
	}
	c.Force = true
	if _, err := c.install(t.Context(), c.routes(pins{github: a})); err != nil || downloads.Load() != 2 {
		t.Errorf("by force: %v, after %d downloads", err, downloads.Load())
	}
}

func TestInstallingReplacesABrokenLibraryAndClearsAway(t *testing.T) {
	library, err := os.ReadFile(fakeLibrary(t, PinnedVersion, ""))
	if err != nil {
		t.Fatal(err)
	}
	a, file := pack(t, "x.tgz", "x/library", library)
	c := Config{CacheDir: tempDir(t),
		GitHubURL: serve(t, func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, file) })}
	dir, _ := c.installDir()
	killed := filepath.Join(dir, ".mfgs-0123456789abcdef.tmp")
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(killed, "new", "archive"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(killed, "lock"), []byte(host), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, libraryName(runtime.GOOS)), library[:1000], 0o755); err != nil {
		t.Fatal(err)
	}
	got, err := c.install(t.Context(), c.routes(pins{github: a}))
	if err != nil {
		t.Fatal(err)
	}
	if installed, err := os.ReadFile(got.Path); err != nil || !bytes.Equal(installed, library) {
		t.Errorf("the broken library is still there (%v)", err)
	}
	if names := leftovers(t, c); len(names) != 1 {
		t.Errorf("left %q", names)
	}
}

func TestAFullDiskEndsTheAttempts(t *testing.T) {
	c := Config{CacheDir: tempDir(t)}
	full := route{"first", archive{}, func(context.Context, archive, string) error {
		return &fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}
	}}
	never := route{"second", archive{}, func(context.Context, archive, string) error {
		t.Error("the next route was tried on a full disk")
		return nil
	}}
	_, err := c.install(t.Context(), []route{full, never})
	testerr.OneLine(t, err, "no space left on device")
	if names := leftovers(t, c); len(names) != 0 {
		t.Errorf("left %q", names)
	}
}

func TestACacheThatCannotBeWrittenIsNamed(t *testing.T) {
	file := filepath.Join(tempDir(t), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := Config{CacheDir: filepath.Join(file, "cache")}
	_, err := Install(t.Context(), c)
	testerr.OneLine(t, err, file, EnvLibrary)
	if runtime.GOOS == "linux" {
		t.Setenv("HOME", "")
		t.Setenv("XDG_CACHE_HOME", "")
		_, err = Install(t.Context(), Config{})
		testerr.OneLine(t, err, "no cache folder", "HOME")
	}
}

func TestEnsureInstallsOnlyWhereAllowed(t *testing.T) {
	file := filepath.Join(tempDir(t), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(EnvLibrary, "")
	t.Setenv(EnvNoInstall, "")
	// A cache that cannot be: an attempt to install fails at once.
	c := Config{CacheDir: filepath.Join(file, "cache")}
	_, err := c.ensure(t.Context(), nil)
	var missing *NotFoundError
	if !errors.As(err, &missing) || missing.Forbidden {
		t.Errorf("got %v, want a NotFoundError", err)
	}
	testerr.OneLine(t, err, "no ONNX Runtime 1.24 or newer found", "run `mfgs setup`", EnvLibrary, libraryName(runtime.GOOS))
	c.Install = true
	_, err = c.ensure(t.Context(), nil)
	testerr.OneLine(t, err, "cannot install")
	t.Setenv(EnvNoInstall, "1")
	_, err = c.ensure(t.Context(), nil)
	if !errors.As(err, &missing) || !missing.Forbidden {
		t.Errorf("got %v, want a NotFoundError that says why", err)
	}
	testerr.OneLine(t, err, EnvNoInstall+" forbids", EnvLibrary)
}

func TestTheEnvironmentForbidsInstalling(t *testing.T) {
	for _, value := range []string{"1", "true", "yes"} {
		t.Setenv(EnvNoInstall, value)
		if !noInstall() {
			t.Errorf("%s=%s allows installing", EnvNoInstall, value)
		}
		cache := tempDir(t)
		_, err := Install(t.Context(), Config{CacheDir: cache})
		testerr.OneLine(t, err, EnvNoInstall)
		if entries, _ := os.ReadDir(cache); len(entries) != 0 {
			t.Errorf("a forbidden installation left %v", entries)
		}
	}
	for _, value := range []string{"", "0", "false", "False"} {
		t.Setenv(EnvNoInstall, value)
		if noInstall() {
			t.Errorf("%s=%s forbids installing", EnvNoInstall, value)
		}
	}
}

func TestATooLargeLibraryIsNotUnpacked(t *testing.T) {
	dst := filepath.Join(tempDir(t), "x")
	err := writeLibrary(t.Context(), endless{}, dst, 1<<20)
	testerr.OneLine(t, err, "larger than 1048576 bytes")
	if st, err := os.Stat(dst); err != nil || st.Size() > 1<<20+1 {
		t.Errorf("%v, %v", st, err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }
