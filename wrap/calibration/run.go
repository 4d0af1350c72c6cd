package calibration

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/mfgs/mfgs/internal/option"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/internal/part"
)

// An output is a kind of result: a bundle or a part.
type output struct {
	// check reports why cfg.Out cannot be written.
	check func(*Config) error
	// existing returns the identity of the output at cfg.Out, and its data in the order of the sets.
	existing func(*Config) (identity any, data []bundle.Dataset, err error)
	// expected returns the identity of the output to be written.
	expected func(*accumulation) any
}

// run reads the data of a calibration and calls build, which writes the output. Until that is written,
// a checkpoint keeps what was read.
func (o *output) run(
	ctx context.Context, cfg *Config, log *journal, build func(*sources, *part.Part) error,
) (err error) {
	if cfg.Out == "" {
		return fmt.Errorf("%s is missing: give the folder to write", option.Out)
	}
	if !cfg.resumes() {
		if err := o.check(cfg); err != nil {
			return err
		}
	}
	var c *checkpoint
	if cfg.stream() == "" {
		if c, err = openCheckpoint(cfg.Out, cfg.Resume, cfg.Force); err != nil {
			return err
		}
	}
	a := &accumulation{cfg: cfg, log: log, checkpoint: c}
	defer func() { err = a.end(ctx, err) }()
	log.begin("open")
	if a.in, err = openSources(ctx, cfg, log); err != nil {
		return err
	}
	defer a.in.close()
	if err := a.begin(); err != nil {
		return err
	}
	if cfg.resumes() {
		if err := a.keepProbe(ctx); err != nil {
			return err
		}
		if err := o.done(ctx, a); err != nil {
			return err
		}
	}
	if err := a.accumulate(ctx); err != nil {
		return err
	}
	err = build(a.in, a.part)
	if cfg.Resume && errors.Is(err, fs.ErrExist) { // another process has written it
		return o.done(ctx, a)
	}
	return err
}
