// Decisions measures how often the guarantees of package conformal hold on real data, over a thousand random
// splits, and what remains of them under distribution shift. It writes docs/evidence/decisions.md.
//
//	go run -C testdata -buildvcs=true ./decisions -cifar DIR
//
// DIR is the unpacked data/cifar10/cifar10.tar.gz, with the folders train and test. It takes
// a quarter of an hour on two cores, mostly for running the networks.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"math"
	"os"
	"path/filepath"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/testdata/internal/trained"
	"github.com/mfgs/mfgs/wrap"
)

func main() {
	log.SetFlags(0)
	data := flag.String("data", "../../shared/data", "`DIR` with mnist")
	cifar := flag.String("cifar", "", "`DIR` with train/CLASS/*.jpg and test/CLASS/*.jpg of CIFAR-10")
	splits := flag.Int("splits", 1000, "random splits of each pool")
	out := flag.String("out", "../docs/evidence/decisions.md", "the `FILE` to write")
	flag.Parse()
	if err := run(context.Background(), *data, *cifar, *out, *splits); err != nil {
		log.Fatal("decisions: ", err)
	}
}

// A network is a trained network with the choices made for it.
type network struct {
	trained.Network
	hard    []int     // the two classes that it confuses most
	targets []float64 // errors among the accepted; under shift the last
}

func networks(data, cifar string) []network {
	mnist, mnistTraining := trained.MNIST(data)
	images, cifarTraining := trained.CIFAR10(cifar)
	model := func(name string) string { return filepath.Join("..", "models", name, "model.onnx") }
	return []network{
		{
			trained.Network{Name: "MNIST", Model: model("mnist-mlp"), Files: mnist, Training: mnistTraining},
			[]int{8, 9}, []float64{0.005, 0.01},
		},
		{
			trained.Network{Name: "CIFAR-10", Model: model("cifar10-resnet20"), Files: images, Training: cifarTraining},
			[]int{3, 5}, []float64{0.01, 0.05},
		},
	}
}

// A pool holds logits, labels and OOD scores of examples. Example i of a shifted pool is example i of the pool itself,
// shifted.
type pool struct {
	name   string
	n, k   int
	logits []float32
	labels []int
	ood    []float64 // the studentized margin, larger for OOD
}

func run(ctx context.Context, data, cifar, out string, splits int) error {
	if cifar == "" {
		return trained.ErrNoCIFAR
	}
	if err := (&wrap.Runtime{}).Load(ctx); err != nil {
		return err
	}
	var all []*results
	for _, n := range networks(data, cifar) {
		log.Print(n.Name)
		pools, err := n.open(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", n.Name, err)
		}
		log.Print("splitting")
		r, err := measure(n, pools, splits)
		if err != nil {
			return fmt.Errorf("%s: %w", n.Name, err)
		}
		all = append(all, r)
	}
	return writePage(out, all)
}

// open returns the pool, and the pool under each shift.
func (n network) open(ctx context.Context) ([]*pool, error) {
	opened, err := n.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	batches := map[string]*rows.Batch{"": opened.Pool}
	// Only the leverage is used, which depends on the training data; the temperatures are not.
	f, err := calibrate.Fit(ctx, opened.Curvature, batches[""].Slice(0, 500), nil, calibrate.FitOptions{})
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "decisions")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	names := []string{""}
	for _, s := range shifts {
		file, err := s.write(ctx, dir, n)
		if err != nil {
			return nil, err
		}
		names = append(names, s.name)
		batches[s.name] = &rows.Batch{}
		for one, err := range opened.Examples(ctx, file) {
			if err != nil {
				return nil, err
			}
			batches[s.name].Append(one)
		}
	}
	var pools []*pool
	for _, name := range names {
		b := batches[name]
		p := &pool{
			name: name, n: b.N, k: opened.Head.Logits, logits: b.Logits, labels: b.Labels, ood: make([]float64, b.N),
		}
		f.Posterior.Leverages(p.ood, b.Features, b.N)
		for i, leverage := range p.ood {
			p.ood[i] = -margin(p.of(i)) / math.Sqrt(leverage)
		}
		pools = append(pools, p)
	}
	return pools, nil
}

func (p *pool) of(i int) []float32 { return p.logits[i*p.k : (i+1)*p.k] }

// margin is max a - mean a.
func margin(a []float32) float64 {
	most, sum := math.Inf(-1), 0.0
	for _, v := range a {
		most = max(most, float64(v))
		sum += float64(v)
	}
	return most - sum/float64(len(a))
}
