package dataset

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/testerr"
)

// shards writes n files of JSON lines with so many examples each, and the same in one file.
func shards(t testing.TB, sizes ...int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	all, at := "", 0
	for i, n := range sizes {
		var b strings.Builder
		for range n {
			fmt.Fprintf(&b, "{\"x\":[%d],\"label\":%d}\n", at, at)
			at++
		}
		write(t, dir, fmt.Sprintf("part-%03d.jsonl", i), []byte(b.String()))
		all += b.String()
	}
	write(t, dir, "whole.jsonl", []byte(all))
	return dir
}

// Files of a pattern are read as one file of them all would be, slices and shards included, with the same fingerprint
// for every way of reading them.
func TestFilesOfAPatternAreOneDataset(t *testing.T) {
	t.Parallel()
	sizes := []int{700, 1, 3, 1500, 20}
	for range 2 * keptOpen { // so that some are opened again
		sizes = append(sizes, 30)
	}
	dir := shards(t, sizes...)
	braces := fmt.Sprintf("{000..%03d}", len(sizes)-1)
	for _, slice := range []string{"", "[:700]", "[690:705]", "[703:704]", "[2200:]", "[1:3000]"} {
		for _, shard := range []rows.Shard{{}, {Index: 1, Count: 3}, {Index: 2, Count: 3}, {Index: 3, Count: 3}} {
			o := Options{Shard: shard, Fingerprint: true}
			one, err := Open(t.Context(), filepath.Join(dir, "whole.jsonl")+slice, o)
			if err != nil {
				t.Fatal(err)
			}
			want, _ := all(t, one)
			one.Close()
			sums := map[string]bool{}
			for _, spec := range []string{"part-" + braces + ".jsonl", "part-*.jsonl", "jsonl:part-???.jsonl"} {
				format, name, _ := strings.Cut(spec, ":")
				if spec = filepath.Join(dir, spec); name != "" {
					spec = format + ":" + filepath.Join(dir, name)
				}
				for _, read := range []bool{true, false} {
					d, err := Open(t.Context(), spec+slice, o)
					if err != nil {
						t.Fatal(err)
					}
					if read {
						got, bad := all(t, d)
						if len(got) != len(want) || len(bad) > 0 || d.Format() != "jsonl" || !d.HasLabels() {
							t.Fatalf("%s%s, shard %s: %d examples, want %d; %v", spec, slice, shard, len(got), len(want), bad)
						}
						for i := range got {
							if got[i].Label != want[i].Label || got[i].Index != want[i].Index {
								t.Fatalf("%s%s, shard %s: %+v, want %+v", spec, slice, shard, got[i], want[i])
							}
						}
					}
					if err := d.Skip(t.Context(), 2300); err != nil {
						t.Fatal(err)
					}
					sum, err := d.Fingerprint(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					sums[sum] = true
					d.Close()
				}
			}
			if len(sums) != 1 {
				t.Errorf("%s, shard %s: %d fingerprints, want one", slice, shard, len(sums))
			}
		}
	}
}

// Errors name the file in which they are.
func TestFilesOfAPatternAreRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"a.jsonl": lines(2), "b.jsonl": "{\"x\":[1]}\n", "c.csv": "x,label\n1,0\n", "d.jsonl": lines(1) + "{\n", "e.jsonl": "[\n",
	} {
		write(t, dir, name, []byte(content))
	}
	for spec, want := range map[string]string{
		"{a,b}.jsonl":     "b.jsonl has none, and " + filepath.Join(dir, "a.jsonl") + " has labels",
		"{a.jsonl,c.csv}": "c.csv is of format csv, and " + filepath.Join(dir, "a.jsonl") + " jsonl",
		"{a,e}.jsonl":     "e.jsonl: no line can be read",
		"{a,z}.jsonl":     "z.jsonl: no such file or folder",
		"{a,a}.jsonl":     "a.jsonl twice",
		"*.nothing":       "no file or folder matches",
		"{a,d}.jsonl[5:]": "reaches beyond its 4 examples",
		"npz:{a,d}.jsonl": "broken .npz",
	} {
		prefix, name, ok := strings.Cut(spec, ":{")
		path := filepath.Join(dir, spec)
		if ok {
			path = prefix + ":" + filepath.Join(dir, "{"+name)
		}
		_, err := Open(t.Context(), path, Options{})
		testerr.OneLine(t, err, want)
	}
	d, err := Open(t.Context(), filepath.Join(dir, "{a,d}.jsonl"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, bad := all(t, d); len(bad) != 1 || !strings.HasPrefix(bad[0].Error(), "d.jsonl[1]: ") {
		t.Errorf("bad records %v", bad)
	}
	for name, features := range map[string]string{"f1": "[1,2]", "f2": "[3,4]"} {
		write(t, dir, name+".jsonl", []byte(`{"features":`+features+`,"logits":[0,1,2],"label":1}`+"\n"))
	}
	f, err := OpenFeatures(filepath.Join(dir, "f{2,1}.jsonl"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for b, err := range f.Blocks(t.Context(), 8) {
		if err != nil || fmt.Sprint(b.Features) != "[3 4 1 2]" || fmt.Sprint(b.Labels) != "[1 1]" {
			t.Errorf("features %+v, %v", b, err)
		}
	}
}

// Class folders mean the same in all files, or are refused.
func TestClassFoldersOfAPattern(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, members := range map[string][]string{"1": {"cat/a.png", "dog/b.png"}, "2": {"dog/c.png", "owl/d.png"}, "3": {"cat/e.png", "dog/f.png"}} {
		write(t, dir, name+".tar", packed(t, members[0]+"=x", members[1]+"=x"))
	}
	open := func(pattern string, o Options) (string, error) {
		d, err := Open(t.Context(), filepath.Join(dir, pattern), o)
		if err != nil {
			return "", err
		}
		defer d.Close()
		return listed(t, d), nil
	}
	_, err := open("{1,2}.tar", Options{Classes: 2})
	testerr.OneLine(t, err, "2.tar has other class folders (dog, owl) than")
	for pattern, o := range map[string]Options{"{1,3}.tar": {Classes: 2}, "[12].tar": {LabelClasses: []string{"cat", "dog", "owl"}}} {
		want := "1.tar/cat/a.png 0, 1.tar/dog/b.png 1, 3.tar/cat/e.png 0, 3.tar/dog/f.png 1"
		if o.LabelClasses != nil {
			want = "1.tar/cat/a.png 0, 1.tar/dog/b.png 1, 2.tar/dog/c.png 1, 2.tar/owl/d.png 2"
		}
		if got, err := open(pattern, o); got != want || err != nil {
			t.Errorf("%s: %s, %v; want %s", pattern, got, err, want)
		}
	}
}

// A file that changes while others are read is noticed.
func TestAFileOfAPatternChanges(t *testing.T) {
	t.Parallel()
	var sizes []int
	for range keptOpen + 1 {
		sizes = append(sizes, 2)
	}
	dir := shards(t, sizes...)
	d, err := Open(t.Context(), filepath.Join(dir, "part-*.jsonl"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	last := filepath.Join(dir, fmt.Sprintf("part-%03d.jsonl", keptOpen))
	if err := os.WriteFile(last, []byte(lines(1)), 0o600); err != nil {
		t.Fatal(err)
	}
	var failed error
	for _, err := range d.Examples(t.Context()) {
		failed = err
	}
	testerr.OneLine(t, failed, last+": changed while in use: it had 2 examples and has 1")
}
