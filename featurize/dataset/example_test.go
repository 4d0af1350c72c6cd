package dataset_test

import (
	"context"
	"fmt"

	"github.com/mfgs/mfgs/featurize/dataset"
)

// A slice of one array of an .npz, labelled by another.
func ExampleOpen() {
	d, err := dataset.Open(context.Background(), "testdata/numpy.npz[1:]", dataset.Options{Inputs: []string{"<f4"}, Classes: 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.Close()
	fmt.Println(d.Format(), d.Len(), d.HasLabels())
	for e, err := range d.Examples(context.Background()) {
		if err == nil {
			err = e.Decode() // does nothing but for images
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(e.Index, e.Name, e.Label, e.Inputs[0].Shape, e.Inputs[0].Data)
	}
	_, err = dataset.Open(context.Background(), "testdata/numpy.npz[1:10]", dataset.Options{Inputs: []string{"<f4"}})
	fmt.Println(err)
	// Output:
	// npz 2 true
	// 1 numpy.npz[1] 0 [4] [4 5 6 7]
	// 2 numpy.npz[2] 1 [4] [8 9 10 11]
	// testdata/numpy.npz: slice [1:10] reaches beyond its 3 examples
}
