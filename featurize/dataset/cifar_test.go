package dataset

import (
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/mfgs/mfgs/internal/testerr"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// cifarRecords makes records with different pixels.
func cifarRecords(labels ...[]byte) []byte {
	var b []byte
	for i, l := range labels {
		b = append(b, l...)
		pixels := make([]byte, cifarPixels)
		pixels[0], pixels[cifarPixels-1] = byte(i), byte(100+i)
		b = append(b, pixels...)
	}
	return b
}

func TestCIFAR(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "ten/data_batch_1.bin", cifarRecords([]byte{9}, []byte{0}))
	write(t, dir, "ten/data_batch_2.bin", cifarRecords([]byte{5}))
	write(t, dir, "ten/test_batch.bin", cifarRecords([]byte{1}, []byte{2}))
	write(t, dir, "ten/batches.meta.txt", []byte("airplane\n"))
	write(t, dir, "hundred/train.bin", cifarRecords([]byte{19, 99}, []byte{0, 3}))
	write(t, dir, "onlytest/test.bin", cifarRecords([]byte{19, 98}))
	for _, c := range []struct {
		spec, format string
		classes      int
		labels       []int
		ignored      int
	}{
		{"ten", "cifar10", 10, []int{9, 0, 5}, 1},
		{"ten/test_batch.bin", "cifar10", 10, []int{1, 2}, 0},
		{"hundred", "cifar100", 100, []int{99, 3}, 0},
		{"hundred/train.bin", "cifar100", 100, []int{99, 3}, 0},
		{"onlytest", "cifar100", 100, []int{98}, 0},
	} {
		for _, prefix := range []string{"", "cifar:", c.format + ":"} {
			d, err := Open(t.Context(), prefix+filepath.Join(dir, c.spec), Options{Classes: c.classes})
			if err != nil {
				t.Error(err)
				continue
			}
			got, _ := all(t, d)
			var labels []int
			for _, e := range got {
				labels = append(labels, e.Label)
				a := e.Inputs[0]
				pix := a.Data.([]uint8)
				if !reflect.DeepEqual(a.Shape, []int{3, 32, 32}) || a.Layout != tensor.CHW || len(pix) != cifarPixels ||
					pix[cifarPixels-1] != pix[0]+100 {
					t.Errorf("%s: %s is %v %s, %d bytes", c.spec, e.Name, a.Shape, a.Layout, len(pix))
				}
			}
			if !slices.Equal(labels, c.labels) || d.Format() != c.format || len(d.Ignored()) != c.ignored {
				t.Errorf("%s: labels %v as %s, ignored %v; want %v as %s", c.spec, labels, d.Format(), d.Ignored(), c.labels, c.format)
			}
			d.Close()
		}
	}
	likeIDX := append([]byte{0, 0, 8, 3}, make([]byte, cifar10.record-4)...)
	for want, content := range map[string][]byte{"cifar10": likeIDX, "idx": idx(ramp(4), 2, 2)} {
		if d, err := Open(t.Context(), write(t, dir, "like.bin", content), Options{}); err != nil || d.Format() != want {
			t.Errorf("a .bin file of %s: %v", want, err)
		}
	}
	path := filepath.Join(dir, "ten", "test_batch.bin")
	testerr.OneLine(t, readError(path, Options{Classes: 2}), "test_batch.bin[1]", "label 2 is outside [0,2)")
	testerr.OneLine(t, readError("cifar100:"+path, Options{}), path, "truncated or not cifar100: 6146 bytes are not whole records of 3074")
	write(t, dir, "cut/data_batch_1.bin", cifarRecords([]byte{9}, []byte{0})[:5000])
	testerr.OneLine(t, readError(filepath.Join(dir, "cut"), Options{}), "data_batch_1.bin: not CIFAR binary", "got 5000 bytes")
}

// If the size fits both kinds, the labels decide.
func TestCIFARKindsOfEqualSize(t *testing.T) {
	t.Parallel()
	records := make([][]byte, cifar100.record)
	for i := range records {
		records[i] = []byte{byte(i % 10)}
	}
	ten := cifarRecords(records...)
	records = records[:cifar10.record]
	for i := range records {
		records[i] = []byte{byte(i % 20), byte(i % 100)}
	}
	hundred := cifarRecords(records...)
	if len(ten) != len(hundred) {
		t.Fatal(len(ten), len(hundred))
	}
	for want, content := range map[string][]byte{"cifar10": ten, "cifar100": hundred} {
		d, err := Open(t.Context(), write(t, t.TempDir(), "x.bin", content), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if d.Format() != want {
			t.Error(fmt.Sprintf("%s taken for", want), d.Format())
		}
		d.Close()
	}
}
