package compare

import (
	"context"
	"fmt"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/methods"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/wrap/bench"
)

var edl = &method{
	name: "edl", doc: "an evidential network with --with edl=FILE, otherwise a last layer", train: true, fit: fitEvidential,
	check: func(b *comparison, _ *request) (err error) {
		if len(b.With["edl"]) > 0 {
			_, _, _, err = b.evidential()
		}
		return err
	},
	files: &files{name: "edl", most: 1, of: "method edl", run: true},
}

// evidenceKey is the metadata key under which an evidential network names its evidence function.
const evidenceKey = "mfgs.evidence"

// evidential opens the evidential network.
func (b *comparison) evidential() (*onnx.Model, *head.Head, methods.Evidence, error) {
	path := b.With["edl"][0]
	model, h, err := b.openHead(path)
	if err != nil {
		return nil, nil, "", err
	}
	evidence := methods.Evidence(b.Evidence)
	if evidence == "" {
		evidence = methods.Evidence(model.Metadata()[evidenceKey])
		if err := evidence.Validate(); err != nil {
			return nil, nil, "", fmt.Errorf("%s: its metadata %s: %w: set --evidence", path, evidenceKey, err)
		}
	}
	return model, h, evidence, nil
}

// fitEvidential runs an evidential network or fits an evidential last layer.
func fitEvidential(ctx context.Context, b *comparison, r *request) (predictor, string, error) {
	if len(b.given(r)) == 0 {
		e, err := methods.FitEvidential(ctx, b.train.Data(), b.head, methods.EvidentialOptions{
			FitOptions: b.fitOptions(r), Evidence: methods.Evidence(b.Evidence),
		})
		if err != nil {
			return nil, "", err
		}
		return ofRows(e), fmt.Sprintf("last layer, evidence %s", e.Evidence), nil
	}
	model, h, evidence, err := b.evidential()
	if err != nil {
		return nil, "", err
	}
	if model, err = head.OnlyLogits(model, h); err != nil {
		return nil, "", fmt.Errorf("%s: %w", b.given(r)[0], err)
	}
	n, err := b.session.OpenNetwork(model, b.Runtime.Batch)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", b.given(r)[0], err)
	}
	return func(ctx context.Context, s *bench.Set) (calibrate.Predictive, error) {
		columns, err := n.Outputs(ctx, s, 1)
		if err != nil {
			return nil, err
		}
		return methods.NewEvidential(columns[0], b.head.Logits, evidence)
	}, fmt.Sprintf("network, evidence %s", evidence), nil
}
