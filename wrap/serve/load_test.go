package serve

import (
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc/tap"

	"github.com/mfgs/mfgs/internal/oip/inference"
)

// deadlines records when answers must be written.
type deadlines struct {
	*httptest.ResponseRecorder
	set []time.Time
}

func (d *deadlines) SetWriteDeadline(at time.Time) error {
	d.set = append(d.set, at)
	return nil
}

// A bundle of many gigabytes takes longer to open than a request may take.
func TestLoadingAModelHasNoTimeout(t *testing.T) {
	s := &Server{config: Config{Timeout: time.Second, InFlight: 1 << 20, Log: slog.New(slog.DiscardHandler)},
		inFlight: semaphore.NewWeighted(1 << 20)}
	w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	r := httptest.NewRequest("POST", "/v2/repository/models/none/load", strings.NewReader("{}"))
	s.repositoryLoad(w, r.WithContext(t.Context()))
	if len(w.set) != 1 || !w.set[0].IsZero() {
		t.Errorf("deadlines of HTTP %v, want one that is none", w.set)
	}
	for name, limited := range map[string]bool{
		inference.GRPCInferenceService_RepositoryModelLoad_FullMethodName: false,
		inference.GRPCInferenceService_ModelInfer_FullMethodName:          true,
	} {
		ctx, err := s.admit(t.Context(), &tap.Info{FullMethodName: name})
		if _, ok := ctx.Deadline(); err != nil || ok != limited {
			t.Errorf("%s: %v, deadline: %v", name, errors.Join(err, ctx.Err()), ok)
		}
	}
}
