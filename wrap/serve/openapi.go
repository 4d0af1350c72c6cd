package serve

import (
	_ "embed"
	"net/http"
)

// openapi describes all routes; a test compares it with them and with their answers.
//
//go:embed openapi.json
var openapi []byte

// openAPI answers GET /openapi.json.
func (s *Server) openAPI(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	writePacked(w, r, openapi)
}
