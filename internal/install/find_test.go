package install

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/internal/testerr"
)

func TestTooOld(t *testing.T) {
	for version, want := range map[string]bool{
		"1.24.0": false, "1.24.3": false, "1.30.0": false, "2.0.0": false, "1.100.0": false,
		"1.23.2": true, "1.9.0": true, "0.99.0": true, "": false, "unknown": false,
	} {
		if got := tooOld(version); got != want {
			t.Errorf("tooOld(%q) = %v, want %v", version, got, want)
		}
	}
}

// Each place in turn has the library; the content of later places does not matter.
func TestSearchTakesTheFirstPlace(t *testing.T) {
	lib := fakeLibrary(t, "1.30.0", "")
	var all []place
	root := tempDir(t)
	for _, source := range []string{SourceExecutable, SourceCache, SourceSystem, SourcePython} {
		folder := filepath.Join(root, source)
		put(t, lib, folder)
		all = append(all, place{source, func() []string { return []string{folder} }})
	}
	for i, p := range all {
		got, err := search(all[i:])
		if err != nil {
			t.Fatal(err)
		}
		want := Library{Path: filepath.Join(root, p.source, libraryName(runtime.GOOS)), Version: "1.30.0", Source: p.source}
		if got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

func TestFindLooksInThePlacesInOrder(t *testing.T) {
	dir := tempDir(t)
	at := func(elem ...string) string {
		path := filepath.Join(append([]string{dir}, elem...)...)
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("VIRTUAL_ENV", at("venv"))
	t.Setenv("CONDA_PREFIX", at("conda"))
	systemPath := map[string]string{"windows": "PATH", "darwin": "DYLD_LIBRARY_PATH"}[runtime.GOOS]
	if systemPath == "" {
		systemPath = "LD_LIBRARY_PATH"
	}
	t.Setenv(systemPath, at("system")+string(filepath.ListSeparator)+"relative")
	want := []struct {
		source  string
		folders []string
	}{
		{SourceExecutable, []string{filepath.Dir(exe)}},
		{SourceCache, []string{filepath.Join(dir, "onnxruntime", PinnedVersion, runtime.GOOS+"-"+runtime.GOARCH)}},
		{SourceSystem, []string{at("system")}},
		{SourcePython, []string{
			filepath.Join(at("venv", "lib", "python3.12", "site-packages"), "onnxruntime", "capi"),
			filepath.Join(at("conda", "lib", "python3.11", "site-packages"), "onnxruntime", "capi"),
		}},
	}
	got := places(Config{CacheDir: dir})
	if len(got) != len(want) {
		t.Fatalf("%d places, want %d", len(got), len(want))
	}
	for i, w := range want {
		folders := got[i].folders()
		if got[i].source != w.source {
			t.Errorf("place %d is %s, want %s", i, got[i].source, w.source)
		}
		for _, folder := range w.folders {
			if !slices.Contains(folders, folder) {
				t.Errorf("%s does not look in %s, only in %s", w.source, folder, folders)
			}
		}
		for _, folder := range folders {
			if !filepath.IsAbs(folder) {
				t.Errorf("%s looks in %q, which depends on the current folder", w.source, folder)
			}
		}
	}
}

func TestPythonIsAsked(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the fake Python of this test is a shell script")
	}
	bin := tempDir(t)
	script := "#!/bin/sh\n[ \"$1\" = -I ] && echo /somewhere/onnxruntime\n"
	if err := os.WriteFile(filepath.Join(bin, "python3"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin)
	if got, want := askPython(), "/somewhere/onnxruntime/capi"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := os.WriteFile(filepath.Join(bin, "python3"), []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got := askPython(); got != "" {
		t.Errorf("a Python without onnxruntime: got %q", got)
	}
	// The python3 of Windows only says where to buy Python, which is beside it under another name.
	if err := os.WriteFile(filepath.Join(bin, "python"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if got, want := askPython(), "/somewhere/onnxruntime/capi"; got != want {
		t.Errorf("python, where python3 fails: got %q, want %q", got, want)
	}
}

func TestPipIsFoundByItsNameOrByPythons(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the replacements are shell scripts")
	}
	for _, test := range []struct {
		programs []string
		want     string
	}{
		{nil, "pip"},
		{[]string{"python"}, "python -m pip"},
		{[]string{"python", "python3"}, "python3 -m pip"},
		{[]string{"python", "python3", "pip"}, "pip"},
		{[]string{"pip", "pip3"}, "pip3"},
	} {
		bin := t.TempDir()
		t.Setenv("PATH", bin)
		for _, name := range test.programs {
			if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if got := strings.Join(findPip(), " "); got != test.want {
			t.Errorf("with %v: got %q, want %q", test.programs, got, test.want)
		}
	}
}

func TestFlagGoesBeforeEnvironmentBeforeTheRest(t *testing.T) {
	lib := fakeLibrary(t, "1.30.0", "")
	flag, env, cache := put(t, lib, tempDir(t)), put(t, lib, tempDir(t)), tempDir(t)
	c := Config{CacheDir: cache}
	dir, err := c.installDir()
	if err != nil {
		t.Fatal(err)
	}
	put(t, lib, dir)
	t.Setenv(EnvLibrary, env)
	for _, test := range []struct {
		name, flag, env, path, source string
	}{
		{"flag and environment", flag, env, flag, SourceFlag},
		{"flag naming a folder", filepath.Dir(flag), env, flag, SourceFlag},
		{"environment", "", env, env, SourceEnvironment},
		{"environment naming a folder", "", filepath.Dir(env), env, SourceEnvironment},
		{"neither", "", "", filepath.Join(dir, libraryName(runtime.GOOS)), SourceCache},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv(EnvLibrary, test.env)
			got, err := Find(Config{CacheDir: cache, Flag: test.flag})
			if err != nil {
				t.Fatal(err)
			}
			if want := (Library{Path: test.path, Version: "1.30.0", Source: test.source}); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

// Unfit is a file that is not a usable library, and why.
type Unfit struct{ Path, Reason string }

// unusable makes one file of each kind that is not a usable library.
func unusable(t testing.TB) map[string]Unfit {
	good, err := os.ReadFile(fakeLibrary(t, "1.30.0", ""))
	if err != nil {
		t.Fatal(err)
	}
	write := func(data []byte) string {
		path := filepath.Join(tempDir(t), libraryName(runtime.GOOS))
		if err := os.WriteFile(path, data, 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	kinds := map[string]Unfit{
		"missing":      {filepath.Join(tempDir(t), "none.so"), "no such file"},
		"empty":        {write(nil), "not a shared library"},
		"text":         {write([]byte("hello, world")), "not a shared library"},
		"truncated":    {write(good[:len(good)/2]), "truncated"},
		"headers only": {write(good[:100]), "truncated"},
		"other":        {compile(t, "1.30.0", "int answer(void) { return 42; }"), "has no OrtGetApiBase"},
		"old":          {fakeLibrary(t, "1.17.1", ""), "1.17.1 is too old"},
	}
	if runtime.GOOS == "linux" {
		foreign := bytes.Clone(good)
		binary.LittleEndian.PutUint16(foreign[18:], 8) // e_machine: MIPS
		kinds["foreign machine"] = Unfit{write(foreign), "built for linux/mips"}
	}
	return kinds
}

func TestAnExplicitChoiceIsRefusedWhenUnusable(t *testing.T) {
	good := fakeLibrary(t, "1.30.0", "")
	cache := tempDir(t)
	c := Config{CacheDir: cache}
	dir, err := c.installDir()
	if err != nil {
		t.Fatal(err)
	}
	put(t, good, dir) // which must not be taken instead
	for name, kind := range unusable(t) {
		t.Run(name, func(t *testing.T) {
			for _, source := range []string{SourceFlag, SourceEnvironment} {
				c := Config{CacheDir: cache, Install: true}
				if source == SourceFlag {
					c.Flag = kind.Path
				} else {
					t.Setenv(EnvLibrary, kind.Path)
				}
				_, err := Ensure(t.Context(), c)
				var refused *LibraryError
				if !errors.As(err, &refused) || refused.Source != source {
					t.Fatalf("%s: got %v, want a LibraryError", source, err)
				}
				testerr.OneLine(t, err, kind.Path, kind.Reason, "1.24 or newer")
			}
		})
	}
	t.Run("empty folder", func(t *testing.T) {
		_, err := Find(Config{Flag: tempDir(t)})
		testerr.OneLine(t, err, "a folder without "+libraryName(runtime.GOOS))
	})
}

func TestUnusableLibrariesFoundByTheSearchAreSkipped(t *testing.T) {
	good := put(t, fakeLibrary(t, "1.25.1", ""), tempDir(t))
	for name, kind := range unusable(t) {
		if name == "missing" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			bad := put(t, kind.Path, tempDir(t))
			folders := []string{filepath.Join(tempDir(t), "none"), filepath.Dir(bad)}
			_, err := search([]place{{SourceSystem, func() []string { return folders }}})
			var missing *NotFoundError
			if !errors.As(err, &missing) {
				t.Fatalf("got %v, want a NotFoundError", err)
			}
			testerr.OneLine(t, err, "skipped: "+bad, kind.Reason, "mfgs setup", EnvLibrary)
			folders = append(folders, filepath.Dir(good))
			got, err := search([]place{{SourceSystem, func() []string { return folders }}})
			if err != nil || got.Path != good {
				t.Errorf("got %v, %v; want %s", got, err, good)
			}
		})
	}
}

func TestTheNewestOfAFolderIsTaken(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the names are those of Linux")
	}
	dir := tempDir(t)
	put(t, fakeLibrary(t, "1.24.3", ""), dir, "libonnxruntime.so.1.24.3")
	want := put(t, fakeLibrary(t, "1.100.0", ""), dir, "libonnxruntime.so.1.100.0")
	put(t, fakeLibrary(t, "1.30.0", ""), dir, "libonnxruntime.so.1.30.0")
	put(t, fakeLibrary(t, "1.200.0", ""), dir, "libonnxruntime_providers_shared.so")
	if err := os.Symlink("libonnxruntime.so.1.24.3", filepath.Join(dir, "libonnxruntime.so")); err != nil {
		t.Fatal(err)
	}
	got, err := search([]place{{SourceSystem, func() []string { return []string{dir} }}})
	if err != nil || got.Path != want {
		t.Errorf("got %v, %v; want %s", got, err, want)
	}
}

// The version of a library without symbol versions is taken from its name, or is unknown. One that is chosen
// explicitly is left to Load.
func TestAVersionIsReadFromTheNameOrNot(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the names are those of Linux")
	}
	silent := fakeLibrary(t, "", "")
	named := put(t, silent, tempDir(t), "libonnxruntime.so.1.26.0")
	unnamed := put(t, silent, tempDir(t))
	if got, err := search([]place{{SourceSystem,
		func() []string { return []string{filepath.Dir(named)} }}}); err != nil || got.Version != "1.26.0" {
		t.Errorf("got %v, %v; want version 1.26.0", got, err)
	}
	_, err := search([]place{{SourceSystem, func() []string { return []string{filepath.Dir(unnamed)} }}})
	testerr.OneLine(t, err, "does not report its version")
	if got, err := Find(Config{Flag: unnamed}); err != nil || got.Version != "" {
		t.Errorf("got %v, %v; want it without a version", got, err)
	}
}

func TestLinkerFolders(t *testing.T) {
	dir := tempDir(t)
	conf := filepath.Join(dir, "ld.so.conf")
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(conf, "# comment\n/first # and why\n\nrelative\ninclude conf.d/*.conf\ninclude ld.so.conf\n/last\n")
	if err := os.Mkdir(filepath.Join(dir, "conf.d"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(filepath.Join(dir, "conf.d", "x.conf"), "/included\n")
	got := linkerFolders(conf, 0)
	if want := []string{"/first", "/included", "/first"}; len(got) < 3 || !slices.Equal(got[:3], want) || got[len(got)-1] != "/last" {
		t.Errorf("got %q", got)
	}
	if len(got) > 30 {
		t.Errorf("a file that includes itself gives %d folders", len(got))
	}
}

// The real library is distinguished from each of its prefixes.
func TestATruncatedRealLibraryIsRefused(t *testing.T) {
	real, err := Find(Config{})
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(real.Path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := inspect(bytes.NewReader(data), int64(len(data)), runtime.GOOS, runtime.GOARCH); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 4, 63, 64, 1000, 1 << 20, len(data) / 2, len(data) - 100_000, len(data) - 1} {
		if version, err := inspect(bytes.NewReader(data[:n]), int64(n), runtime.GOOS, runtime.GOARCH); err == nil {
			t.Errorf("the first %d of %d bytes pass as version %q", n, len(data), version)
		}
	}
}

func FuzzInspect(f *testing.F) {
	data, err := os.ReadFile(fakeLibrary(f, "1.30.0", ""))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add(data[:200])
	f.Add([]byte("MZ"))
	f.Add(append([]byte{0xcf, 0xfa, 0xed, 0xfe}, make([]byte, 100)...))
	f.Add(append([]byte{0xca, 0xfe, 0xba, 0xbe}, make([]byte, 100)...))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, goos := range []string{"linux", "darwin", "windows"} {
			version, err := inspect(bytes.NewReader(data), int64(len(data)), goos, "amd64")
			if err != nil && version != "" {
				t.Errorf("both version %q and error %v", version, err)
			}
		}
	})
}
