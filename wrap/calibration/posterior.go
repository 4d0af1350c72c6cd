package calibration

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"

	"github.com/mfgs/mfgs/calibrate/external"
	"github.com/mfgs/mfgs/internal/files"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// openPosterior reads the posterior that another program computed, and refuses one of another layer than the model's.
func (in *sources) openPosterior(ctx context.Context, cfg *Config, log *journal) error {
	f, err := files.Open(cfg.Posterior)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := in.readPosterior(ctx, f, cfg); err != nil {
		return fmt.Errorf("%s: %w", cfg.Posterior, err)
	}
	if !in.recorded.Weights {
		log.notice("%s has no weights: whether it belongs to the model is not checked", cfg.Posterior)
	}
	return nil
}

func (in *sources) readPosterior(ctx context.Context, f *os.File, cfg *Config) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if in.external, err = external.Read(f, info.Size(), in.head); err != nil {
		return err
	}
	p := in.external
	in.head = p.Head()
	in.cut.Head.Head = in.head
	w, b, err := in.cut.Head.Weights()
	if err == nil {
		err = p.CheckWeights(w, b)
	}
	if err != nil {
		return err
	}
	h := sha256.New()
	if _, err := io.Copy(h, files.Reader(ctx, io.NewSectionReader(f, 0, info.Size()))); err != nil {
		return err
	}
	in.recorded = &bundle.External{
		File: cfg.Posterior, SHA256: hex.EncodeToString(h.Sum(nil)),
		Program: p.Program, Form: p.Form, Weights: p.HasWeights(),
	}
	if want := cfg.Expect.Posterior; want != "" && want != in.recorded.SHA256 {
		return fmt.Errorf("its SHA-256 is %s, want %s: not the expected posterior", in.recorded.SHA256, want)
	}
	return nil
}
