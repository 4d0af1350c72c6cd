package serve

import (
	"context"
	"errors"
	"strings"

	"github.com/mfgs/mfgs/internal/oip"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/serve/internal/engine"
)

func invalid(format string, args ...any) error  { return oip.Errorf(oip.Invalid, format, args...) }
func notFound(format string, args ...any) error { return oip.Errorf(oip.NotFound, format, args...) }
func notReady(format string, args ...any) error { return oip.Errorf(oip.Unavailable, format, args...) }
func tooLarge(format string, args ...any) error { return oip.Errorf(oip.TooLarge, format, args...) }

// asInvalid gives an error the status Invalid, unless it has a status already. The fields of an override are called
// as the parameters of a request.
func asInvalid(err error) error {
	if err == nil || oip.StatusOf(err) != oip.Internal {
		return err
	}
	text := err.Error()
	if o := (*wrap.OverrideError)(nil); errors.As(err, &o) {
		named := wrap.OverrideError{Reason: o.Reason}
		for _, field := range o.Fields {
			named.Fields = append(named.Fields, parameters[field])
		}
		text = named.Error()
	}
	return invalid("%s", strings.Join(strings.Fields(text), " "))
}

// parameters are those of a request that set fields of wrap.Override.
var parameters = map[string]string{
	"Method": "method", "TAct": "t_act", "TEns": "t_ens", "MaxUncertainty": "max_uncertainty", "MaxOODScore": "max_ood_score",
}

var errPanicked = errors.New("the handler panicked")

// errBusy refuses a request because the memory of all requests is taken.
var errBusy = oip.Errorf(oip.Overloaded, "the requests in progress use all the memory allowed: try again")

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
