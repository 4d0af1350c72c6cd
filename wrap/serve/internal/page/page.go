// Package page has the web page of a server: embedded files, sent with a content security policy that restricts the
// browser to them and the server.
//
// The page is plain HTML, CSS and JavaScript modules, as in assets: there is no build step. It calls GET /v1/models
// and POST /v1/predict, by addresses relative to its own.
package page

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

//go:embed assets
var assets embed.FS

// Policy is the Content-Security-Policy of the page.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

// headers are sent with all files.
var headers = map[string]string{
	"Content-Security-Policy":      Policy,
	"X-Content-Type-Options":       "nosniff",
	"X-Frame-Options":              "DENY",
	"Referrer-Policy":              "no-referrer",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Permissions-Policy":           "camera=(), geolocation=(), microphone=()",
}

// types are the media types of files by extension: those that the system knows may be wrong.
var types = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// index is the file at /, in which version is replaced by the version.
const (
	index   = "index.html"
	version = "VERSION"
)

// A file is the content of a page's file.
type file struct {
	body []byte
	etag string
}

// Handler serves the page at / and its files at /page/VERSION/NAME, where VERSION changes with any of them, so that
// browsers can cache them for ever. write sends a body after the headers are set, and missing answers requests for
// unknown files.
func Handler(write func(http.ResponseWriter, *http.Request, []byte), missing http.HandlerFunc) http.HandlerFunc {
	version, files := read()
	return func(w http.ResponseWriter, r *http.Request) {
		name, caching := index, "no-cache"
		if r.URL.Path != "/" {
			name, caching = strings.TrimPrefix(r.URL.Path, "/page/"+version+"/"), "public, max-age=31536000, immutable"
		}
		f, ok := files[name]
		if !ok || name == index && r.URL.Path != "/" {
			missing(w, r)
			return
		}
		h := w.Header()
		for key, value := range headers {
			h.Set(key, value)
		}
		h.Set("Content-Type", types[path.Ext(name)])
		h.Set("Cache-Control", caching)
		h.Set("ETag", f.etag)
		if matches(r.Header.Get("If-None-Match"), f.etag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		write(w, r, f.body)
	}
}

// read returns the files by name, and their version.
func read() (string, map[string]file) {
	files, all := map[string]file{}, sha256.New()
	entries, err := fs.ReadDir(assets, "assets") // in the order of names
	if err != nil {
		panic(err) // the files are embedded
	}
	bodies := map[string][]byte{}
	for _, e := range entries {
		body, err := assets.ReadFile("assets/" + e.Name())
		if err != nil {
			panic(err)
		}
		bodies[e.Name()] = body
		sum := sha256.Sum256(body)
		all.Write(sum[:])
	}
	v := hex.EncodeToString(all.Sum(nil))[:16]
	bodies[index] = []byte(strings.ReplaceAll(string(bodies[index]), version, v))
	for name, body := range bodies {
		sum := sha256.Sum256(body)
		// Weak, as the body may be compressed.
		files[name] = file{body, `W/"` + hex.EncodeToString(sum[:])[:32] + `"`}
	}
	return v, files
}

// matches evaluates If-None-Match: RFC 9110, 13.1.2.
func matches(header, etag string) bool {
	for tag := range strings.SplitSeq(header, ",") {
		tag = strings.TrimSpace(tag)
		if tag == "*" || strings.TrimPrefix(tag, "W/") == strings.TrimPrefix(etag, "W/") {
			return true
		}
	}
	return false
}
