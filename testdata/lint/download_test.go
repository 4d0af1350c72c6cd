package lint

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/zip"
)

// maxDownload is how many bytes go get and go install may unpack of this module.
const maxDownload = 8_000_000

// A treeFile is a file for package zip, by its path from the root.
type treeFile string

func (f treeFile) Path() string                 { return string(f) }
func (f treeFile) Lstat() (fs.FileInfo, error)  { return os.Lstat(filepath.Join(root, string(f))) }
func (f treeFile) Open() (io.ReadCloser, error) { return os.Open(filepath.Join(root, string(f))) }

// Folders of large data have a go.mod, which excludes them from the module: networks of the report, documentation,
// shared fixtures.
func TestTheModuleIsASmallDownload(t *testing.T) {
	out, err := exec.Command("git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		t.Fatalf("git ls-files, which lists the files of the module: %v", err)
	}
	var files []zip.File
	for name := range strings.SplitSeq(string(bytes.TrimSuffix(out, []byte{0})), "\x00") {
		if _, err := os.Lstat(filepath.Join(root, name)); err == nil { // git lists deleted files too
			files = append(files, treeFile(name))
		}
	}
	checked, err := zip.CheckFiles(files)
	if err != nil {
		t.Fatalf("no module can be made of this tree: %v", err)
	}
	type sized struct {
		name  string
		bytes int64
	}
	var all []sized
	var total int64
	for _, name := range checked.Valid {
		info, err := treeFile(name).Lstat()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, sized{name, info.Size()})
		total += info.Size()
	}
	for _, must := range []string{"go.mod", "LICENSE", "wrap/predictor.go", "models/digits-mlp/model.onnx"} {
		if !slices.Contains(checked.Valid, must) {
			t.Errorf("the module lacks %s", must)
		}
	}
	if total <= maxDownload {
		return
	}
	slices.SortFunc(all, func(a, b sized) int { return int(b.bytes - a.bytes) })
	var largest strings.Builder
	for _, f := range all[:min(10, len(all))] {
		fmt.Fprintf(&largest, "\n%10d %s", f.bytes, f.name)
	}
	t.Errorf("a program that uses mfgs downloads %d bytes, want at most %d: leave files out by a go.mod in their folder. The largest:%s",
		total, maxDownload, &largest)
}
