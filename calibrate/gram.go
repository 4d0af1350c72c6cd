package calibrate

import (
	"math"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/parallel"
)

// gram adds the products of the examples of a block to sums.
type gram struct {
	*layout
	curvature func(p, q []float64, logits []float32) // of the link

	n       int       // examples of the block
	phi     []float64 // [n,D] augmented
	width   int       // weights of an example
	weights []float64 // of phi, [n,width]; Kronecker: [width/K, BlockSize, K]
	p, q    []float64 // of one example: p and 1-p
	r       []float64 // of one example: p-y

	units []float64 // [n,d] the examples' directions

	transposed, products, sum []float64 // work space
}

func newGram(l *layout) *gram {
	k := l.head.Logits
	g := &gram{layout: l, curvature: links[l.head.Link].curvature}
	switch {
	case l.structure == Full:
		g.width = 1 + l.curvatureWeights()
		if l.fisher {
			g.width += l.pairs()
		}
	case l.fisher && !l.diagonal:
		g.width = 2 * k
	case !l.diagonal:
		g.width = k
	}
	g.phi = make([]float64, BlockSize*l.head.Dim())
	if l.directions {
		g.units = make([]float64, BlockSize*l.head.Features)
	}
	g.weights = make([]float64, BlockSize*g.width)
	g.p, g.q, g.r = make([]float64, k), make([]float64, k), make([]float64, k)
	return g
}

// add adds a checked block.
func (g *gram) add(m *matrices, b *rows.Batch) error {
	d := g.head.Dim()
	for g.n = 0; g.n < b.N; g.n++ {
		phi, logits := b.Row(g.n)
		augment(g.head, g.phi[g.n*d:(g.n+1)*d], phi)
		g.curvature(g.p, g.q, logits)
		if g.fisher {
			residuals(g.head, g.r, g.p, g.q, b.Label(g.n), b.Target(g.n))
		}
		if g.structure == Full {
			g.fullWeights()
		} else {
			g.kroneckerWeights(m)
		}
		g.addClassSum(m, phi, logits, b.Label(g.n))
	}
	m.n += b.N
	if g.directions {
		d := g.head.Features
		u := g.units[:b.N*d]
		if err := g.product.AddTransposedProduct(m.u, u, u, b.N, d, d); err != nil {
			return err
		}
	}
	if g.structure == Full {
		return g.addFull(m)
	}
	return g.addKronecker(m)
}

// addClassSum adds the features of an example to the sum of its class: its label or, without one, the prediction.
func (g *gram) addClassSum(m *matrices, phi, logits []float32, label int) {
	if label < 0 {
		label = g.head.Predicted(logits)
	}
	if g.groups == 1 {
		label = 0
	}
	d := len(phi)
	row := m.c[label*(d+1) : (label+1)*(d+1)]
	for i, v := range phi {
		row[i] += float64(v)
	}
	row[d]++
	if !g.directions {
		return
	}
	u := g.units[g.n*d : (g.n+1)*d]
	direction(u, phi)
	add(m.v[label*d:(label+1)*d], u)
}

// direction writes φ/|φ|, or zeros for φ = 0.
func direction(u []float64, phi []float32) {
	var square float64
	for _, v := range phi {
		square += float64(v) * float64(v)
	}
	scale := 0.0
	if square > 0 {
		scale = 1 / math.Sqrt(square)
	}
	for i, v := range phi {
		u[i] = scale * float64(v)
	}
}

// residuals writes r = p - y, where y is the targets or the one-hot label. Where y is 1, r is -(1-p).
func residuals(h layer.Head, r, p, q []float64, label int, targets []uint8) {
	copy(r, p)
	switch {
	case targets != nil:
		for k, y := range targets {
			if y == 1 {
				r[k] = -q[k]
			}
		}
	case h.Logits == 1:
		if label == 1 {
			r[0] = -q[0]
		}
	default:
		r[label] = -q[label]
	}
}

// curvatureWeights returns how many weights of an example are for H, one for each pair of logits; see terms.
func (l *layout) curvatureWeights() int {
	if l.coupled == 1 {
		return l.head.Logits
	}
	return l.pairs() - l.head.Logits
}

// fullWeights writes the weights of example n for the full structure: 1 for A; then w_kl for H, of every coupled pair
// k < l or of every separate logit; then those for J, of every pair k ≤ l.
func (g *gram) fullWeights() {
	p, q, r := g.p, g.q, g.r
	w := g.weights[g.n*g.width : (g.n+1)*g.width]
	w[0] = 1
	at := 1
	for first := 0; first < len(p); first += g.coupled {
		end := first + g.coupled
		for i := first; i < end; i++ {
			if g.coupled == 1 {
				w[at] = p[i] * q[i]
				at++
			}
			for l := i + 1; l < end; l++ {
				w[at] = -p[i] * p[l]
				at++
			}
		}
	}
	for first := 0; first < len(p) && g.fisher; first += g.coupled {
		for i := first; i < first+g.coupled; i++ {
			for l := i; l < first+g.coupled; l++ {
				w[at] = r[i] * r[l]
				at++
			}
		}
	}
}

// kroneckerWeights writes p and r of example n, and adds p(1-p) to the diagonal of B. A sum of p² would lose the
// 1-p of a network that is confident on its training data.
func (g *gram) kroneckerWeights(m *matrices) {
	k, p, q, r := len(g.p), g.p, g.q, g.r
	if g.diagonal {
		for i := range k {
			m.b[i] += p[i] * q[i]
			if g.fisher {
				m.g[i] += r[i] * r[i]
			}
		}
		return
	}
	copy(g.weights[g.n*k:], p)
	if g.fisher {
		copy(g.weights[(BlockSize+g.n)*k:], r)
	}
	for i := range k {
		m.b[i*k+i] += p[i] * q[i]
	}
}

// addFull adds Σ w_kl φφᵀ of the block for each pair of classes.
//
// H has K(K+1)/2 · D(D+1)/2 distinct entries, a quarter of its (KD)². They are the product of two thin matrices:
// the weights by pair of classes, and φ_iφ_j by pair of features, formed a few rows of the triangle at a time.
// With few classes, forming the second costs more than the product, and one product per pair of classes is
// faster.
func (g *gram) addFull(m *matrices) error {
	d, n, width := g.head.Dim(), g.n, g.width
	const fewPairs = 16
	if width < fewPairs {
		return g.addFullByPair(m)
	}
	g.transposed = grow(g.transposed, width*n)
	for r := range n {
		for i, w := range g.weights[r*width : (r+1)*width] {
			g.transposed[i*n+r] = w
		}
	}
	terms := g.terms(m)
	return forEachProduct(g.phi[:n*d], d, &g.products, func(offset int, products []float64) error {
		columns := len(products) / n
		g.sum = grow(g.sum, width*columns)
		if err := g.product.Multiply(g.sum, g.transposed, products, width, n, columns); err != nil {
			return err
		}
		parallel.For(columns, func(first, last int) {
			for i, t := range terms {
				t.add(g.sum[i*columns+first:i*columns+last], offset+first)
			}
		})
		return nil
	})
}

// forEachProduct calls f with the products φ_iφ_j, i ≤ j, of all rows of x [n,D]: some of the D(D+1)/2 columns at
// a time, [n,columns], and the index of the first.
func forEachProduct(x []float64, d int, scratch *[]float64, f func(offset int, products []float64) error) error {
	const maxColumns = 4096 // columns at a time: [512, 4096] float64 are 16 MiB
	rows := len(x) / d
	for first := 0; first < d; {
		last, columns := first, 0
		for last < d && (columns == 0 || columns+d-last <= maxColumns) {
			columns += d - last
			last++
		}
		*scratch = grow(*scratch, rows*columns)
		products := *scratch
		parallel.For(rows, func(from, to int) {
			for r := from; r < to; r++ {
				phi, row := x[r*d:(r+1)*d], products[r*columns:(r+1)*columns]
				for i := first; i < last; i++ {
					scaleTo(row[:d-i], phi[i], phi[i:])
					row = row[d-i:]
				}
			}
		})
		if err := f(packedRow(first, d), products); err != nil {
			return err
		}
		first = last
	}
	return nil
}

// addFullByPair forms (w_kl ⊙ Φ)ᵀΦ for each pair of classes.
func (g *gram) addFullByPair(m *matrices) error {
	d, n := g.head.Dim(), g.n
	g.products, g.sum = grow(g.products, n*d), grow(g.sum, d*d)
	weighted, sum := g.products, g.sum
	for i, t := range g.terms(m) {
		for r := range n {
			w := g.weights[r*g.width+i]
			for j, v := range g.phi[r*d : (r+1)*d] {
				weighted[r*d+j] = w * v
			}
		}
		clear(sum)
		if err := g.product.AddTransposedProduct(sum, weighted, g.phi[:n*d], n, d, d); err != nil {
			return err
		}
		for j := range d {
			t.add(sum[j*d+j:(j+1)*d], packedRow(j, d))
		}
	}
	return nil
}

// A term holds the packed D×D sums to which the products of one weight are added, and from which they are
// subtracted.
type term struct {
	plus  []float64
	minus [][]float64
}

// terms lists the terms of the full structure in the order of the weights: A, then H and J by pair of classes.
//
// The p of coupled classes sum to 1, so that Σ_l w_kl = p_k(1-p_k) - Σ p_kp_l = 0. The diagonal blocks of H are
// therefore minus the sum of the blocks beside them, a sum of numbers of one sign.
func (g *gram) terms(m *matrices) []term {
	all := []term{{plus: m.a}}
	size, coupled := len(m.a), g.coupled
	block := func(x []float64, group, i, l int) []float64 {
		at := (group*triangle(coupled) + packedRow(i, coupled) + l - i) * size
		return x[at : at+size]
	}
	for group := range g.head.Logits / coupled {
		for i := range coupled {
			if coupled == 1 {
				all = append(all, term{plus: block(m.h, group, i, i)})
			}
			for l := i + 1; l < coupled; l++ {
				minus := [][]float64{block(m.h, group, i, i), block(m.h, group, l, l)}
				all = append(all, term{block(m.h, group, i, l), minus})
			}
		}
	}
	for at := 0; at < len(m.j); at += size {
		all = append(all, term{plus: m.j[at : at+size]})
	}
	return all
}

// add adds products to the sums, from an offset on.
func (t *term) add(products []float64, offset int) {
	add(t.plus[offset:offset+len(products)], products)
	for _, x := range t.minus {
		x = x[offset : offset+len(products)]
		for i, v := range products {
			x[i] -= v
		}
	}
}

// addKronecker adds Σφφᵀ, -Σppᵀ off the diagonal of B, and Σrrᵀ.
func (g *gram) addKronecker(m *matrices) error {
	k, d, n := g.head.Logits, g.head.Dim(), g.n
	phi := g.phi[:n*d]
	if err := g.product.AddTransposedProduct(m.a, phi, phi, n, d, d); err != nil || g.diagonal {
		return err
	}
	g.products, g.sum = grow(g.products, n*k), grow(g.sum, k)
	minus, diagonal := g.products, g.sum
	p := g.weights[:n*k]
	for i, v := range p {
		minus[i] = -v
	}
	for i := range diagonal {
		diagonal[i] = m.b[i*k+i]
	}
	if err := g.product.AddTransposedProduct(m.b, minus, p, n, k, k); err != nil {
		return err
	}
	for i, v := range diagonal {
		m.b[i*k+i] = v
	}
	if !g.fisher {
		return nil
	}
	r := g.weights[BlockSize*k : (BlockSize+n)*k]
	return g.product.AddTransposedProduct(m.g, r, r, n, k, k)
}
