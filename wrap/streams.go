package wrap

import (
	"context"
	"errors"
	"fmt"

	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/featurize/dataset"
)

// streams are the states of the streams that lines have begun and not ended, by their names.
type streams map[string]featurize.State

// maxStreams bounds their number: each takes the memory of a state.
const maxStreams = 1 << 16

// predictChunk predicts the steps of a line that continues a stream, which becomes the state for the next only if all of
// them have a prediction.
func (p *Predictor) predictChunk(ctx context.Context, e *dataset.Example, open streams) ([]Prediction, error) {
	from, begun := open[e.Stream]
	if !begun && len(open) == maxStreams {
		return nil, fmt.Errorf("%d streams are open: end those that are over with \"stream_end\": true", maxStreams)
	}
	r, next, err := p.network.Continue(ctx, e, from)
	if err != nil {
		return nil, err
	}
	all, err := p.predictLine(r, e)
	switch {
	case err != nil:
	case e.StreamEnd:
		delete(open, e.Stream)
	default:
		open[e.Stream] = next
	}
	return all, err
}

// Streams reports whether the network runs over streams and passes a state from step to step, so that
// [Predictor.RunFrom] goes on where another call ended.
func (p *Predictor) Streams() bool { return p.network != nil && p.network.Streams() }

// ZeroState is the state of n streams before their first step, for a network that Streams.
func (p *Predictor) ZeroState(n int) ([]Tensor, error) {
	if !p.Streams() {
		return nil, errNoState
	}
	return p.network.ZeroState(n)
}

// RunFrom is [Predictor.Run] for a chunk of each of n streams, at most [Predictor.Batch], of a network that Streams.
// from is the state at which they begin, a tensor for each state with n rows; nil is zero. It also returns the state at
// which they end, for the next call.
func (p *Predictor) RunFrom(ctx context.Context, inputs, from []Tensor) (outputs, next []Tensor, err error) {
	if !p.Streams() {
		return nil, nil, errNoState
	}
	r, next, err := p.network.RunFrom(ctx, inputs, from)
	if err != nil {
		return nil, nil, err
	}
	return p.tensors(r), next, nil
}

var errNoState = errors.New("the bundle was calibrated without a state: its network does not run over streams")
