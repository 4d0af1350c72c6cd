package main

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/images"
	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/onnxlayers"
	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/internal/attach"
	"github.com/mfgs/mfgs/internal/source"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// A restricted network keeps the first classes of another's last layer, and the data of these classes. Features are
// those of the other, computed once: the network is its last layer, and its data are features.

// restricted returns the restrictions of a network, given its bundle.
func (l *lab) restricted(ctx context.Context, h scoreNetwork, seed int, path string) ([]scoreNetwork, error) {
	cut, w, b, err := l.openCut(ctx, h, path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = cut.Close() }()
	far := h.sets[slices.IndexFunc(h.sets, func(u oodSet) bool { return u.name == h.restrictedOn })]
	var sets [4]*rows.Batch
	for i, spec := range []string{h.set.train, h.set.val, h.set.test, far.test().Spec} {
		if sets[i], err = l.read(ctx, cut, h, spec, i < 3); err != nil {
			return nil, err
		}
	}
	sets[3] = sets[3].Pick(rows.Firsts(sets[3].N, min(sets[3].N, scoreImages)))
	d := len(sets[0].Features) / sets[0].N
	var all []scoreNetwork
	for _, k := range restrictions {
		name := restrictedName(h.name, k)
		file := func(of string) string { return filepath.Join(l.scratch, "restricted", fileName(name), of) }
		model, err := onnxlayers.LastLayer(w[:k*d], b[:k], k, d)
		if err != nil {
			return nil, err
		}
		if err := images.WriteFile(file("model.onnx"), model); err != nil {
			return nil, err
		}
		inside := func(label int) bool { return label < k }
		outside := func(label int) bool { return label >= k }
		for of, some := range map[string]*rows.Batch{
			"train.npz": ofClasses(sets[0], inside), "val.npz": ofClasses(sets[1], inside), "test.npz": ofClasses(sets[2], inside),
			"others.npz": ofClasses(sets[2], outside), "far.npz": sets[3],
		} {
			if err := writeFeatures(file(of), some, d); err != nil {
				return nil, err
			}
		}
		all = append(all, scoreNetwork{
			name: name, seeds: []int{seed}, untuned: true,
			set: &benchmark{
				name: name, train: file("train.npz"), val: file("val.npz"), test: file("test.npz"),
				network: func(string, int) string { return file("model.onnx") },
			},
			sets: []oodSet{{name: otherClasses, spec: file("others.npz")}, {name: far.name, spec: file("far.npz")}},
		})
	}
	return all, nil
}

// openCut opens the network of a bundle, cut at its head, with the head's weights.
func (l *lab) openCut(ctx context.Context, h scoreNetwork, path string) (cut *attach.Cut, w, b []float32, err error) {
	opened, err := bundle.OpenContext(ctx, path)
	if err != nil {
		return nil, nil, nil, err
	}
	a, err := attach.Open(ctx, opened, "", h.set.preprocess)
	if err != nil {
		return nil, nil, nil, err
	}
	if w, b, err = a.Head.Weights(); err != nil {
		return nil, nil, nil, err
	}
	run := attach.RunConfig("", l.runtime.Threads, a.Batch())
	err = a.Run(h.set.preprocess, run, func(c featurize.Config) (err error) {
		cut, err = attach.OpenCut(a.Model, a.Head, c)
		return err
	})
	return cut, w, b, err
}

// read returns the features of a dataset, from the cache if they are there.
func (l *lab) read(
	ctx context.Context, cut *attach.Cut, h scoreNetwork, spec string, labels bool,
) (*rows.Batch, error) {
	o := source.Opener{Network: cut.Network, Cache: l.cache(h.set.name), Notes: new(source.Notes)}
	s, err := o.Open(ctx, spec, spec, cut.Head.Logits, labels)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return s.Collect(ctx)
}

// ofClasses are the examples with some labels.
func ofClasses(b *rows.Batch, some func(label int) bool) *rows.Batch {
	var at []int
	for i, label := range b.Labels {
		if some(label) {
			at = append(at, i)
		}
	}
	return b.Pick(at)
}

// writeFeatures writes features, [n,d], and labels, if there are any, as .npz.
func writeFeatures(path string, b *rows.Batch, d int) error {
	var file bytes.Buffer
	z := zip.NewWriter(&file)
	write := func(name, kind, shape string, data any) error {
		w, err := z.CreateHeader(&zip.FileHeader{Name: name + ".npy", Method: zip.Store})
		if err != nil {
			return err
		}
		// The header ends with a line feed at a multiple of 64 bytes.
		head := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s, }", kind, shape)
		head = fmt.Sprintf("%-*s\n", (10+len(head)+64)/64*64-11, head)
		for _, part := range []any{[]byte("\x93NUMPY\x01\x00"), uint16(len(head)), []byte(head), data} {
			if err := binary.Write(w, binary.LittleEndian, part); err != nil {
				return err
			}
		}
		return nil
	}
	if err := write(onnxlayers.LastLayerInput, "<f4", fmt.Sprintf("(%d, %d)", b.N, d), b.Features); err != nil {
		return err
	}
	if len(b.Labels) > 0 {
		labels := make([]int64, b.N)
		for i, v := range b.Labels {
			labels[i] = int64(v)
		}
		if err := write("labels", "<i8", fmt.Sprintf("(%d,)", b.N), labels); err != nil {
			return err
		}
	}
	if err := z.Close(); err != nil {
		return err
	}
	return images.WriteFile(path, file.Bytes())
}
