package serve

import (
	"context"
	"errors"
	"strings"

	"github.com/mfgs/mfgs/internal/oip"
	"github.com/mfgs/mfgs/internal/option"
	"github.com/mfgs/mfgs/wrap/serve/internal/engine"
)

func invalid(format string, args ...any) error  { return oip.Errorf(oip.Invalid, format, args...) }
func notFound(format string, args ...any) error { return oip.Errorf(oip.NotFound, format, args...) }
func notReady(format string, args ...any) error { return oip.Errorf(oip.Unavailable, format, args...) }
func tooLarge(format string, args ...any) error { return oip.Errorf(oip.TooLarge, format, args...) }

// asInvalid gives an error the status Invalid, unless it has a status already. Its message has the parameters of
// requests for the options that it names.
func asInvalid(err error) error {
	if err == nil || oip.StatusOf(err) != oip.Internal {
		return err
	}
	return invalid("%s", strings.Join(strings.Fields(option.Text(err, parameterOf)), " "))
}

// parameterOf returns the parameter of requests that sets a field of wrap.Override; other options have none.
func parameterOf(n option.Name) string {
	switch n {
	case option.TAct:
		return "t_act"
	case option.TEns:
		return "t_ens"
	case option.MaxUncertainty:
		return "max_doubt"
	case option.MaxOODScore:
		return "max_ood_score"
	}
	return string(n)
}

var errPanicked = errors.New("the handler panicked")

// errBusy refuses a request because the memory of all requests is taken.
var errBusy = oip.Errorf(oip.Overloaded, "the requests under way take all the memory that they may: try again")

// runError translates an error of the engine for the client.
func runError(ctx context.Context, err error) error {
	var busy *engine.OverloadError
	var panicked *engine.PanicError
	switch {
	case errors.As(err, &busy):
		return &oip.Error{Status: oip.Overloaded, Err: err}
	case errors.Is(err, engine.ErrClosed):
		return notReady("the model was unloaded while the request waited")
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &panicked):
		return err
	}
	// The runtime refuses values, such as an index beyond an embedding table.
	return asInvalid(err)
}
