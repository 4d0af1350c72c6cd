package calibrate

import (
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/parallel"
	"github.com/mfgs/mfgs/internal/safetensors"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// sumsVersion is the format version that Encode writes. Version 1, without directions, is read too.
const sumsVersion = "2"

// Encode writes the sums as a sealed safetensors file (see [safetensors.EncodeSealed]) of format version 2, or of
// version 1 if they were read from one. Its metadata hold
//
//	mfgs.sums         "2"
//	link              "softmax", "sigmoid" or "one-vs-rest"
//	logits, features  K and d, decimal
//	structure         "full" or "kron"
//	bias, fisher      "true" or "false"
//
// and its tensors, for each part i = 0, 1, … in the order of their first blocks, are
//
//	i.n         I64 []            examples
//	i.blocks    I64 [spans,2]     blocks covered, [from,to), ascending
//	i.a         F64               Σφφᵀ, [D(D+1)/2]: the rows of its upper triangle
//	i.h, i.j    F64, full         [P·D(D+1)/2], such a triangle for each of P pairs of coupled logits
//	i.b, i.g    F64, kron         [K(K+1)/2], likewise; the diagonal [K] if K > 2048 or logits are separate
//	i.c         F64               [C·(d+1)], for each class Σφ and the number of examples; C is 1, for all
//	                              examples together, for multi-label heads and beyond 2²³ numbers
//	i.u         F64               Σuuᵀ of the directions u = φ/|φ|, [d(d+1)/2]: the rows of its upper triangle
//	i.v         F64               [C·d], for each class Σu
//
// j and g exist only with the Fisher matrix, u and v in version 2 if C > 1 and d ≤ 4096. The same sums give the same
// bytes.
func (s *Sums) Encode(w io.Writer) error {
	if s.err != nil {
		return s.err
	}
	var tensors []safetensors.Tensor
	for i, p := range s.parts {
		spans := make([]int64, 0, 2*len(p.blocks))
		for _, b := range p.blocks {
			spans = append(spans, int64(b.from), int64(b.to))
		}
		prefix := strconv.Itoa(i) + "."
		tensors = append(tensors,
			safetensors.Tensor{Name: prefix + "n", Data: []int64{int64(p.n)}},
			safetensors.Tensor{Name: prefix + "blocks", Shape: []int{len(p.blocks), 2}, Data: spans})
		for _, m := range p.of(&s.layout) {
			tensors = append(tensors,
				safetensors.Tensor{Name: prefix + m.name, Shape: []int{m.encodedSize()}, Data: m.encoded()})
		}
	}
	version := sumsVersion
	if !s.directions && s.layout.hasDirections() {
		version = "1"
	}
	meta := map[string]string{
		"mfgs.sums": version, "link": string(s.head.Link),
		"logits": strconv.Itoa(s.head.Logits), "features": strconv.Itoa(s.head.Features),
		"structure": string(s.structure), "bias": strconv.FormatBool(s.head.Bias), "fisher": strconv.FormatBool(s.fisher),
	}
	if s.head.Nonlinear {
		meta["nonlinear"] = "true"
	}
	if s.head.Missing {
		meta["missing"] = "true"
	}
	return safetensors.EncodeSealed(w, tensors, meta)
}

// DecodeSums reads and checks the size bytes that [Sums.Encode] wrote. It allocates no more than three times
// that size. product, which may be nil, is for blocks added later.
func DecodeSums(r io.ReaderAt, size int64, product parallel.Product) (*Sums, error) {
	f, err := safetensors.NewSealedFile(r, size)
	if err != nil {
		return nil, fmt.Errorf("curvature sums: %w", err)
	}
	s, err := decodeSums(f, product)
	if err != nil {
		return nil, fmt.Errorf("curvature sums: %w", err)
	}
	return s, nil
}

func decodeSums(f *safetensors.File, product parallel.Product) (*Sums, error) {
	meta := f.Metadata()
	version := meta["mfgs.sums"]
	if version != "1" && version != sumsVersion {
		return nil, fmt.Errorf("format version %.20q, want 1 or %s", version, sumsVersion)
	}
	cfg := CurvatureConfig{Head: layer.Head{Link: layer.Link(meta["link"])}, Structure: Structure(meta["structure"]), Product: product}
	for name, v := range map[string]*int{"logits": &cfg.Head.Logits, "features": &cfg.Head.Features} {
		var err error
		if *v, err = strconv.Atoi(meta[name]); err != nil || *v > 1<<30 {
			return nil, fmt.Errorf("%s is %.20q, want a number up to 2³⁰", name, meta[name])
		}
	}
	for name, v := range map[string]*bool{"bias": &cfg.Head.Bias, "fisher": &cfg.Fisher} {
		switch meta[name] {
		case "true", "false":
			*v = meta[name] == "true"
		default:
			return nil, fmt.Errorf("%s is %.20q, want true or false", name, meta[name])
		}
	}
	cfg.Head.Nonlinear, cfg.Head.Missing = meta["nonlinear"] == "true", meta["missing"] == "true"
	s, err := NewSums(cfg)
	if err != nil {
		return nil, err
	}
	s.directions = s.directions && version != "1"
	if s.structure != cfg.Structure {
		return nil, fmt.Errorf("structure %q, want full or kron", cfg.Structure)
	}
	each := 2 + len(new(matrices).of(&s.layout))
	for i := range len(f.Tensors()) / each {
		p, err := s.decodePart(f, strconv.Itoa(i)+".")
		if err != nil {
			return nil, err
		}
		if i > 0 && p.first() <= s.parts[i-1].first() {
			return nil, fmt.Errorf("part %d starts at block %d, the one before it at %d: want ascending blocks", i, p.first(), s.parts[i-1].first())
		}
		s.parts = append(s.parts, p)
	}
	if len(f.Tensors()) != each*len(s.parts) {
		return nil, fmt.Errorf("%d tensors, want %d for each part: sums of an earlier version cannot be read: calibrate again", len(f.Tensors()), each)
	}
	if block, twice := overlap(s.parts); twice {
		return nil, coveredTwice(block)
	}
	return s, nil
}

// decodePart reads the tensors of one part, whose names begin with a prefix.
func (s *Sums) decodePart(f *safetensors.File, prefix string) (*part, error) {
	p := &part{}
	n, err := safetensors.Read[int64](f, prefix+"n")
	if err != nil {
		return nil, err
	}
	spans, err := safetensors.Read[int64](f, prefix+"blocks")
	if err != nil {
		return nil, err
	}
	if len(n) != 1 || len(spans) == 0 || len(spans)%2 != 0 {
		return nil, fmt.Errorf("part %s has %d counts and %d bounds of blocks, want 1 and pairs", prefix, len(n), len(spans))
	}
	var end, blocks int64
	for i := 0; i < len(spans); i += 2 {
		from, to := spans[i], spans[i+1]
		if from < end || to <= from || to > rows.MaxBlocks || i > 0 && from == end {
			return nil, fmt.Errorf("part %s covers blocks %d to %d after %d, want ascending blocks with gaps", prefix, from, to, end)
		}
		p.blocks = append(p.blocks, span{int(from), int(to)})
		blocks, end = blocks+to-from, to
	}
	if n[0] < blocks || n[0] > blocks*BlockSize {
		return nil, fmt.Errorf("part %s has %d examples in %d blocks, want 1 to %d in each", prefix, n[0], blocks, BlockSize)
	}
	p.n = int(n[0])
	for _, m := range p.of(&s.layout) {
		t, err := f.Lookup(prefix + m.name)
		if err != nil {
			return nil, err
		}
		if size := m.encodedSize(); t.Type != tensor.Float64 || len(t.Shape) != 1 || t.Shape[0] != size {
			return nil, fmt.Errorf("tensor %q is %s %v, want F64 [%d]", t.Name, t.Type.Safetensors(), t.Shape, size)
		}
		entries, err := safetensors.Read[float64](f, t.Name)
		if err != nil {
			return nil, err
		}
		m.decode(entries)
		for i, v := range entries {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return nil, fmt.Errorf("tensor %q: entry %d is %v, want a finite number", t.Name, i, v)
			}
		}
	}
	return p, nil
}
