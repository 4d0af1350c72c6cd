package files

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// draftEnv names the folder in which the test binary, started once more, makes a draft and waits.
const draftEnv = "FILES_TEST_DRAFT"

func TestMain(m *testing.M) {
	if dir := os.Getenv(draftEnv); dir != "" {
		d, err := NewDraft(dir)
		if err == nil {
			err = d.Put("big", func(w io.Writer) error { _, err := w.Write(make([]byte, 1<<16)); return err })
		}
		fmt.Println("ready", err)
		time.Sleep(time.Hour)
	}
	os.Exit(m.Run())
}

// startDraft starts a process that holds a draft in dir, and returns what kills it.
func startDraft(t *testing.T, dir string) (kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), draftEnv+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() { cmd.Process.Kill(); cmd.Wait() })
	t.Cleanup(kill)
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready <nil>\n" {
		t.Fatalf("the other process says %q, %v", line, err)
	}
	return kill
}

func list(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func wantList(t *testing.T, dir string, want ...string) {
	t.Helper()
	if got := list(t, dir); !slices.Equal(got, want) {
		t.Errorf("%s holds %q, want %q", dir, got, want)
	}
}

func put(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// text writes a string.
func text(s string) func(io.Writer) error {
	return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
}

func TestTheNextDraftRemovesThoseOfKilledProcessesOnly(t *testing.T) {
	dir := t.TempDir()
	killed, alive := startDraft(t, dir), startDraft(t, dir)
	if got := list(t, dir); len(got) != 2 {
		t.Fatalf("two processes have the drafts %q", got)
	}
	killed()
	if err := Write(filepath.Join(dir, "a"), text("a")); err != nil {
		t.Fatal(err)
	}
	left := list(t, dir)
	if len(left) != 2 || left[1] != "a" {
		t.Fatalf("beside a live process's draft and the file there are %q", left)
	}
	if s := content(t, filepath.Join(dir, left[0], newName, "big")); len(s) != 1<<16 {
		t.Errorf("the live process's file has %d bytes", len(s))
	}
	alive()
	if err := Write(filepath.Join(dir, "b"), text("b")); err != nil {
		t.Fatal(err)
	}
	wantList(t, dir, "a", "b")
}

// Some network file systems do not show one host the locks of another.
func TestADraftOfAnotherHostIsKeptForADay(t *testing.T) {
	dir := t.TempDir()
	for i, host := range []string{"elsewhere", "", hostname()} {
		path := filepath.Join(dir, fmt.Sprintf(".mfgs-%016x.tmp", i))
		put(t, filepath.Join(path, lockName), host)
		put(t, filepath.Join(path, newName, "big"), "big")
	}
	Sweep(dir)
	wantList(t, dir, ".mfgs-0000000000000000.tmp", ".mfgs-0000000000000001.tmp")
	touched := func(ago time.Duration) {
		for _, name := range []string{"", newName, newName + "/big", lockName} {
			at := time.Now().Add(-ago)
			if err := os.Chtimes(filepath.Join(dir, ".mfgs-0000000000000000.tmp", name), at, at); err != nil {
				t.Fatal(err)
			}
		}
	}
	touched(23 * time.Hour)
	Sweep(dir)
	wantList(t, dir, ".mfgs-0000000000000000.tmp", ".mfgs-0000000000000001.tmp")
	touched(25 * time.Hour)
	Sweep(dir)
	wantList(t, dir, ".mfgs-0000000000000001.tmp")
}

func TestOnlyDraftsAreSwept(t *testing.T) {
	dir := t.TempDir()
	keep := []string{".mfgs-0.tmp", ".mfgs-000000000000000g.tmp", ".mfgs-0123456789abcdef.tmp.d",
		".x.0123456789abcdef.tmp"}
	for _, name := range keep {
		put(t, filepath.Join(dir, name, lockName), hostname())
	}
	// Killed in the moment after its folder was made, and a folder of somebody else.
	if err := os.Mkdir(filepath.Join(dir, ".mfgs-0123456789abcdef.tmp"), 0o777); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, ".mfgs-1123456789abcdef.tmp", "thesis.tex"), "")
	put(t, filepath.Join(dir, ".mfgs-2123456789abcdef.tmp"), "")
	Sweep(dir)
	want := append(slices.Clone(keep), ".mfgs-1123456789abcdef.tmp", ".mfgs-2123456789abcdef.tmp")
	slices.Sort(want)
	wantList(t, dir, want...)
}

// Killed between two renames, where names cannot be exchanged in one step.
func TestAnInterruptedReplacementIsUndone(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, ".mfgs-0123456789abcdef.tmp")
	put(t, filepath.Join(path, lockName), hostname())
	put(t, filepath.Join(path, newName, "b", "f"), "new")
	put(t, filepath.Join(path, oldName, "b", "f"), "old")
	put(t, filepath.Join(path, oldName, "c"), "old")
	put(t, filepath.Join(dir, "c"), "new")
	Sweep(dir)
	wantList(t, dir, "b", "c")
	if s := content(t, filepath.Join(dir, "b", "f")); s != "old" {
		t.Errorf("b is the %s one", s)
	}
	if s := content(t, filepath.Join(dir, "c")); s != "new" {
		t.Errorf("c is the %s one", s)
	}
}

func TestDraftsInOneFolderDoNotDisturbEachOther(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 20 {
				s := fmt.Sprintf("%d-%d", i, j)
				if err := Write(filepath.Join(dir, s), text(s)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	got := list(t, dir)
	if len(got) != 160 {
		t.Errorf("%d files, want 160", len(got))
	}
	for _, name := range got {
		if s := content(t, filepath.Join(dir, name)); s != name {
			t.Errorf("%s holds %q", name, s)
		}
	}
}

// noteSyncs returns what is synced from here on, by base name.
func noteSyncs(t *testing.T) *[]string {
	t.Helper()
	synced := new([]string)
	real := syncFile
	syncFile = func(f *os.File) error {
		*synced = append(*synced, filepath.Base(f.Name()))
		return real(f)
	}
	t.Cleanup(func() { syncFile = real })
	return synced
}

// Without it a power cut can leave a name without its content, or the reverse.
func TestAllIsSyncedBeforeAndAfterItTakesItsPlace(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "place")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	synced := noteSyncs(t)
	if err := Write(filepath.Join(dir, "file"), text("x")); err != nil {
		t.Fatal(err)
	}
	if want := []string{"file", "place"}; !slices.Equal(*synced, want) {
		t.Errorf("a file: synced %q, want %q", *synced, want)
	}
	for name, move := range map[string]func(*Draft) error{
		"new":      func(d *Draft) error { return d.MoveNew("folder") },
		"replaced": func(d *Draft) error { _, err := d.Exchange("folder"); return err },
	} {
		if name == "replaced" {
			put(t, filepath.Join(dir, "folder", "old"), "")
		} else if err := os.RemoveAll(filepath.Join(dir, "folder")); err != nil {
			t.Fatal(err)
		}
		*synced = nil
		d, err := NewDraft(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Put("folder/1/file", text("x")); err != nil {
			t.Fatal(err)
		}
		if err := move(d); err != nil {
			t.Fatal(err)
		}
		if want := []string{"file", "folder", "1", "place"}; !slices.Equal(*synced, want) {
			t.Errorf("%s: synced %q, want %q", name, *synced, want)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestAFailedSyncLeavesWhatWasThere(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	put(t, path, "old")
	real := syncFile
	syncFile = func(*os.File) error { return errors.New("no space") }
	defer func() { syncFile = real }()
	if err := Write(path, text("new")); err == nil || err.Error() != "write "+path+": no space" {
		t.Errorf("error %v", err)
	}
	wantList(t, dir, "file")
	if s := content(t, path); s != "old" {
		t.Errorf("it holds %q", s)
	}
}

func TestErrorsNameThePlaceAndLeaveNothing(t *testing.T) {
	dir := t.TempDir()
	failure := errors.New("no more")
	if err := Write(filepath.Join(dir, "file"), func(io.Writer) error { return failure }); !errors.Is(err, failure) {
		t.Errorf("content that fails: %v", err)
	}
	absent := filepath.Join(dir, "absent")
	if err := Write(filepath.Join(absent, "file"), text("")); !errors.Is(err, fs.ErrNotExist) ||
		!strings.HasPrefix(err.Error(), "write to "+absent+": ") || strings.Contains(err.Error(), ".mfgs-") {
		t.Errorf("no folder: %v", err)
	}
	put(t, filepath.Join(dir, "folder", "x"), "")
	if err := Write(filepath.Join(dir, "folder"), text("")); err == nil || strings.Contains(err.Error(), ".mfgs-") {
		t.Errorf("onto a folder: %v", err)
	}
	d, err := NewDraft(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Put("folder", text("")); err != nil {
		t.Fatal(err)
	}
	if err := d.MoveNew("folder"); !errors.Is(err, fs.ErrExist) || strings.Contains(err.Error(), ".mfgs-") {
		t.Errorf("a place that is taken: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	wantList(t, dir, "folder")
}

func TestRenameNew(t *testing.T) {
	for name, rename := range map[string]func(from, to string) error{"system": renameNew,
		"two steps": renameNewByNames} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			from, taken := filepath.Join(dir, "from"), filepath.Join(dir, "taken")
			for _, d := range []string{from, taken} {
				if err := os.Mkdir(d, 0o777); err != nil {
					t.Fatal(err)
				}
			}
			if err := rename(from, taken); !errors.Is(err, fs.ErrExist) {
				t.Errorf("error %v", err)
			}
			wantList(t, dir, "from", "taken")
			if err := rename(from, filepath.Join(dir, "free")); err != nil {
				t.Error(err)
			}
			wantList(t, dir, "free", "taken")
		})
	}
}

func TestExchange(t *testing.T) {
	for name, swap := range map[string]func(a, b, aside string) (string, error){"system": exchange,
		"two steps": exchangeByNames} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			a, b, aside := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "old", "b")
			put(t, filepath.Join(a, "was a"), "")
			put(t, filepath.Join(b, "was b"), "")
			old, err := swap(a, b, aside)
			if err != nil {
				t.Fatal(err)
			}
			wantList(t, b, "was a")
			wantList(t, old, "was b")
		})
	}
}

// If names cannot be exchanged atomically, a failure leaves the old one in its place.
func TestAFailedExchangePutsTheOldOneBack(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "b", "was b"), "")
	d, err := NewDraft(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := exchangeByNames(d.Path("b"), d.place("b"), filepath.Join(d.path, oldName, "b")); err == nil {
		t.Error("nothing took the place of the folder")
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	wantList(t, dir, "b")
	wantList(t, filepath.Join(dir, "b"), "was b")
}

func TestKeep(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "b", "thesis.tex"), "")
	d, err := NewDraft(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Put("b/f", text("")); err != nil {
		t.Fatal(err)
	}
	old, err := d.Exchange("b")
	if err != nil {
		t.Fatal(err)
	}
	kept, err := d.Keep(old)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	Sweep(dir)
	wantList(t, dir, filepath.Base(kept), "b")
	wantList(t, kept, "thesis.tex")
}

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	put(t, path, "12345")
	if data, err := Read(path, 5); err != nil || string(data) != "12345" {
		t.Errorf("%q, %v", data, err)
	}
	if _, err := Read(path, 4); err == nil || !strings.Contains(err.Error(), "larger than 4 bytes") {
		t.Errorf("error %v", err)
	}
	if _, err := Read(path+"x", 4); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

// Some file systems report a failed write only when the file is closed.
func TestAFileThatCannotBeClosedIsNotCommitted(t *testing.T) {
	dir := t.TempDir()
	real := syncFile
	syncFile = func(*os.File) error { return nil }
	defer func() { syncFile = real }()
	d, err := NewDraft(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	f, err := d.Create("file")
	if err != nil {
		t.Fatal(err)
	}
	f.f.Close() // so that it cannot be closed again
	if err := f.Close(); err == nil || err.Error() != "write "+filepath.Join(dir, "file")+": "+fs.ErrClosed.Error() {
		t.Errorf("error %v", err)
	}
}
