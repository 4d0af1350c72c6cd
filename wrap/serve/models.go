package serve

import "net/http"

// A served is what GET /v1/models says of a model: what POST /v1/predict can be sent, and what its answer
// then means.
type served struct {
	Name   string `json:"name"`
	Ready  bool   `json:"ready"`
	Reason string `json:"reason,omitempty"` // why the last attempt to load it failed

	*described // nil: not loaded
}

// list answers GET /v1/models.
func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	all := struct {
		Models []served `json:"models"`
	}{}
	for _, m := range s.models {
		one := served{Name: m.Name, Reason: m.lastError()}
		if rev := m.current.Load(); rev != nil {
			one.Ready, one.described = true, rev.described
		}
		all.Models = append(all.Models, one)
	}
	writeDocument(w, r, all)
}
