package wrap_test

import (
	"errors"
	"reflect"
	"slices"
	"sync"
	"testing"

	. "github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/export"
)

// Under load, every use finds an open predictor while it is replaced again and again, and each replaced one is closed
// when its last user is done.
func TestAPredictorIsExchangedUnderLoad(t *testing.T) {
	t.Parallel()
	dir, _ := calibrated(t, structures[1])
	x := []Tensor{digitTensor(t, 0, 5)}
	h := NewHandle(open(t, dir))
	var load sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		load.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				err := h.Use(func(p *Predictor) error {
					_, err := p.Predict(t.Context(), x)
					return err
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 5 {
		if err := <-h.Swap(open(t, dir)); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	load.Wait()

	var kept *Predictor
	err := h.Use(func(p *Predictor) error {
		kept = p
		closed := h.Swap(open(t, dir))
		_, err := p.Predict(t.Context(), x)
		if len(closed) != 0 {
			t.Error("closed while it is in use")
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if _, err := kept.Predict(t.Context(), x); err == nil {
		t.Error("open after its last use")
	}
	if err := errors.Join(h.Close(), h.Close()); err != nil {
		t.Error(err)
	}
	if err := h.Use(func(*Predictor) error { return nil }); !errors.Is(err, ErrClosed) {
		t.Errorf("use after Close: %v", err)
	}
	late := open(t, dir)
	if err := <-h.Swap(late); err != nil {
		t.Error(err)
	}
	if _, err := late.Predict(t.Context(), x); err == nil {
		t.Error("what comes after Close stays open")
	}
}

func open(t *testing.T, dir string) *Predictor {
	t.Helper()
	p, err := Open(t.Context(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Apply gives the outputs of an exported model, with the names and shapes of Outputs and the numbers of Predict.
func TestApplyGivesTheOutputsOfAnExport(t *testing.T) {
	t.Parallel()
	const n = 100
	p, run := digitsWithDecisions(t)
	applied, err := p.Apply(run, Override{})
	if err != nil {
		t.Fatal(err)
	}
	got := applied.Outputs
	report, err := export.Write(t.Context(), p.Bundle().Path, export.Options{Out: t.TempDir() + "/m.onnx"})
	if err != nil {
		t.Fatal(err)
	}
	if want := report.Outputs.Infos(); len(got) != 9 || !reflect.DeepEqual(p.Outputs(Override{}), want) {
		t.Fatalf("outputs %v, exported %v", p.Outputs(Override{}), want)
	}
	for i, info := range p.Outputs(Override{}) {
		shape := []int64{n}
		for _, d := range info.Shape[1:] {
			shape = append(shape, d.Value)
		}
		if got[i].Name != info.Name || got[i].Type().String() != info.Type.String() ||
			!slices.Equal(got[i].Shape, shape) || got[i].Len() != reflect.ValueOf(got[i].Data).Len() {
			t.Errorf("%s: %s %s %v, want %s %v", info.Name, got[i].Name, got[i].Type(), got[i].Shape, info.Type, shape)
		}
	}
	for i, one := range applied.Predictions {
		for k, in := range got[8].Data.([]bool)[10*i : 10*i+10] {
			if in != slices.Contains(one.PredictionSet, k) {
				t.Fatalf("example %d: class %d is in the set: %t, want %v", i, k, in, one.PredictionSet)
			}
		}
		if got[7].Data.([]bool)[i] != *one.Abstain ||
			one.Logits[3] != got[1].Data.([]float32)[i*10+3] || one.OODScore != got[3].Data.([]float64)[i] ||
			*one.OODPercentile != got[4].Data.([]float64)[i] || *one.OODPValue != got[5].Data.([]float64)[i] ||
			one.Leverage != float64(got[6].Data.([]float32)[i]) {
			t.Fatalf("example %d: %+v", i, one)
		}
	}
}

// Exchanging a predictor for itself closes nothing.
func TestAPredictorExchangedForItselfStaysOpen(t *testing.T) {
	t.Parallel()
	dir, _ := calibrated(t, structures[0])
	p := open(t, dir)
	h := NewHandle(p)
	if err := <-h.Swap(p); err != nil {
		t.Error(err)
	}
	err := h.Use(func(p *Predictor) error {
		_, err := p.Predict(t.Context(), []Tensor{digitTensor(t, 0, 1)})
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
}
