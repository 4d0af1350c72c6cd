package serve

import (
	"context"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/mfgs/mfgs/internal/oip"
	"github.com/mfgs/mfgs/wrap"
)

// serverName is the server's name in its metadata.
const serverName = "mfgs"

// live and the like repeat their status in the body, where KServe's client reads it.
func (s *Server) live(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]bool{"live": true})
}

func (s *Server) serverReady(w http.ResponseWriter, _ *http.Request) {
	if !s.ready() {
		s.refuse(w, notReady("the server is shutting down, or a model is not loaded"))
		return
	}
	writeJSON(w, http.StatusOK, map[string]bool{"ready": true})
}

func (s *Server) serverMetadata(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, s.metadata())
}

func (s *Server) metadata() oip.Server {
	return oip.Server{Name: serverName, Version: wrap.Version(), Extensions: oip.Extensions()}
}

// versioned returns a model by name and version, "" being any version.
func (s *Server) versioned(name, v string) (*model, error) {
	m, err := s.model(name)
	if err == nil && v != "" && v != version {
		return nil, notFound("model %q has no version %.70q, but %s", name, v, version)
	}
	return m, err
}

// loaded returns the current revision of a model.
func (s *Server) loaded(name, version string) (*revision, error) {
	m, err := s.versioned(name, version)
	if err != nil {
		return nil, err
	}
	rev := m.current.Load()
	if rev == nil {
		return nil, m.notLoaded()
	}
	return rev, nil
}

func (s *Server) modelMetadata(w http.ResponseWriter, r *http.Request) {
	rev, err := s.loaded(r.PathValue("model"), r.PathValue("version"))
	if err != nil {
		s.refuse(w, err)
		return
	}
	writeJSON(w, http.StatusOK, rev.metadata)
}

func (s *Server) modelReady(w http.ResponseWriter, r *http.Request) {
	if _, err := s.loaded(r.PathValue("model"), r.PathValue("version")); err != nil {
		s.refuse(w, err)
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"name": r.PathValue("model"), "ready": true})
}

// modelInfer answers POST …/infer.
func (s *Server) modelInfer(w http.ResponseWriter, r *http.Request) {
	ctx, c, err := s.begin(r.Context(), r.PathValue("model"), r.PathValue("version"), r.Header.Get)
	if err != nil {
		s.refuse(w, err)
		return
	}
	defer func() { c.end(err) }()
	body, header, err := s.inferBody(ctx, c, r)
	if err != nil {
		s.refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if header != "" {
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set(oip.Header, header)
	}
	writePacked(w, r, body)
}

// inferBody returns the body of the answer, and its header oip.Header.
func (s *Server) inferBody(ctx context.Context, c *call, r *http.Request) (answer []byte, header string, err error) {
	length := r.Header.Get(oip.Header)
	n, _ := strconv.Atoi(length) // an invalid one is refused below
	pad := -n & 7                // aligns the bytes after the JSON, so that they need not be copied
	if c.body, err = readBody(r, pad, s.config.MaxBody, s.bodyTooLarge("body"), &c.reservation); err != nil {
		return nil, "", err
	}
	request, err := oip.ReadRequest(c.body[pad:], length, s.limitsOf(&c.reservation))
	if err != nil {
		return nil, "", err
	}
	response, err := c.infer(ctx, request)
	if err != nil {
		return nil, "", err
	}
	return response.Body(request.IsBinary)
}

// documentLimits bound requests with a small JSON object.
var documentLimits = oip.Limits{Bytes: 64 << 10}

// document reads the small JSON object of a request, which may be empty.
func (s *Server) document(r *http.Request, read func([]byte) error) error {
	memory := s.newReservation()
	defer memory.release()
	limit := documentLimits.Bytes
	beyond := tooLarge("the body has more than %d bytes: want a small JSON object, or none", limit)
	body, err := readBody(r, 0, limit, beyond, &memory)
	if err != nil {
		return err
	}
	return read(body)
}

// repositoryIndex answers POST /v2/repository/index.
func (s *Server) repositoryIndex(w http.ResponseWriter, r *http.Request) {
	var ready bool
	err := s.document(r, func(body []byte) (err error) {
		ready, err = oip.ReadIndex(body, documentLimits)
		return err
	})
	if err != nil {
		s.refuse(w, err)
		return
	}
	writeJSON(w, http.StatusOK, s.index(ready))
}

// index lists all models, or the ready ones only.
func (s *Server) index(ready bool) []oip.Model {
	list := []oip.Model{}
	for _, m := range s.models {
		if one := m.state(); !ready || one.State == oip.Ready {
			list = append(list, one)
		}
	}
	return list
}

// readLoad reads the body of a request to load or unload a model.
func (s *Server) readLoad(r *http.Request) error {
	return s.document(r, func(body []byte) error { return oip.ReadLoad(body, documentLimits) })
}

// repositoryLoad answers POST /v2/repository/models/NAME/load, which reloads the bundle.
func (s *Server) repositoryLoad(w http.ResponseWriter, r *http.Request) {
	err := s.readLoad(r)
	if err == nil {
		// Opening a large bundle may take longer than answers may otherwise.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
		err = s.loadModel(r.Context(), r.PathValue("model"))
	}
	s.done(w, err)
}

func (s *Server) loadModel(ctx context.Context, name string) error {
	m, err := s.model(name)
	if err != nil {
		return err
	}
	return m.loadAsked(ctx)
}

// repositoryUnload answers POST /v2/repository/models/NAME/unload.
func (s *Server) repositoryUnload(w http.ResponseWriter, r *http.Request) {
	err := s.readLoad(r)
	if err == nil {
		err = s.unloadModel(r.PathValue("model"))
	}
	s.done(w, err)
}

func (s *Server) unloadModel(name string) error {
	m, err := s.model(name)
	if err != nil {
		return err
	}
	return m.unload()
}

// modelConfig answers GET …/config.
func (s *Server) modelConfig(w http.ResponseWriter, r *http.Request) {
	rev, err := s.loaded(r.PathValue("model"), r.PathValue("version"))
	if err != nil {
		s.refuse(w, err)
		return
	}
	writeJSON(w, http.StatusOK, rev.metadata.Config(rev.batch))
}

// modelStatistics answers GET …/stats, for all models if none is named.
func (s *Server) modelStatistics(w http.ResponseWriter, r *http.Request) {
	all, err := s.statistics(r.PathValue("model"), r.PathValue("version"))
	if err != nil {
		s.refuse(w, err)
		return
	}
	writeJSON(w, http.StatusOK, all)
}

// statistics returns those of a model, or of all for "".
func (s *Server) statistics(name, version string) (oip.Statistics, error) {
	var all oip.Statistics
	for _, m := range s.models {
		if name == "" || name == m.Name {
			all.Models = append(all.Models, m.statistics.snapshot(m.Name))
		}
	}
	if name == "" {
		return all, nil
	}
	_, err := s.versioned(name, version)
	return all, err
}

// done answers a request whose result is empty.
func (s *Server) done(w http.ResponseWriter, err error) {
	if err != nil {
		s.refuse(w, err)
		return
	}
	w.WriteHeader(http.StatusOK)
}

// sharedMemory matches the paths of Triton's extensions for shared memory.
var sharedMemory = regexp.MustCompile(`^/v2/(system|cuda)sharedmemory(/region/[^/]+)?/(status|register|unregister)$`)

// noPath answers requests for unknown paths.
func (s *Server) noPath(w http.ResponseWriter, r *http.Request) {
	if sharedMemory.MatchString(r.URL.Path) {
		s.refuse(w, oip.Errorf(oip.Unsupported, "shared memory is not supported: send the data"))
		return
	}
	s.refuse(w, notFound("there is no %s %.200s", r.Method, r.URL.Path))
}

// noMethod answers requests that match no route of mux. If the path has other methods, the answer lists them, as RFC
// 9110, 15.5.6 requires.
func (s *Server) noMethod(mux *http.ServeMux) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var allowed []string
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
			other := r.Clone(r.Context())
			other.Method = method
			if _, pattern := mux.Handler(other); pattern != "/" {
				allowed = append(allowed, method)
			}
		}
		if len(allowed) == 0 {
			s.noPath(w, r)
			return
		}
		list := strings.Join(allowed, ", ")
		w.Header().Set("Allow", list)
		s.refuse(w, oip.Errorf(oip.NotAllowed, "there is no %s %.200s, but %s", r.Method, r.URL.Path, list))
	}
}
