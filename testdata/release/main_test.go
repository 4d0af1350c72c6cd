package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/csv"
	"fmt"
	"io"
	"net/mail"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	noon  = time.Date(2026, 3, 4, 12, 34, 56, 789, time.FixedZone("", 3600))
	small = []file{
		{"mfgs-1.2.3/mfgs", []byte("\x7fELF"), true},
		{"mfgs-1.2.3/share/man/man1/mfgs.1", bytes.Repeat([]byte("line\n"), 1000), false},
	}
)

// twice checks that a writer writes the same bytes in different time zones, and returns them.
func twice(t *testing.T, write func(io.Writer, time.Time) error) []byte {
	t.Helper()
	var a, b bytes.Buffer
	if err := write(&a, noon); err != nil {
		t.Fatal(err)
	}
	if err := write(&b, noon.UTC()); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Error("the bytes depend on the time zone, or on chance")
	}
	return a.Bytes()
}

func TestATarIsReproducible(t *testing.T) {
	t.Parallel()
	data := twice(t, func(w io.Writer, at time.Time) error { return writeTar(w, small, at) })
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if z.Name != "" || !z.ModTime.IsZero() {
		t.Errorf("gzip's header has %q and %v", z.Name, z.ModTime)
	}
	r := tar.NewReader(z)
	for _, want := range small {
		h, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if h.Name != want.name || !bytes.Equal(got, want.data) || h.Mode != want.mode() {
			t.Errorf("got %s of mode %o with %d bytes, want %s of mode %o with %d", h.Name, h.Mode, len(got), want.name, want.mode(), len(want.data))
		}
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.Gname != "" || !h.ModTime.Equal(noon.Truncate(time.Second)) {
			t.Errorf("%s: owner %d %q, group %d %q, changed %v", h.Name, h.Uid, h.Uname, h.Gid, h.Gname, h.ModTime)
		}
	}
	if _, err := r.Next(); err != io.EOF {
		t.Errorf("after the last file: %v", err)
	}
}

func TestAZipIsReproducibleAndKeepsModes(t *testing.T) {
	t.Parallel()
	data := twice(t, func(w io.Writer, at time.Time) error { return writeZip(w, small, at) })
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	if len(z.File) != len(small) {
		t.Fatalf("%d files, want %d", len(z.File), len(small))
	}
	for i, want := range small {
		f := z.File[i]
		got, mode := readZipped(t, f), f.Mode()
		if f.Name != want.name || !bytes.Equal(got, want.data) ||
			!mode.IsRegular() || int64(mode.Perm()) != want.mode() {
			t.Errorf("got %s of mode %v with %d bytes, want %s of mode %o with %d", f.Name, f.Mode(), len(got), want.name, want.mode(), len(want.data))
		}
		if at := noon.UTC().Truncate(2 * time.Second); !f.Modified.Equal(at) {
			t.Errorf("%s: changed %v, want %v", f.Name, f.Modified, at)
		}
	}
}

func readZipped(t *testing.T, f *zip.File) []byte {
	t.Helper()
	r, err := f.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// script is a wheel whose program is a shell script.
func script() wheel {
	return wheel{
		version: "1.2.3", tags: []string{"manylinux_2_17_x86_64", "manylinux2014_x86_64"},
		program:  file{"mfgs", []byte("#!/bin/sh\necho program \"$@\"\n"), true},
		data:     []file{{"share/man/man1/mfgs.1", []byte(".TH MFGS"), false}},
		modules:  []file{{"mfgs/__init__.py", []byte("answer = 42\n"), false}},
		licences: []file{{"LICENSE", []byte("Apache"), false}},
		bill:     []byte("{}"), readme: []byte("# mfgs\n\nwörds\n"),
	}
}

func TestAWheelFollowsTheSpecification(t *testing.T) {
	t.Parallel()
	data := twice(t, script().write)
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	held := map[string][]byte{}
	for _, f := range z.File {
		if held[f.Name] != nil {
			t.Errorf("%s is there twice", f.Name)
		}
		held[f.Name] = readZipped(t, f)
		if executable := f.Mode()&0o111 != 0; executable != (f.Name == "mfgs-1.2.3.data/scripts/mfgs") {
			t.Errorf("%s has mode %v", f.Name, f.Mode())
		}
	}
	const info = "mfgs-1.2.3.dist-info/"
	for _, name := range []string{
		"mfgs-1.2.3.data/scripts/mfgs", "mfgs-1.2.3.data/data/share/man/man1/mfgs.1", "mfgs/__init__.py",
		info + "METADATA", info + "WHEEL", info + "RECORD", info + "licenses/LICENSE", info + "sboms/mfgs.cdx.json",
	} {
		if held[name] == nil {
			t.Errorf("there is no %s", name)
		}
	}
	rows, err := csv.NewReader(bytes.NewReader(held[info+"RECORD"])).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != len(held) {
		t.Errorf("RECORD has %d rows for %d files", len(rows), len(held))
	}
	for _, row := range rows {
		content := held[row[0]]
		sum := sha256.Sum256(content)
		want := []string{row[0], "sha256=" + base64.RawURLEncoding.EncodeToString(sum[:]), fmt.Sprint(len(content))}
		if row[0] == info+"RECORD" {
			want = []string{row[0], "", ""}
		}
		if content == nil || !slices.Equal(row, want) {
			t.Errorf("RECORD has %v, want %v", row, want)
		}
	}
	for name, want := range map[string]map[string][]string{
		"WHEEL": {"Wheel-Version": {"1.0"}, "Root-Is-Purelib": {"false"},
			"Tag": {"py3-none-manylinux_2_17_x86_64", "py3-none-manylinux2014_x86_64"}},
		"METADATA": {"Metadata-Version": {"2.4"}, "Name": {"mfgs"}, "Version": {"1.2.3"}, "License-File": {"LICENSE"}},
	} {
		m, err := mail.ReadMessage(bytes.NewReader(append(held[info+name], '\n')))
		if err != nil {
			t.Fatal(err)
		}
		for field, values := range want {
			if got := m.Header[field]; !slices.Equal(got, values) {
				t.Errorf("%s: %s is %q, want %q", name, field, got, values)
			}
		}
	}
}

// Skipped without pip, which release machines have.
func TestPipInstallsAWheel(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("the wheel of this test is for linux/amd64")
	}
	if err := exec.Command("python3", "-m", "pip", "--version").Run(); err != nil {
		t.Skip("there is no pip: ", err)
	}
	dir := t.TempDir()
	name := filepath.Join(dir, platforms[0].wheel("1.2.3"))
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := script().write(f, noon); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	prefix := filepath.Join(dir, "prefix")
	pip := exec.Command("python3", "-m", "pip", "install", "--quiet", "--no-index", "--no-warn-script-location", "--prefix", prefix, name)
	if out, err := pip.CombinedOutput(); err != nil {
		t.Fatalf("pip: %v\n%s", err, out)
	}
	found, err := filepath.Glob(filepath.Join(prefix, "*", "bin", "mfgs"))
	if err != nil {
		t.Fatal(err)
	}
	if found = append(found, filepath.Join(prefix, "bin", "mfgs")); len(found) > 1 {
		found = found[:1] // Debian's pip puts it below prefix/local
	}
	out, err := exec.Command(found[0], "demo").CombinedOutput()
	if err != nil || string(out) != "program demo\n" {
		t.Errorf("the program that was installed says %q, %v", out, err)
	}
	modules, err := filepath.Glob(filepath.Join(prefix, "*", "*", "*", "*", "mfgs", "__init__.py"))
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob(filepath.Join(prefix, "*", "*", "*", "mfgs", "__init__.py"))
	if err != nil || len(modules)+len(more) != 1 {
		t.Errorf("the package was installed as %q and %q, %v", modules, more, err)
	}
}

func TestFilesAreNamedForVersionAndPlatform(t *testing.T) {
	t.Parallel()
	for i, want := range []struct{ archive, wheel string }{
		{"mfgs-0.1.0-linux-amd64.tar.gz", "mfgs-0.1.0-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"},
		{"mfgs-0.1.0-linux-arm64.tar.gz", "mfgs-0.1.0-py3-none-manylinux_2_17_aarch64.manylinux2014_aarch64.whl"},
		{"mfgs-0.1.0-darwin-amd64.tar.gz", "mfgs-0.1.0-py3-none-macosx_12_0_x86_64.whl"},
		{"mfgs-0.1.0-darwin-arm64.tar.gz", "mfgs-0.1.0-py3-none-macosx_12_0_arm64.whl"},
		{"mfgs-0.1.0-windows-amd64.tar.gz", "mfgs-0.1.0-py3-none-win_amd64.whl"},
	} {
		p := platforms[i]
		if got := p.archive("0.1.0", ".tar.gz"); got != want.archive {
			t.Errorf("got %s, want %s", got, want.archive)
		}
		if got := p.wheel("0.1.0"); got != want.wheel {
			t.Errorf("got %s, want %s", got, want.wheel)
		}
	}
}

func TestVersionsAndPlatformsAreChecked(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{
		"0.1.0": true, "1.20.300": true, "v0.1.0": false, "0.1": false, "0.1.0rc1": false, "": false, "0.01.0": false, "0..1": false, "1.2.-3": false,
	} {
		if got := isVersion(version); got != want {
			t.Errorf("isVersion(%q) = %v, want %v", version, got, want)
		}
	}
	out := filepath.Join(t.TempDir(), "dist")
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"-version", "0.1.0", "-only", "plan9/amd64", "-out", out}, `no release for "plan9/amd64"`},
		{[]string{"-version", "1", "-out", out}, `-version "1": want three numbers`},
		{[]string{"-version", "0.1.0", "-out", t.TempDir()}, "exists: remove it"},
	} {
		err := run(context.Background(), test.args, io.Discard)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: got %v, want %q", test.args, err, test.want)
		}
	}
}

func TestGlibcVersionsAreCompared(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		a, b string
		want bool
	}{
		{"2.2.5", "2.17", false}, {"2.17", "2.17", false}, {"2.18", "2.17", true}, {"2.4", "2.17", false}, {"2.34", "2.17", true}, {"PRIVATE", "2.17", true},
	} {
		if got := newer(test.a, test.b); got != test.want {
			t.Errorf("newer(%s, %s) = %v, want %v", test.a, test.b, got, test.want)
		}
	}
}

// Programs compiled here contain the folder name, which must not be released.
func TestProgramsThatContainFolderNamesAreRefused(t *testing.T) {
	t.Parallel()
	program := []byte("… /home/somebody/go/src …")
	err := platforms[0].examine(program, "", "/home/somebody")
	if err == nil || !strings.Contains(err.Error(), "/home/somebody") {
		t.Errorf("got %v", err)
	}
	for _, p := range platforms {
		if err := p.examine(program); err == nil {
			t.Errorf("%s: text passes for a program", p)
		}
	}
}

// The test program needs no library that a release may not.
func TestTheTestProgramNeedsOnlyAllowedLibraries(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("a program of Linux is examined")
	}
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(executable)
	if err != nil {
		t.Fatal(err)
	}
	// Its glibc may be newer than the floor; either way the required version must be reported.
	own := slices.IndexFunc(platforms, platform.own)
	if own < 0 {
		t.Fatalf("there is no release for %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	if err := platforms[own].examine(data); err != nil && !strings.Contains(err.Error(), "want no newer than 2.17") {
		t.Error(err)
	}
}

// The functions are found in the packages of Go.
func TestStubsNameTheFunctionsThatGoCalls(t *testing.T) {
	t.Parallel()
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	flags, err := writeStubs(dir, strings.TrimSpace(string(goroot)))
	if err != nil {
		t.Fatal(err)
	}
	include := filepath.Join(dir, "include")
	if want := (stubs{" -isystem " + include, "-F" + dir + " -L" + dir}); flags != want {
		t.Errorf("flags %q, want %q", flags, want)
	}
	for name, wants := range map[string][]string{
		"libresolv.tbd": {"'/usr/lib/libresolv.9.dylib'", "_res_9_ninit"},
		"Security.framework/Security.tbd": {
			"'/System/Library/Frameworks/Security.framework/Versions/A/Security'", "_SecTrustEvaluateWithError"},
		"CoreFoundation.framework/CoreFoundation.tbd": {"_CFRelease"},
		"include/mach/mach_vm.h":                      {"mach_vm_region("},
	} {
		text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s has no %s:\n%s", name, want, text)
			}
		}
	}
}

// The clone has the commit and the version tag, and no untracked files.
func TestTheCommitIsCloned(t *testing.T) {
	dir := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	git("init", "-q")
	write("go.mod", "committed")
	git("add", ".")
	git("commit", "-q", "-m", "One")
	write("go.mod", "changed")
	write("more", "untracked")
	t.Chdir(dir)
	s, err := clone(t.Context(), "1.2.3", filepath.Join(t.TempDir(), "clone"))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := s.read("go.mod"); err != nil || string(text) != "committed" {
		t.Errorf("go.mod is %q, %v", text, err)
	}
	if _, err := s.read("more"); err == nil {
		t.Error("a file that is not of the commit is there")
	}
	tags, err := exec.Command("git", "-C", s.dir, "tag").Output()
	if err != nil || string(tags) != "v1.2.3\n" {
		t.Errorf("tags %q, %v", tags, err)
	}
	git("tag", "v9.9.9")
	if _, err := clone(t.Context(), "1.2.3", filepath.Join(t.TempDir(), "clone")); err == nil || !strings.Contains(err.Error(), "v9.9.9") {
		t.Errorf("a commit tagged otherwise: %v", err)
	}
}

func TestEmulatedProgramsSeeNoProcessorList(t *testing.T) {
	t.Parallel()
	libraries, root := t.TempDir(), filepath.Join(t.TempDir(), "root")
	for _, name := range []string{"lib/ld-linux-aarch64.so.1", "sys/devices/system/cpu/possible"} {
		name = filepath.Join(libraries, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte("0-1"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := emulated(libraries, root); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"lib/ld-linux-aarch64.so.1": "0-1", "sys/devices/system/cpu/possible": "", "sys/devices/system/cpu/present": "",
	} {
		got, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v, want %q", name, got, err, want)
		}
	}
}

// Go needs more than an old Wine has.
func TestAnOldWineIsSkipped(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the replacement for Wine is a shell script")
	}
	p := platforms[slices.IndexFunc(platforms, func(p platform) bool { return p.goos == "windows" })]
	for _, test := range []struct{ says, how, err string }{
		{oldWine, "not run: this wine has no bcryptprimitives.dll", ""},
		{"panic: another", "", "panic: another"},
	} {
		out, dir, bin := t.TempDir(), t.TempDir(), t.TempDir()
		for name, text := range map[string]string{
			"python3": "cp " + filepath.Join(dir, "empty.zip") + " onnxruntime-1.whl",
			"wine64":  "echo '" + test.says + "' >&2; exit 2",
		} {
			if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		var empty bytes.Buffer
		if err := writeZip(&empty, nil, noon); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{filepath.Join(dir, "empty.zip"), filepath.Join(out, p.wheel("1.2.3"))} {
			if err := os.WriteFile(name, empty.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv("PATH", bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
		r := &release{version: "1.2.3", log: io.Discard}
		how, err := r.tryOne(t.Context(), p, out, dir)
		if test.err == "" && (err != nil || !strings.HasPrefix(how, test.how)) {
			t.Errorf("wine says %q: tried as %q, %v, want %q", test.says, how, err, test.how)
		}
		if test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
			t.Errorf("wine says %q: got %v", test.says, err)
		}
	}
}

func TestLicencesAreFoundOrMissed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"LICENSE.txt", "license_test.go", "NOTICE", "README.md", "LICENSE-APACHE"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("of "+name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var text strings.Builder
	if err := addLicences(&text, "module v1", dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"LICENSE.txt": true, "NOTICE": true, "LICENSE-APACHE": true, "README.md": false, "license_test.go": false} {
		if got := strings.Contains(text.String(), "of "+name); got != want {
			t.Errorf("%s is there: %v, want %v", name, got, want)
		}
	}
	if err := addLicences(&text, "module v1", t.TempDir()); err == nil {
		t.Error("a module without a licence is linked")
	}
}

// An existing folder stays.
func TestAReleaseIsPublishedAtomically(t *testing.T) {
	t.Parallel()
	from, dir := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(from, "a"), []byte("one"), 0o644); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(dir, "dist")
	if err := publish(from, to); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(from, "a"), []byte("two"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := publish(from, to); err == nil {
		t.Error("what was there is replaced")
	}
	got, err := os.ReadFile(filepath.Join(to, "a"))
	if err != nil || string(got) != "one" {
		t.Errorf("%q, %v", got, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%d entries are left, %v", len(entries), err)
	}
}
