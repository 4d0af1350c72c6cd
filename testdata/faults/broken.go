//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A breakage is a corrupt input, and the error that mfgs must report.
type breakage struct {
	name  string
	harm  func(h *harness, dir string) error // nil breaks nothing
	room  string                             // size of the disk, for tmpfs; "" is unlimited
	args  []string
	words []string // required in the error's only line; none if the command must succeed
}

// edit modifies a file.
func edit(name string, change func([]byte) []byte) func(*harness, string) error {
	return func(_ *harness, dir string) error {
		path := filepath.Join(dir, name)
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(path, change(data), 0o644)
	}
}

func flip(data []byte) []byte { data[len(data)/2] ^= 4; return data }
func half(data []byte) []byte { return data[:len(data)/2] }

// copied copies data, modified by change unless that is nil.
func copied(change func([]byte) []byte, from, to string) func(*harness, string) error {
	return func(h *harness, dir string) error {
		data, err := os.ReadFile(strings.ReplaceAll(from, "DATA", filepath.Join(h.dir, "data")))
		if err != nil {
			return err
		}
		if change != nil {
			data = change(data)
		}
		return os.WriteFile(filepath.Join(dir, to), data, 0o644)
	}
}

// run runs mfgs as the breakage.
func run(args ...string) func(*harness, string) error {
	return func(h *harness, dir string) error {
		_, err := h.must(dir, args)
		return err
	}
}

func all(steps ...func(*harness, string) error) func(*harness, string) error {
	return func(h *harness, dir string) error {
		for _, s := range steps {
			if err := s(h, dir); err != nil {
				return err
			}
		}
		return nil
	}
}

// otherModel writes the model with another producer, and so another hash.
func otherModel(h *harness, dir string) error {
	data, err := os.ReadFile(filepath.Join(h.dir, "data", "model.onnx"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "other.onnx"), bytes.Replace(data, []byte("pytorch"), []byte("pytorcx"), 1), 0o644)
}

// with replaces text in the arguments of a command.
func with(args []string, old, other string) []string {
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = strings.ReplaceAll(a, old, other)
	}
	return out
}

func merge(parts ...string) []string {
	return append([]string{"merge", "--out", "disk/b"}, parts...)
}

var (
	second = calibrate("--out", "p2", "--shard", "2/3")
	toDisk = calibrate("--out", "disk/b")
	images = "DATA/digits-images-idx3-ubyte"
)

// breakages are tried in a folder with the parts p1, p2 and p3 of a calibration and a bundle b; disk is a separate
// disk.
var breakages = []breakage{
	{name: "a shard missing", args: merge("p3", "p1"), words: []string{"shard 2 of 3", "missing"}},
	{name: "a shard twice", harm: run("merge", "--part", "p2", "--out", "p2again"), args: merge("p1", "p2", "p3", "p2again"),
		words: []string{"shard 2 of 3", "p2", "p2again"}},
	{name: "a part of another model", harm: all(otherModel, func(_ *harness, dir string) error {
		return os.RemoveAll(filepath.Join(dir, "p2"))
	}, run(with(second, "DATA/model.onnx", "other.onnx")...)), args: merge("p1", "p2", "p3"),
		words: []string{"p1", "p2", "model", "sha256"}},
	{name: "a part of other settings", harm: all(func(_ *harness, dir string) error {
		return os.RemoveAll(filepath.Join(dir, "p3"))
	}, run(calibrate("--out", "p3", "--shard", "3/3", "--covariance", "fisher")...)), args: merge("p1", "p2", "p3"),
		words: []string{"p1", "p3", "covariance", "hessian", "fisher"}},
	{name: "a part with another byte", harm: edit("p2/curvature.safetensors", flip), args: merge("p1", "p2", "p3"),
		words: []string{"p2", "curvature.safetensors"}},
	{name: "a part cut off", harm: edit("p3/val.rows", half), args: merge("p1", "p2", "p3"), words: []string{"p3", "val.rows"}},
	{name: "a manifest edited", harm: edit("p1/part.yaml", flip), args: merge("p1", "p2", "p3"), words: []string{"p1", "part.yaml"}},
	{name: "a checkpoint for a part", harm: checkpointOf("c"), args: merge("p1", "p2", "c.checkpoint/part"),
		words: []string{"c.checkpoint/part", "--resume"}},
	{name: "a checkpoint with another byte", harm: all(checkpointOf("disk/b"), edit("disk/b.checkpoint/part/curvature.safetensors", flip)),
		args: calibrate("--out", "disk/b", "--resume")},
	{name: "data cut off", harm: copied(half, images, "x-images-idx3-ubyte"), args: with(toDisk, images, "x-images-idx3-ubyte"),
		words: []string{"x-images-idx3-ubyte"}},
	{name: "data without labels", harm: copied(nil, images, "x-images-idx3-ubyte"), args: with(toDisk, images, "x-images-idx3-ubyte"),
		words: []string{"x-images-idx3-ubyte", "labels"}},
	{name: "disk full: a bundle", room: "60k", args: toDisk, words: []string{"disk/b", "no space left on device"}},
	{name: "disk full: a part", room: "200k", args: calibrate("--out", "disk/b", "--shard", "2/3"), words: []string{"disk/b", "no space left on device"}},
	{name: "disk full: merging", room: "60k", args: merge("p1", "p2", "p3"), words: []string{"disk/b", "no space left on device"}},
	{name: "disk full: an export", room: "16k", args: []string{"export", "--bundle", "b", "--out", "disk/b.onnx"}, words: []string{"disk/b", "no space left on device"}},
	{name: "disk full: a features cache", room: "200k", args: calibrate("--out", "new", "--features-cache", "disk/b")},
	{name: "disk full: a checkpoint", room: "1900k", args: calibrate("--out", "disk/b")},
}

// checkpointOf leaves the checkpoint of a killed calibration.
func checkpointOf(out string) func(*harness, string) error {
	return func(h *harness, dir string) error {
		part := filepath.Join(dir, out+".checkpoint", "part")
		for range 20 {
			cmd := h.command(dir, calibrate("--out", out, "--resume"))
			if err := cmd.Start(); err != nil {
				return err
			}
			done := make(chan struct{})
			go h.kill(cmd.Process.Pid, func(done <-chan struct{}) bool {
				for {
					if _, err := os.Stat(part); err == nil {
						return true
					}
					if !wait(time.Millisecond, done) {
						return false
					}
				}
			}, done)
			cmd.Wait()
			close(done)
			if _, err := os.Stat(part); err == nil {
				return nil
			}
			os.RemoveAll(filepath.Join(dir, out))
		}
		return fmt.Errorf("no checkpoint of %s is left", out)
	}
}

// tryBreakages runs mfgs on each breakage and prints what it reports.
func (h *harness) tryBreakages() error {
	base := &scenario{name: "broken", prepare: append(threeParts, calibrate("--out", "b"))}
	dir := filepath.Join(h.dir, "broken")
	if err := h.prepare(base, dir); err != nil {
		return err
	}
	var err error
	if base.input, err = read(dir); err != nil {
		return err
	}
	for i := range breakages {
		if err := h.tryBreakage(base, &breakages[i], dir); err != nil {
			return fmt.Errorf("%s: %w", breakages[i].name, err)
		}
	}
	return nil
}

func (h *harness) tryBreakage(base *scenario, b *breakage, dir string) error {
	if err := h.prepare(base, dir); err != nil {
		return err
	}
	disk := filepath.Join(dir, "disk")
	if err := os.Mkdir(disk, 0o755); err != nil {
		return err
	}
	if b.harm != nil {
		if err := b.harm(h, dir); err != nil {
			return err
		}
	}
	if b.room != "" {
		if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size="+b.room, "tmpfs", disk).CombinedOutput(); err != nil {
			fmt.Printf("%-36s not tried: %s\n", b.name, lastLine(out))
			return nil
		}
		defer exec.Command("umount", disk).Run()
	}
	before, err := read(dir)
	if err != nil {
		return err
	}
	out, err := h.command(dir, b.args).CombinedOutput()
	said := lastLine(out)
	if len(b.words) == 0 {
		if err != nil {
			h.failf("%s: %s", b.name, said)
		}
		bundle := filepath.Join(dir, b.args[slices.Index(b.args, "--out")+1])
		if made, e := read(bundle); e != nil || !made.equal(base.input.under("b").inside("b")) {
			h.failf("%s: another bundle comes: %s", b.name, made.differences(base.input.under("b").inside("b")))
		}
		for _, line := range strings.Split(string(out), "\n") {
			if strings.Contains(line, "checkpoint") || strings.Contains(line, "features cache") {
				said = line
				break
			}
		}
		fmt.Printf("%-36s done all the same: %s\n", b.name, said)
		return nil
	}
	var exit *exec.ExitError
	lines := strings.FieldsFunc(string(out), func(r rune) bool { return r == '\n' })
	lines = slices.DeleteFunc(lines, func(line string) bool {
		return strings.HasPrefix(line, "mfgs: progress: ") || strings.Contains(line, ".checkpoint cannot be written")
	})
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || len(lines) != 1 {
		h.failf("%s: %v: %s", b.name, err, out)
	}
	for _, word := range b.words {
		if !strings.Contains(said, word) {
			h.failf("%s: %q is not in %s", b.name, word, said)
		}
	}
	after, err := read(dir)
	if err == nil && !after.equal(before) {
		h.failf("%s: it leaves %s", b.name, after.differences(before))
	}
	fmt.Printf("%-36s %s\n", b.name, strings.ReplaceAll(said, dir+"/", ""))
	return err
}

// inside returns a state with paths relative to a folder.
func (s state) inside(folder string) state {
	out := state{}
	for name, data := range s {
		out[strings.TrimPrefix(name, folder+"/")] = data
	}
	return out
}
