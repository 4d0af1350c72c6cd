//go:build unix

package main

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// makeData writes the data set: the images of the small digits network, repeated with different noise, in files
// that were last modified an hour ago.
func (h *harness) makeData() error {
	from, to := filepath.Join("..", "models", "digits-mlp"), filepath.Join(h.dir, "data")
	if err := os.Mkdir(to, 0o755); err != nil {
		return err
	}
	for _, name := range []string{"model.onnx", "drawings-images-idx3-ubyte.gz"} {
		data, err := os.ReadFile(filepath.Join(from, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), data, 0o644)
		}
		if err != nil {
			return err
		}
	}
	for _, name := range []string{"digits-images-idx3-ubyte", "digits-labels-idx1-ubyte"} {
		f, err := os.Open(filepath.Join(from, name+".gz"))
		if err != nil {
			return err
		}
		defer f.Close()
		z, err := gzip.NewReader(f)
		if err != nil {
			return err
		}
		data, err := io.ReadAll(z)
		if err != nil {
			return err
		}
		head := 16
		if strings.Contains(name, "labels") {
			head = 8
		}
		n := int(binary.BigEndian.Uint32(data[4:]))
		each := (len(data) - head) / n
		out := bytes.Clone(data[:head])
		binary.BigEndian.PutUint32(out[4:], uint32(h.examples))
		for i := range h.examples {
			example := bytes.Clone(data[head+i%n*each:][:each])
			if each > 1 {
				example[i/n%each] ^= 3
			}
			out = append(out, example...)
		}
		if err := os.WriteFile(filepath.Join(to, name), out, 0o644); err != nil {
			return err
		}
	}
	hourAgo := time.Now().Add(-time.Hour)
	names, err := filepath.Glob(filepath.Join(to, "*"))
	for _, name := range names {
		if err == nil {
			err = os.Chtimes(name, hourAgo, hourAgo)
		}
	}
	return err
}

// calibrate returns a calibration command with more arguments. It tries one damping only, so that kills hit reading
// and writing.
func calibrate(more ...string) []string {
	return append([]string{"calibrate", "--model", "DATA/model.onnx", "--train", "DATA/digits-images-idx3-ubyte[train]",
		"--val", "DATA/digits-images-idx3-ubyte[val]", "--ood", "DATA/drawings-images-idx3-ubyte.gz[0:300]",
		"--batch", "100", "--damping", "rel:1"}, more...)
}

// scenarios are the commands that are killed.
var scenarios = []*scenario{
	{
		name: "calibrate --resume", units: []string{"b"},
		command: calibrate("--out", "b", "--resume"),
	},
	{
		name: "full, --keep-curvature", units: []string{"b"},
		command: calibrate("--out", "b", "--resume", "--structure", "full", "--keep-curvature"),
	},
	{
		name: "features cache", units: []string{"b", "cache/*"},
		command: calibrate("--out", "b", "--features-cache", "cache", "--resume"),
	},
	{
		name: "a clock that jumps", units: []string{"b"}, clock: true,
		command: calibrate("--out", "b", "--resume"),
	},
	{
		// The cache records modification times, which depend on the clock.
		name: "a clock, with a cache", units: []string{"b"}, clock: true, scratch: "cache",
		command: calibrate("--out", "b", "--features-cache", "cache", "--resume"),
	},
	{
		name: "calibrate --shard", units: []string{"p"},
		command: calibrate("--out", "p", "--shard", "2/3", "--resume"),
	},
	{
		name: "calibrate --force", units: []string{"b"},
		prepare: [][]string{calibrate("--out", "b", "--structure", "kron", "--limit", "1000")},
		command: calibrate("--out", "b", "--force", "--limit", "1000"),
	},
	{
		name: "merge", units: []string{"b"}, prepare: threeParts,
		command: []string{"merge", "p3", "p1", "p2", "--out", "b"},
		again:   []string{"merge", "p3", "p1", "p2", "--out", "b", "--force"},
	},
	{
		name: "merge --part", units: []string{"p"}, prepare: threeParts,
		command: []string{"merge", "--part", "p2", "p1", "--out", "p"},
		again:   []string{"merge", "--part", "p2", "p1", "--out", "p", "--force"},
	},
	{
		name: "update", units: []string{"b"}, once: true,
		prepare: [][]string{with(calibrate("--out", "b", "--keep-curvature"), "[train]", "[:2500]")},
		command: []string{"update", "--bundle", "b", "--train", "DATA/digits-images-idx3-ubyte[3000:6000]"},
	},
	{
		name: "export", units: []string{"b.onnx"},
		prepare: [][]string{calibrate("--out", "b", "--limit", "1000")},
		command: []string{"export", "--bundle", "b", "--out", "b.onnx"},
		again:   []string{"export", "--bundle", "b", "--out", "b.onnx", "--force"},
	},
	{
		name: "reseal", units: []string{"b"},
		prepare: [][]string{calibrate("--out", "b", "--limit", "1000")},
		command: []string{"reseal", "b"},
	},
}

// threeParts makes the parts of a calibration.
var threeParts = [][]string{
	calibrate("--out", "p1", "--shard", "1/3"), calibrate("--out", "p2", "--shard", "2/3"),
	calibrate("--out", "p3", "--shard", "3/3"),
}
