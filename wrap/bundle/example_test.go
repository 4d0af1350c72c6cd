package bundle_test

import (
	"embed"
	"fmt"
	"io/fs"
	"log"

	"github.com/mfgs/mfgs/wrap/bundle"
)

//go:embed testdata/v1-kron
var files embed.FS

// A bundle embedded in the program that uses it.
func ExampleOpenFS() {
	folder, err := fs.Sub(files, "testdata/v1-kron")
	if err != nil {
		log.Fatal(err)
	}
	b, err := bundle.OpenFS(folder)
	if err != nil {
		log.Fatal(err)
	}
	m := b.Manifest
	fmt.Println(m.Structure, m.Covariance, m.Damping.Rule)

	p := b.Calibration().Predict([]float32{1, 2}, []float32{5, 0, -5}, 1)
	fmt.Println(len(p.LogP), "classes")
	// Output:
	// kron sandwich rel:0.1
	// 3 classes
}
