package serve

import "net/http"

// A modelEntry is a model in GET /v1/models: what POST /v1/predict takes, and what its answer means.
type modelEntry struct {
	Name   string `json:"name"`
	Ready  bool   `json:"ready"`
	Reason string `json:"reason,omitempty"` // why the last attempt to load it failed

	*description // nil: not loaded
}

// list answers GET /v1/models.
func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	all := struct {
		Models []modelEntry `json:"models"`
	}{}
	for _, m := range s.models {
		one := modelEntry{Name: m.Name, Reason: m.lastError()}
		if rev := m.current.Load(); rev != nil {
			one.Ready, one.description = true, rev.description
		}
		all.Models = append(all.Models, one)
	}
	writeDocument(w, r, all)
}
