package calibrate

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/parallel"
	"github.com/mfgs/mfgs/internal/safetensors"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// sums returns the matrices of a curvature by name.
func (c *Curvature) sums() map[string][]float64 {
	return map[string][]float64{"A": c.a, "H": c.h, "J": c.j, "B": c.b, "G": c.g, "C": c.c}
}

var configs = []CurvatureConfig{
	{Head: layer.Head{Logits: 3, Features: 4, Bias: true, Link: layer.Softmax}, Structure: Full, Fisher: true},
	{Head: layer.Head{Logits: 6, Features: 4, Link: layer.Softmax}, Structure: Full},
	{Head: layer.Head{Logits: 6, Features: 4, Bias: true, Link: layer.Softmax}, Structure: Kronecker, Fisher: true},
	{Head: layer.Head{Logits: MaxDense + 1, Features: 1, Link: layer.Softmax}, Structure: Kronecker, Fisher: true},
	{Head: layer.Head{Logits: 1, Features: 4, Bias: true, Link: layer.Sigmoid}, Structure: Full, Fisher: true},
	{Head: layer.Head{Logits: 20, Features: 4, Bias: true, Link: layer.Sigmoid}, Structure: Full, Fisher: true},
	{Head: layer.Head{Logits: 20, Features: 4, Bias: true, Link: layer.Sigmoid}, Structure: Kronecker, Fisher: true},
	{Head: layer.Head{Logits: 4, Features: 4, Bias: true, Link: layer.OneVsRest}, Structure: Full, Fisher: true},
}

func (cfg CurvatureConfig) name() string {
	return fmt.Sprintf("%s/%s/fisher=%v", nameOf(cfg.Head), cfg.Structure, cfg.Fisher)
}

// blocksOf cuts examples into blocks. Some positions are missing, as those of records that could
// not be read, and where gap is not negative all of that block.
func blocksOf(t testing.TB, h layer.Head, n, gap int) []*rows.Batch {
	t.Helper()
	s := randomSet(h, n, 2, 60)
	var kept []int
	for i := range n {
		s.Positions = append(s.Positions, i)
		if i%97 != 13 && i/BlockSize != gap && (i/BlockSize != 1 || i%BlockSize >= 300) {
			kept = append(kept, i)
		}
	}
	var blocks []*rows.Batch
	for b := range rows.InBlocks(func(yield func(*rows.Batch, error) bool) { yield(s.Pick(kept), nil) }) {
		blocks = append(blocks, b)
	}
	return blocks
}

func summed(t testing.TB, cfg CurvatureConfig, blocks ...*rows.Batch) *Sums {
	t.Helper()
	s := newSums(t, cfg)
	for _, b := range blocks {
		if err := s.AddBlock(b); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func encoded(t testing.TB, s *Sums) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := s.Encode(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func decoded(t testing.TB, data []byte) *Sums {
	t.Helper()
	s, err := DecodeSums(bytes.NewReader(data), int64(len(data)), nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func finished(t testing.TB, s *Sums) *Curvature {
	t.Helper()
	c, err := s.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// size is how many examples of a head make some blocks in little time.
func size(h layer.Head) int {
	if h.Logits > 100 {
		return 3*BlockSize + 7
	}
	return 6*BlockSize + 77
}

// The same parts give the same bytes in any order of merging and however it is nested; and any
// parts agree with one pass.
func TestMergingSortsByPosition(t *testing.T) {
	t.Parallel()
	for i, cfg := range configs {
		t.Run(cfg.name(), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(i), 70))
			gaps := []int{-1, 0, 2}
			if cfg.Head.Logits > 100 {
				gaps = gaps[:1]
			}
			for _, gap := range gaps {
				blocks := blocksOf(t, cfg.Head, size(cfg.Head), gap)
				whole := finished(t, summed(t, cfg, blocks...))
				for range 2 {
					// Blocks go to a part at random: parts interleave.
					parts := make([][]*rows.Batch, 1+rng.IntN(4))
					for _, b := range blocks {
						to := rng.IntN(len(parts))
						parts[to] = append(parts[to], b)
					}
					var want []byte
					for range 4 {
						var left []*Sums
						for _, p := range parts {
							left = append(left, summed(t, cfg, p...))
						}
						for len(left) > 1 { // any two of them
							rng.Shuffle(len(left), func(i, j int) { left[i], left[j] = left[j], left[i] })
							if rng.IntN(2) == 0 {
								left[0] = decoded(t, encoded(t, left[0]))
							}
							if err := left[0].Merge(left[1]); err != nil {
								t.Fatal(err)
							}
							left = append(left[:1], left[2:]...)
						}
						got := encoded(t, left[0])
						if want == nil {
							want = got
						}
						if !bytes.Equal(got, want) {
							t.Fatalf("gap at %d: another order of merging gives other bytes", gap)
						}
					}
					merged := finished(t, decoded(t, want))
					if merged.Examples() != whole.Examples() {
						t.Errorf("%d examples, want %d", merged.Examples(), whole.Examples())
					}
					for name, sum := range whole.sums() {
						wantSame(t, fmt.Sprintf("%d parts: %s", len(parts), name), merged.sums()[name], sum, 1e-12)
					}
				}
			}
		})
	}
}

// A run that ends between two blocks and goes on from what was written gives the bytes of one that
// was not disturbed.
func TestResumingChangesNothing(t *testing.T) {
	t.Parallel()
	for _, cfg := range configs {
		for _, gap := range []int{-1, 0, 1} {
			blocks := blocksOf(t, cfg.Head, size(cfg.Head), gap)
			want := encoded(t, summed(t, cfg, blocks...))
			before := newSums(t, cfg)
			for cut := range len(blocks) + 1 {
				if cut > 0 {
					if err := before.AddBlock(blocks[cut-1]); err != nil {
						t.Fatal(err)
					}
				}
				again := decoded(t, encoded(t, before))
				for _, b := range blocks[cut:] {
					if err := again.AddBlock(b); err != nil {
						t.Fatal(err)
					}
				}
				if !bytes.Equal(encoded(t, again), want) {
					t.Errorf("%s: gap at %d: other bytes after a stop behind %d blocks", cfg.name(), gap, cut)
				}
				if cut%3 == 0 && !reflect.DeepEqual(finished(t, again).sums(), finished(t, decoded(t, want)).sums()) {
					t.Errorf("%s: another curvature", cfg.name())
				}
			}
		}
	}
}

// halvesDiffer is a product that makes of a symmetric matrix one that is not: what is below the
// diagonal is rounded otherwise, in a way of its own each time.
type halvesDiffer struct {
	parallel.Product
	times float64
}

func (p *halvesDiffer) AddTransposedProduct(c, a, b []float64, rows, m, n int) error {
	p.times++
	for i := range min(m, n) {
		for j := range i {
			c[i*n+j] += p.times * 1e-6
		}
	}
	return p.Product.AddTransposedProduct(c, a, b, rows, m, n)
}

// Of a symmetric matrix half is written, and that decides everything: a product that makes another of
// the other half gives the same bytes and the same posterior, whether the sums were read again or not.
func TestHalfOfASymmetricMatrixDecides(t *testing.T) {
	t.Parallel()
	for _, cfg := range configs {
		blocks := blocksOf(t, cfg.Head, size(cfg.Head), -1)
		want := summed(t, cfg, blocks...)
		cfg.Product = &halvesDiffer{Product: parallel.OrGo(nil)}
		got := summed(t, cfg, blocks[:2]...)
		again, err := DecodeSums(bytes.NewReader(encoded(t, got)), int64(len(encoded(t, got))), cfg.Product)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range blocks[2:] {
			if err := errors.Join(got.AddBlock(b), again.AddBlock(b)); err != nil {
				t.Fatal(err)
			}
		}
		for name, s := range map[string]*Sums{"undisturbed": got, "read again": again} {
			if !bytes.Equal(encoded(t, s), encoded(t, want)) {
				t.Errorf("%s, %s: other bytes", cfg.name(), name)
			}
			if !reflect.DeepEqual(finished(t, s).sums(), finished(t, decoded(t, encoded(t, want))).sums()) {
				t.Errorf("%s, %s: another curvature", cfg.name(), name)
			}
		}
	}
}

// Parts that are joined cost the memory of one, and are the same whether they were encoded and merged
// in groups or all together, as long as the same are joined.
func TestJoiningIsTheSameInAnyGroups(t *testing.T) {
	t.Parallel()
	for _, cfg := range configs {
		t.Run(cfg.name(), func(t *testing.T) {
			blocks := blocksOf(t, cfg.Head, size(cfg.Head), 1)
			left, right := blocks[:len(blocks)/2], blocks[len(blocks)/2:]
			before := rows.Block(right[0].Positions[0])
			merged := func(blocks []*rows.Batch, order func([]*rows.Batch)) *Sums {
				s, blocks := newSums(t, cfg), slices.Clone(blocks)
				order(blocks)
				for _, b := range blocks {
					if err := s.Merge(summed(t, cfg, b)); err != nil {
						t.Fatal(err)
					}
				}
				return s
			}
			flat := merged(blocks, slices.Reverse)
			flat.Join(0, before)
			flat.Join(before, rows.MaxBlocks)
			flat.Join(0, rows.MaxBlocks)
			a, b := merged(left, func([]*rows.Batch) {}), merged(right, slices.Reverse)
			a.Join(0, before)
			b.Join(0, rows.MaxBlocks)
			nested := decoded(t, encoded(t, b))
			if err := nested.Merge(decoded(t, encoded(t, a))); err != nil {
				t.Fatal(err)
			}
			nested.Join(0, rows.MaxBlocks)
			if len(flat.parts) != 1 || !bytes.Equal(encoded(t, nested), encoded(t, flat)) {
				t.Error("parts joined in groups give other bytes")
			}
			whole := finished(t, summed(t, cfg, blocks...))
			for name, sum := range whole.sums() {
				wantSame(t, name, finished(t, decoded(t, encoded(t, flat))).sums()[name], sum, 1e-12)
			}
		})
	}
}

func TestBlocksAreSummedOnce(t *testing.T) {
	t.Parallel()
	cfg := configs[0]
	blocks := blocksOf(t, cfg.Head, size(cfg.Head), -1)
	s := summed(t, cfg, blocks[1], blocks[3])
	before := encoded(t, s)
	const said = "the examples from 1536 to 2047 were already added"
	if err := s.AddBlock(blocks[3]); err == nil || !strings.HasPrefix(err.Error(), said) {
		t.Errorf("error %v, want %q", err, said)
	}
	other := summed(t, cfg, blocks[2], blocks[3], blocks[4])
	if err := s.Merge(other); err == nil || !strings.HasPrefix(err.Error(), said) {
		t.Errorf("error %v, want %q", err, said)
	}
	if !bytes.Equal(encoded(t, s), before) || other.Examples() == 0 {
		t.Error("refused, but changed")
	}
	if err := s.AddBlock(blocks[2]); err != nil {
		t.Errorf("a block between the others: %v", err)
	}
}

func TestMergeRefusesAnotherConfiguration(t *testing.T) {
	t.Parallel()
	base := CurvatureConfig{Head: layer.Head{Logits: 3, Features: 4, Link: layer.Softmax}, Structure: Full}
	for name, change := range map[string]func(*CurvatureConfig){
		"logits":    func(c *CurvatureConfig) { c.Head.Logits = 4 },
		"features":  func(c *CurvatureConfig) { c.Head.Features = 5 },
		"bias":      func(c *CurvatureConfig) { c.Head.Bias, c.Head.Features = true, 3 },
		"structure": func(c *CurvatureConfig) { c.Structure = Kronecker },
		"fisher":    func(c *CurvatureConfig) { c.Fisher = true },
	} {
		other := base
		change(&other)
		s, o := sumsOf(t, base, randomSet(base.Head, 3, 1, 64), 0), sumsOf(t, other, randomSet(other.Head, 3, 1, 64),
			BlockSize)
		before := encoded(t, s)
		err := s.Merge(o)
		if err == nil || !strings.Contains(err.Error(), s.String()) || !strings.Contains(err.Error(), o.String()) {
			t.Errorf("another %s: error %v, want one that names both", name, err)
		}
		if name != "bias" && s.String() == o.String() {
			t.Errorf("another %s: both are called %q", name, s)
		}
		if !bytes.Equal(before, encoded(t, s)) || s.Examples() != 3 {
			t.Errorf("another %s: refused, but added", name)
		}
	}
}

func TestErrorsOfTheProductAreFinal(t *testing.T) {
	t.Parallel()
	for _, cfg := range append(slices.Clone(configs), CurvatureConfig{Head: heads[0], Structure: Full}) {
		one := randomSet(cfg.Head, 1, 1, 65)
		healthy := sumsOf(t, cfg, one, 99*BlockSize)
		for left := range 3 {
			cfg.Product = &failingProduct{left: left}
			s := newSums(t, cfg)
			// Each block needs at least one product.
			var err error
			for i := 0; i < 4 && err == nil; i++ {
				err = addAll(s, one, i*BlockSize)
			}
			_, finish := s.Finish()
			for name, err := range map[string]error{
				"adding": err, "adding again": addAll(s, one, 9*BlockSize), "Merge": s.Merge(healthy), "merged": healthy.Merge(s),
				"Encode": s.Encode(&bytes.Buffer{}), "Finish": finish,
			} {
				if !errors.Is(err, errProduct) {
					t.Errorf("%s: %s after %d products: error %v, want that of the product", cfg.name(), name, left, err)
				}
			}
		}
	}
}

func TestACurvatureIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	for _, cfg := range configs[:3] {
		c := accumulate(t, cfg, randomSet(cfg.Head, 300, 2, 62), 0)
		want := mustPosterior(t, accumulate(t, cfg, randomSet(cfg.Head, 300, 2, 62), 0), Hessian, 0.5)
		done := make(chan *Posterior)
		const readers = 8
		for range readers {
			go func() {
				p, err := c.Posterior(Hessian, 0.5)
				if err != nil {
					t.Error(err)
				}
				done <- p
			}()
		}
		for range readers {
			if p := <-done; !reflect.DeepEqual(p, want) {
				t.Errorf("%s: another posterior", cfg.name())
			}
		}
	}
}

// resealed returns encoded sums whose tensors were changed, with a checksum that fits.
func resealed(t testing.TB, data []byte, change func(tensors []safetensors.Tensor,
	metadata map[string]string) []safetensors.Tensor) []byte {
	t.Helper()
	f, err := safetensors.NewSealedFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	var tensors []safetensors.Tensor
	for _, info := range f.Tensors() {
		one := safetensors.Tensor{Name: info.Name, Shape: info.Shape}
		if info.Type == tensor.Int64 {
			one.Data, err = safetensors.Read[int64](f, info.Name)
		} else {
			one.Data, err = safetensors.Read[float64](f, info.Name)
		}
		if err != nil {
			t.Fatal(err)
		}
		tensors = append(tensors, one)
	}
	var b bytes.Buffer
	if err := safetensors.EncodeSealed(&b, change(tensors, f.Metadata()), f.Metadata()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Version 1 lacks the directions of features. Its sums are read and written as they were, and give the same curvature;
// merged with others, the directions are left out.
func TestSumsOfVersion1AreRead(t *testing.T) {
	t.Parallel()
	for _, cfg := range configs {
		blocks := blocksOf(t, cfg.Head, size(cfg.Head), -1)
		s := summed(t, cfg, blocks[0], blocks[1])
		if !s.directions {
			continue
		}
		old := resealed(t, encoded(t, s), func(tensors []safetensors.Tensor, m map[string]string) []safetensors.Tensor {
			m["mfgs.sums"] = "1"
			return slices.DeleteFunc(tensors, func(t safetensors.Tensor) bool {
				return strings.HasSuffix(t.Name, ".u") || strings.HasSuffix(t.Name, ".v")
			})
		})
		read, err := DecodeSums(bytes.NewReader(old), int64(len(old)), nil)
		if err != nil {
			t.Fatal(err)
		}
		if again := encoded(t, read); !bytes.Equal(again, old) {
			t.Errorf("%s: sums of version 1 are written as others", cfg.Head.Link)
		}
		if err := read.Merge(summed(t, cfg, blocks[2])); err != nil {
			t.Fatal(err)
		}
		c, err := read.Finish()
		if err != nil {
			t.Fatal(err)
		}
		whole, err := summed(t, cfg, blocks[0], blocks[1], blocks[2]).Finish()
		if err != nil {
			t.Fatal(err)
		}
		wantRelative(t, "A", c.a, whole.a, 1e-13)
		if c.u != nil || whole.u == nil || c.Training(nil, nil, &rows.Batch{}).Directions != nil {
			t.Errorf("%s: %d and %d numbers of directions", cfg.Head.Link, len(c.u), len(whole.u))
		}
	}
}

func TestDamagedSumsAreRefused(t *testing.T) {
	t.Parallel()
	cfg := configs[0]
	blocks := blocksOf(t, cfg.Head, size(cfg.Head), -1)
	s := summed(t, cfg, blocks[1], blocks[2], blocks[4])
	if err := s.Merge(summed(t, cfg, blocks[3])); err != nil {
		t.Fatal(err)
	}
	good := encoded(t, s) // of two parts, each with n, blocks, a, h, j, c, u and v
	spans := func(part int, bounds ...int64) func([]safetensors.Tensor, map[string]string) {
		return func(tensors []safetensors.Tensor, _ map[string]string) {
			tensors[8*part+1].Shape, tensors[8*part+1].Data = []int{len(bounds)}, bounds
		}
	}
	meta := func(name, value string) func([]safetensors.Tensor, map[string]string) {
		return func(_ []safetensors.Tensor, m map[string]string) { m[name] = value }
	}
	count := func(n int64) func([]safetensors.Tensor, map[string]string) {
		return func(tensors []safetensors.Tensor, _ map[string]string) { tensors[0].Data = []int64{n} }
	}
	for want, change := range map[string]func([]safetensors.Tensor, map[string]string){
		`format version "3"`:                                      meta("mfgs.sums", "3"),
		`link "probit"`:                                           meta("link", "probit"),
		`logits is "many"`:                                        meta("logits", "many"),
		`features is "9000000000000000000"`:                       meta("features", "9000000000000000000"),
		`bias is "yes"`:                                           meta("bias", "yes"),
		`fisher is ""`:                                            meta("fisher", ""),
		`structure "auto", want full or kron`:                     meta("structure", "auto"),
		`structure "dense"`:                                       meta("structure", "dense"),
		"use the kron structure":                                  meta("features", "1000000"),
		`tensor "0.a" is F64 [15], want F64 [21]`:                 meta("features", "5"),
		"16 tensors, want 7 for each part":                        meta("fisher", "false"),
		`no such tensor: there are ["0.n" "0.blocks" "0.a" "0.h"`: meta("structure", "kron"),
		"has 0 examples":                                          count(0),
		"has 1537 examples in 3 blocks":                           count(1537),
		"covers blocks 2 to 1 after 0":                            spans(0, 2, 1),
		"covers blocks 2 to 3 after 3":                            spans(0, 1, 3, 2, 3),
		"covers blocks 3 to 4 after 3":                            spans(0, 1, 3, 3, 4),
		"covers blocks -1 to 3":                                   spans(0, -1, 3, 4, 5),
		"covers blocks 1 to 4611686018427387904":                  spans(0, 1, 1<<62),
		"0 bounds of blocks":                                      spans(0),
		"3 bounds of blocks":                                      spans(0, 1, 2, 3),
		"want ascending blocks":                                   spans(1, 1, 2),
		"the examples from 1024 to 1535":                          spans(1, 2, 3),
		`tensor "0.a": entry 3 is NaN`: func(tensors []safetensors.Tensor, _ map[string]string) {
			tensors[2].Data.([]float64)[3] = math.NaN()
		},
		`tensor "1.h": entry 0 is -Inf`: func(tensors []safetensors.Tensor, _ map[string]string) {
			tensors[11].Data.([]float64)[0] = math.Inf(-1)
		},
	} {
		bad := resealed(t, good, func(tensors []safetensors.Tensor, m map[string]string) []safetensors.Tensor {
			change(tensors, m)
			return tensors
		})
		_, err := DecodeSums(bytes.NewReader(bad), int64(len(bad)), nil)
		if err == nil || !strings.HasPrefix(err.Error(), "curvature sums: ") || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	for i := 0; i < len(good); i += 7 {
		damaged := bytes.Clone(good)
		damaged[i] ^= 1 << (i % 8)
		if _, err := DecodeSums(bytes.NewReader(damaged), int64(len(damaged)), nil); err == nil {
			t.Errorf("byte %d is another, and nobody notices", i)
		}
	}
	if !bytes.Equal(encoded(t, decoded(t, good)), good) {
		t.Error("read and written they are others")
	}
}

// reseal writes the checksum of all that lies before it.
func reseal(data []byte) []byte {
	data = bytes.Clone(data)
	if end := len(data) - sha256.Size; end >= 0 {
		sum := sha256.Sum256(data[:end])
		copy(data[end:], sum[:])
	}
	return data
}

// FuzzDecodeSums changes what lies before a checksum that fits.
func FuzzDecodeSums(f *testing.F) {
	h := layer.Head{Logits: 2, Features: 1, Bias: true, Link: layer.Softmax}
	cfg := CurvatureConfig{Head: h, Structure: Kronecker, Fisher: true}
	s := sumsOf(f, cfg, randomSet(cfg.Head, 2, 1, 66), 5*BlockSize-1)
	f.Add(encoded(f, s))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, data := range [][]byte{data, reseal(data)} {
			s, err := DecodeSums(bytes.NewReader(data), int64(len(data)), nil)
			if err != nil {
				continue
			}
			again := decoded(t, encoded(t, s))
			if !bytes.Equal(encoded(t, again), encoded(t, s)) {
				t.Error("read and written they are others")
			}
			if c := finished(t, again); c.Examples() > len(data)*BlockSize {
				t.Errorf("%d examples of %d bytes", c.Examples(), len(data))
			}
		}
	})
}

// Of each class there are the sum of features and the number of examples: by label, or by what the
// network says of examples without one.
func TestFeaturesAreSummedByClass(t *testing.T) {
	t.Parallel()
	for _, cfg := range configs {
		blocks := blocksOf(t, cfg.Head, size(cfg.Head), 2)
		for _, b := range blocks {
			for i := range b.Labels {
				if i%3 == 0 && !cfg.Fisher {
					b.Labels[i] = -1
				}
			}
		}
		h, d := cfg.Head, cfg.Head.Features
		groups := h.Classes()
		if h.MultiLabel() {
			groups = 1
		}
		want := make([]float64, groups*(d+1))
		for _, b := range blocks {
			for i := range b.N {
				phi, logits := b.Row(i)
				group := 0
				for k := range groups { // the largest logit, of a single one against nothing
					if len(logits) == 1 && k == 1 && logits[0] > 0 || len(logits) > 1 && logits[k] > logits[group] {
						group = k
					}
				}
				if b.Labels != nil && b.Labels[i] >= 0 {
					group = b.Labels[i]
				}
				if h.MultiLabel() {
					group = 0
				}
				for j, v := range phi {
					want[group*(d+1)+j] += float64(v)
				}
				want[group*(d+1)+d]++
			}
		}
		c := finished(t, summed(t, cfg, blocks...))
		wantSame(t, cfg.name(), c.c, want, 1e-12)
	}
}

// Where the sums of all classes would take too much memory there is one of all.
func TestSumsByClassAreBounded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ logits, features, groups int }{
		{1000, 2048, 1000}, {4096, 2047, 4096}, {4096, 2048, 1}, {21841, 2048, 1},
	} {
		h := layer.Head{Logits: c.logits, Features: c.features, Link: layer.Softmax}
		l, err := newLayout(CurvatureConfig{Head: h, Structure: Kronecker})
		if err != nil || l.groups != c.groups {
			t.Errorf("%d groups of %d classes with %d features, want %d (%v)", l.groups, c.logits, c.features, c.groups, err)
		}
	}
}
