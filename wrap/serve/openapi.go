package serve

import (
	_ "embed"
	"net/http"
)

// openapi describes all routes: a test holds it against them, and against what they answer.
//
//go:embed openapi.json
var openapi []byte

// describe answers GET /openapi.json.
func (s *Server) describe(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	writePacked(w, r, openapi)
}
