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

// Bounds on the streams that are open at once, each of which takes the memory of its state and name.
const (
	maxStreams    = 1 << 16
	maxStates     = 1 << 30 // bytes
	maxStreamName = 1 << 10 // bytes
)

// predictChunk predicts the steps of a line that continues a stream. Its state becomes the one at their end only if all
// of them have a prediction.
func (p *Predictor) predictChunk(ctx context.Context, e *dataset.Example, open streams) ([]Prediction, error) {
	from, begun := open[e.Stream]
	most, _ := p.MaxStreams()
	switch {
	case len(e.Stream) > maxStreamName:
		return nil, fmt.Errorf("stream: the name has %d bytes, want at most %d", len(e.Stream), maxStreamName)
	case !begun && len(open) == most:
		return nil, fmt.Errorf("%d streams are open: end those that are over with \"stream_end\": true", most)
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

// MaxStreams returns how many streams of a network that Streams may be open at once, for one who keeps their states,
// and the memory of so many states in bytes: 65,536 streams, or as many as take 1 GiB, but at least one.
func (p *Predictor) MaxStreams() (most int, bytes int64) {
	if !p.Streams() {
		return 0, 0
	}
	return mostStreams(p.network.StateBytes())
}

// mostStreams is MaxStreams for states of so many bytes.
func mostStreams(each int64) (most int, bytes int64) {
	most = int(min(maxStreams, max(1, maxStates/max(1, each))))
	return most, int64(most) * each
}

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
