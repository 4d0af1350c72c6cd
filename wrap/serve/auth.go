package serve

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/mfgs/mfgs/internal/oip"
)

// allowed reports whether the value of an Authorization header has the token, if one is set. The comparison takes
// constant time.
func (s *Server) allowed(authorization string) bool {
	if s.config.Token == "" {
		return true
	}
	scheme, token, _ := strings.Cut(authorization, " ")
	got, want := sha256.Sum256([]byte(strings.TrimSpace(token))), sha256.Sum256([]byte(s.config.Token))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1 && strings.EqualFold(scheme, "bearer")
}

var errNoToken = oip.Errorf(oip.Unauthenticated, "no valid bearer token: send Authorization: Bearer TOKEN")

// open reports whether a path needs no token: probes have none, and the page asks for it.
func open(path string) bool {
	return strings.HasPrefix(path, "/v2/health/") || path == "/" || strings.HasPrefix(path, "/page/") ||
		path == "/openapi.json"
}

// guard refuses requests without the token, and cross-origin requests of browsers. Without a token, a listener on a
// loopback address answers only to local host names, which prevents DNS rebinding.
func (s *Server) guard(next http.Handler) http.Handler {
	origin := http.NewCrossOriginProtection()
	local := func(next http.Handler) http.Handler { return next }
	if s.config.Token == "" && s.tls == nil {
		local = func(next http.Handler) http.Handler { return s.named(s.http, "use that name, or set a token", next) }
	}
	origin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.refuse(w, oip.Errorf(oip.Forbidden, "a page from %.70q may not call this server, which is %.70q", r.Header.Get("Origin"), r.Host))
	}))
	checked := local(origin.Handler(next))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if s.ending.Load() {
			w.Header().Set("Connection", "close") // the next request would find it closed
		}
		if !open(r.URL.Path) && !s.allowed(r.Header.Get("Authorization")) {
			s.refuse(w, errNoToken)
			return
		}
		checked.ServeHTTP(w, r)
	})
}

// named refuses requests for other host names than this machine's if the listener is on a loopback address. The hint
// says what to do instead.
func (s *Server) named(at *listener, hint string, next http.Handler) http.Handler {
	if !loopback(addr(at)) {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !localName(r.Host) {
			s.refuse(w, oip.Errorf(oip.Forbidden, "a request for %.70q, and this server is %s: %s", r.Host, at.Addr(), hint))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// localName reports whether a Host header names this machine, or is empty, as only HTTP/1.0 allows and no browser
// sends.
func localName(host string) bool {
	if host == "" {
		return true
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	if strings.EqualFold(host, "localhost") || strings.HasSuffix(strings.ToLower(host), ".localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback()
}
