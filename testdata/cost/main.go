// Command cost measures the processor time and memory of calibrations and merges, and writes docs/evidence/cost.md. It
// runs mfgs on random features, each run in its own process.
package main

import (
	"archive/zip"
	"bufio"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"log"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// A head is a last layer and the structure of its posterior.
type head struct {
	features, classes int
	structure         string
}

var (
	heads    = []head{{512, 10, "kron"}, {512, 100, "kron"}, {512, 1000, "kron"}, {64, 10, "full"}}
	sizes    = []int{1_000, 10_000, 100_000} // training examples
	resnet50 = head{2048, 1000, "kron"}
)

// A cost is that of one process.
type cost struct {
	cpu  float64 // seconds
	peak float64 // MB
}

// A change is the cost of two runs that differ in one quantity.
type change struct {
	what       string
	from, to   int
	then, now  cost
	digitsEach string // how the cost of one more is printed
}

// each is the processor time of one more, in seconds.
func (c change) each() float64 { return (c.now.cpu - c.then.cpu) / float64(c.to-c.from) }

// results are the measurements of the page.
type results struct {
	heads    [][]cost // by head and number of training examples
	resnet50 []change // training examples, validation and OOD examples, parts
}

func main() {
	log.SetFlags(0)
	mfgs := flag.String("mfgs", "mfgs", "`PROGRAM` to measure")
	page := flag.String("o", "../docs/evidence/cost.md", "`FILE` to write")
	flag.Parse()
	dir, err := os.MkdirTemp("", "mfgs-cost")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := writePage(*page, measure(&bench{mfgs: *mfgs, dir: dir})); err != nil {
		log.Fatal(err)
	}
}

func measure(b *bench) *results {
	r := &results{}
	for _, h := range heads {
		var row []cost
		for _, n := range sizes {
			row = append(row, b.calibrate(h, n, validation, "auto"))
		}
		r.heads = append(r.heads, row)
	}
	const few = 200
	r.resnet50 = []change{{
		what: "training examples", from: 10_000, to: 50_000, digitsEach: "%.2f",
		then: b.calibrate(resnet50, 10_000, few, "1"), now: b.calibrate(resnet50, 50_000, few, "1"),
	}, {
		what: "validation and OOD examples", from: 3_000, to: 12_000, digitsEach: "%.1f",
		then: b.calibrate(resnet50, 1_000, 2_000, "auto"), now: b.calibrate(resnet50, 1_000, 8_000, "auto"),
	}, {
		what: "parts to merge", from: 8, to: 64, digitsEach: "%.0f",
		then: b.merge(resnet50, 8, few), now: b.merge(resnet50, 64, few),
	}}
	return r
}

// validation is the number of validation examples. There are half as many OOD examples.
const validation = 2_000

type bench struct{ mfgs, dir string }

// data writes a dataset.
func (b *bench) data(name string, h head, n int, seed uint64) string {
	path := filepath.Join(b.dir, name+".npz")
	features(path, n, h, seed)
	return path
}

// sets writes the three sets of a calibration, and returns the options that name them.
func (b *bench) sets(h head, train, val int) []string {
	return []string{
		"--train-features", b.data("train", h, train, 0), "--val-features", b.data("val", h, val, 1),
		"--ood-features", b.data("ood", h, val/2, 2), "--structure", h.structure,
	}
}

func (b *bench) calibrate(h head, train, val int, damping string) cost {
	args := append([]string{"calibrate"}, b.sets(h, train, val)...)
	return b.run(append(args, "--damping", damping, "--out", filepath.Join(b.dir, "bundle"), "--force", "--json")...)
}

// merge is the cost of merging n parts of one block each.
func (b *bench) merge(h head, n, val int) cost {
	sets := b.sets(h, 512*n, val)
	args := []string{"merge", "--out", filepath.Join(b.dir, "bundle"), "--force", "--json"}
	for i := range n {
		part := filepath.Join(b.dir, fmt.Sprintf("part-%d", i))
		b.run(append(append([]string{"calibrate"}, sets...), "--shard", fmt.Sprintf("%d/%d", i+1, n), "--out", part, "--json")...)
		args = append(args, part)
		defer os.RemoveAll(part)
	}
	return b.run(args...)
}

// run runs mfgs.
func (b *bench) run(args ...string) cost {
	cmd := exec.Command(b.mfgs, args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if _, err := cmd.Output(); err != nil {
		log.Fatalf("mfgs %s: %v: %s", strings.Join(args, " "), err, &stderr)
	}
	c := cost{cpu: (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()}
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		c.peak = float64(usage.Maxrss) / 1024
	}
	return c
}

// features writes an .npz of n examples, balanced over classes. Most have their largest logit at the label.
func features(path string, n int, h head, seed uint64) {
	f, err := os.Create(path)
	if err != nil {
		log.Fatal(err)
	}
	z := zip.NewWriter(f)
	for _, a := range []struct {
		name, descr, shape string
		write              func(io.Writer, *rand.Rand)
	}{
		{"features", "<f4", fmt.Sprintf("(%d, %d)", n, h.features), func(w io.Writer, r *rand.Rand) { normal(w, r, n, h.features, true) }},
		{"logits", "<f4", fmt.Sprintf("(%d, %d)", n, h.classes), func(w io.Writer, r *rand.Rand) { normal(w, r, n, h.classes, false) }},
		{"labels", "<i8", fmt.Sprintf("(%d,)", n), func(w io.Writer, r *rand.Rand) {
			for i := range n {
				_ = binary.Write(w, binary.LittleEndian, int64(i%h.classes))
			}
		}},
	} {
		member, err := z.CreateHeader(&zip.FileHeader{Name: a.name + ".npy", Method: zip.Store})
		if err != nil {
			log.Fatal(err)
		}
		w := bufio.NewWriterSize(member, 1<<20)
		header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s, }", a.descr, a.shape)
		header += strings.Repeat(" ", (64-(10+len(header)+1)%64)%64) + "\n"
		fmt.Fprintf(w, "\x93NUMPY\x01\x00%c%c%s", len(header)%256, len(header)/256, header)
		a.write(w, rand.New(rand.NewPCG(seed, uint64(len(a.name)))))
		if err := w.Flush(); err != nil {
			log.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		log.Fatal(err)
	}
	if err := f.Close(); err != nil {
		log.Fatal(err)
	}
}

// normal writes random numbers. Features are clipped at 0, and logits are larger at the label.
func normal(w io.Writer, r *rand.Rand, n, each int, positive bool) {
	row := make([]byte, 4*each)
	for i := range n {
		for j := range each {
			v := r.NormFloat64()
			switch {
			case positive:
				v = max(v, 0)
			case j == i%each:
				v += 4
			}
			binary.LittleEndian.PutUint32(row[4*j:], math.Float32bits(float32(v)))
		}
		if _, err := w.Write(row); err != nil {
			log.Fatal(err)
		}
	}
}
