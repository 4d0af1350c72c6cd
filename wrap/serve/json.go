package serve

import (
	"bytes"
	"encoding/json"
	"net/http"
)

// writeJSON writes a short document.
func writeJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(documentOf(v))
}

// writeDocument writes a document that may be long, compressed if the client accepts that.
func writeDocument(w http.ResponseWriter, r *http.Request, v any) {
	w.Header().Set("Content-Type", "application/json")
	writePacked(w, r, documentOf(v))
}

func documentOf(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // all types that are written here can be encoded
	}
	return b.Bytes()
}
