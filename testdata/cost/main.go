// Command cost measures the time and memory of calibrations and merges, for docs/evidence/cost.md. It runs mfgs on
// random features, at several numbers of examples and classes, each in its own process.
//
//	go build -o /tmp/mfgs ./cmd/mfgs && go run -C testdata ./cost -mfgs /tmp/mfgs
package main

import (
	"archive/zip"
	"bufio"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

var (
	mfgs      = flag.String("mfgs", "mfgs", "`PROGRAM` to measure")
	width     = flag.Int("features", 512, "features per example")
	valSize   = flag.Int("val", 2000, "validation examples, and half as many OOD examples")
	sizes     = flag.String("examples", "1000,10000,100000", "numbers of training examples")
	classes   = flag.String("classes", "10,100,1000", "numbers of classes")
	structure = flag.String("structure", "kron", "structure of the posterior")
	damping   = flag.String("damping", "auto", "damping, as for mfgs calibrate")
	shards    = flag.String("shards", "", "numbers of parts to merge, such as 8,64; nothing else is then measured")
)

func main() {
	log.SetFlags(0)
	flag.Parse()
	dir, err := os.MkdirTemp("", "mfgs-cost")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	load, _ := os.ReadFile("/proc/loadavg")
	fmt.Printf("%d processors, %s, %s/%s, load %s\n", runtime.NumCPU(), time.Now().Format(time.DateOnly), runtime.GOOS,
		runtime.GOARCH, strings.Join(strings.Fields(string(load))[:min(3, len(strings.Fields(string(load))))], " "))
	for _, k := range numbers(*classes) {
		val, ood := filepath.Join(dir, "val.npz"), filepath.Join(dir, "ood.npz")
		features(val, *valSize, k, 1)
		features(ood, *valSize/2, k, 2)
		if *shards != "" {
			for _, n := range numbers(*shards) {
				merge(dir, val, ood, k, n)
			}
			continue
		}
		fmt.Printf("\n%d features, %d classes, %s\n%10s %9s %9s %9s %9s %9s %9s\n", *width, k, *structure, "examples", "train s",
			"tuning s", "total s", "CPU s", "µs each", "peak MB")
		for _, n := range numbers(*sizes) {
			train := filepath.Join(dir, "train.npz")
			features(train, n, k, 0)
			seconds, cpu, peak := run("calibrate", "--train-features", train, "--val-features", val, "--ood-features", ood,
				"--structure", *structure, "--damping", *damping, "--out", filepath.Join(dir, "bundle"), "--force", "--json")
			fmt.Printf("%10d %9.2f %9.2f %9.2f %9.2f %9.0f %9.0f\n", n, seconds["train"], seconds["tuning"], seconds["total"], cpu,
				1e6*seconds["train"]/float64(n), peak)
		}
	}
}

// merge measures merging n parts of one block each.
func merge(dir, val, ood string, k, n int) {
	train := filepath.Join(dir, "train.npz")
	features(train, 512*n, k, 0)
	args := []string{"merge", "--out", filepath.Join(dir, "bundle"), "--force", "--json"}
	var bytes int64
	start := time.Now()
	for i := 1; i <= n; i++ {
		part := filepath.Join(dir, fmt.Sprintf("part-%d", i))
		run("calibrate", "--train-features", train, "--val-features", val, "--ood-features", ood, "--structure", *structure,
			"--damping", *damping, "--shard", fmt.Sprintf("%d/%d", i, n), "--out", part, "--json")
		args = append(args, part)
		files, err := os.ReadDir(part)
		if err != nil {
			log.Fatal(err)
		}
		for _, f := range files {
			if info, err := f.Info(); err == nil {
				bytes += info.Size()
			}
		}
	}
	made := time.Since(start)
	start = time.Now()
	seconds, cpu, peak := run(args...)
	fmt.Printf("%d features, %d classes, %s: %d parts of %.1f MB made in %.1f s, merged in %.1f s (tuning %.1f s), CPU %.1f s, peak %.0f MB\n",
		*width, k, *structure, n, float64(bytes)/1e6/float64(n), made.Seconds(), time.Since(start).Seconds(),
		seconds["tuning"], cpu, peak)
	for _, part := range args[5:] {
		os.RemoveAll(part)
	}
}

// run runs mfgs and returns the seconds of its stages and of processors, and its peak memory in MB.
func run(args ...string) (stages map[string]float64, cpu, peak float64) {
	cmd := exec.Command(*mfgs, args...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		log.Fatalf("mfgs %s: %v: %s", strings.Join(args, " "), err, &said)
	}
	var report struct {
		Seconds map[string]float64 `json:"seconds"`
	}
	if err := json.Unmarshal(out, &report); err != nil {
		log.Fatal(err)
	}
	state := cmd.ProcessState
	if usage, ok := state.SysUsage().(*syscall.Rusage); ok {
		peak = float64(usage.Maxrss) / 1024
	}
	return report.Seconds, (state.UserTime() + state.SystemTime()).Seconds(), peak
}

// features writes an .npz of n examples, balanced over classes. Most have their largest logit at the label.
func features(path string, n, k int, seed uint64) {
	f, err := os.Create(path)
	if err != nil {
		log.Fatal(err)
	}
	z := zip.NewWriter(f)
	for _, a := range []struct {
		name, descr, shape string
		write              func(io.Writer, *rand.Rand)
	}{
		{"features", "<f4", fmt.Sprintf("(%d, %d)", n, *width), func(w io.Writer, r *rand.Rand) { normal(w, r, n, *width, true) }},
		{"logits", "<f4", fmt.Sprintf("(%d, %d)", n, k), func(w io.Writer, r *rand.Rand) { normal(w, r, n, k, false) }},
		{"labels", "<i8", fmt.Sprintf("(%d,)", n), func(w io.Writer, r *rand.Rand) {
			for i := range n {
				_ = binary.Write(w, binary.LittleEndian, int64(i%k))
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

func numbers(list string) (out []int) {
	for _, text := range strings.Split(list, ",") {
		n, err := strconv.Atoi(text)
		if err != nil {
			log.Fatal(err)
		}
		out = append(out, n)
	}
	return out
}
