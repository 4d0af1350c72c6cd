package serve_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/oip"
	"github.com/mfgs/mfgs/internal/wraptest"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/serve"
)

func TestMain(m *testing.M) { wraptest.Main(m, nil) }

// digits returns a bundle of digits with decisions, which all tests share.
func digits(t testing.TB) string {
	t.Helper()
	c := wraptest.Quick(wraptest.Config(t, ""))
	c.Decisions = conformal.Plan{TargetCoverage: 0.8, FalseAlarm: 0.1, Alpha: 0.05}
	dir, _ := wraptest.Shared(t, "digits", c)
	return dir
}

// A running server with its addresses.
type running struct {
	*serve.Server
	t      *testing.T
	url    string // of HTTP
	client *http.Client
	end    func() error
}

// start runs a server until the end of the test.
func start(t *testing.T, c serve.Config) *running {
	t.Helper()
	c.HTTP, c.GRPC = "127.0.0.1:0", "127.0.0.1:0"
	s, err := serve.New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	client := &http.Client{Transport: &http.Transport{}}
	r := &running{Server: s, t: t, url: "http://" + s.HTTPAddr().String(), client: client}
	var result error
	done := false
	r.end = func() error {
		client.CloseIdleConnections() // or the server would wait for a request on them
		cancel()
		if !done {
			result, done = <-ended, true
		}
		return result
	}
	t.Cleanup(func() {
		if err := r.end(); err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	return r
}

// send makes a request, and returns its answer.
func (r *running) send(method, path, body string, headers ...string) (int, http.Header, []byte) {
	r.t.Helper()
	request, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	if host := request.Header.Get("Host"); host != "" {
		request.Host = host
	}
	response, err := r.client.Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return response.StatusCode, response.Header, answer
}

// object sends a request that must succeed, and reads the JSON of its answer.
func (r *running) object(method, path, body string, into any) {
	r.t.Helper()
	code, _, answer := r.send(method, path, body)
	if code != http.StatusOK {
		r.t.Fatalf("%s %s: %d %s", method, path, code, answer)
	}
	if err := json.Unmarshal(answer, into); err != nil {
		r.t.Fatalf("%s %s: %v in %s", method, path, err, answer)
	}
}

// inferBody returns a request of the protocol for digits.
func inferBody(t *testing.T, id string, from, to int, more string) string {
	t.Helper()
	x := wraptest.DigitTensor(t, from, to)
	data, err := json.Marshal(x.Data)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`{"id":%q,"inputs":[{"name":"image","shape":[%d,1,8,8],"datatype":"FP32","data":%s}]%s}`, id, to-from, data, more)
}

// An inference is the answer to a request of the protocol.
type inference struct {
	Model   string `json:"model_name"`
	Version string `json:"model_version"`
	ID      string
	Outputs []struct {
		Name     string
		Datatype string
		Shape    []int
		Data     []any
	}
}

// numbers returns the elements of an output, with true as 1.
func (f inference) numbers(t *testing.T, name string) []float64 {
	t.Helper()
	for _, o := range f.Outputs {
		if o.Name != name {
			continue
		}
		var all []float64
		for _, v := range o.Data {
			switch v := v.(type) {
			case float64:
				all = append(all, v)
			case bool:
				all = append(all, map[bool]float64{true: 1}[v])
			}
		}
		return all
	}
	t.Fatalf("no output %s in %+v", name, f)
	return nil
}

func TestInferGivesWhatPredictGives(t *testing.T) {
	t.Parallel()
	dir := digits(t)
	r := start(t, serve.Config{Bundles: []serve.Bundle{{Dir: dir}}})
	p := wraptest.Opened(t, dir, wrap.Options{})
	want, err := p.Predict(t.Context(), []wrap.Tensor{wraptest.DigitTensor(t, 1500, 1510)})
	if err != nil {
		t.Fatal(err)
	}
	var got inference
	r.object("POST", "/v2/models/digits/infer", inferBody(t, "q1", 1500, 1510, ""), &got)
	if got.Model != "digits" || got.Version != "1" || got.ID != "q1" {
		t.Errorf("answer %+v", got)
	}
	for name, of := range map[string]func(wrap.Prediction) []float64{
		"probabilities":  func(one wrap.Prediction) []float64 { return one.Probabilities },
		"logit_variance": func(one wrap.Prediction) []float64 { return one.LogitVariance },
		"ood_score":      func(one wrap.Prediction) []float64 { return []float64{one.OODScore} },
		"ood_percentile": func(one wrap.Prediction) []float64 { return []float64{*one.OODPercentile} },
		"ood_pvalue":     func(one wrap.Prediction) []float64 { return []float64{*one.OODPValue} },
		"leverage":       func(one wrap.Prediction) []float64 { return []float64{one.Leverage} },
		"abstain":        func(one wrap.Prediction) []float64 { return []float64{map[bool]float64{true: 1}[*one.Abstain]} },
		"prediction_set": func(one wrap.Prediction) []float64 {
			set := make([]float64, 10)
			for _, k := range one.PredictionSet {
				set[k] = 1
			}
			return set
		},
	} {
		numbers := got.numbers(t, name)
		for i, one := range want {
			w := of(one)
			for k, v := range w {
				if g := numbers[i*len(w)+k]; !approx.Equal(g, v, 1e-6*v+1e-9) {
					t.Fatalf("%s of example %d: %v, want %v", name, i, g, v)
				}
			}
		}
	}
}

func TestParametersChooseProbabilitiesAndThresholds(t *testing.T) {
	t.Parallel()
	dir := digits(t)
	r := start(t, serve.Config{Bundles: []serve.Bundle{{Dir: dir}}})
	p := wraptest.Opened(t, dir, wrap.Options{})
	run, err := p.Run(t.Context(), []wrap.Tensor{wraptest.DigitTensor(t, 1500, 1510)})
	if err != nil {
		t.Fatal(err)
	}
	half := 0.5
	want, err := p.Apply(run, wrap.Override{Method: "mf0", TAct: 3, TEns: 1e-3, MaxOODScore: &half})
	if err != nil {
		t.Fatal(err)
	}
	var got inference
	r.object("POST", "/v2/models/digits/infer", inferBody(t, "", 1500, 1510,
		`,"parameters":{"method":"mf0","t_act":3,"t_ens":0.001,"max_ood_score":0.5},"outputs":[{"name":"abstain"},{"name":"probabilities"}]`), &got)
	if len(got.Outputs) != 2 || got.Outputs[0].Name != "abstain" {
		t.Fatalf("outputs %+v", got.Outputs)
	}
	abstain, p64 := got.numbers(t, "abstain"), got.numbers(t, "probabilities")
	for i, one := range want.Predictions {
		if (abstain[i] == 1) != *one.Abstain {
			t.Errorf("example %d abstains: %v, want %v", i, abstain[i], *one.Abstain)
		}
		for k, v := range one.Probabilities {
			if !approx.Equal(p64[i*10+k], v, 1e-6*v+1e-9) {
				t.Fatalf("example %d has %v, want %v", i, p64[i*10:i*10+10], one.Probabilities)
			}
		}
	}
}

func TestWrongRequestsAreRefusedInOneLine(t *testing.T) {
	t.Parallel()
	r := start(t, serve.Config{Bundles: []serve.Bundle{{Dir: digits(t)}}, MaxBody: 1 << 16})
	infer := "/v2/models/digits/infer"
	for _, c := range []struct {
		name, method, path, body string
		code                     int
		says                     string
		headers                  []string
	}{
		{"no JSON", "POST", infer, `{"inputs`, 400, "", nil},
		{"inputs are a number", "POST", infer, `{"inputs": 3}`, 400, "inputs", nil},
		{"another model", "POST", "/v2/models/letters/infer", `{}`, 404, `there is no model "letters"; there are ["digits"]`, nil},
		{"another version", "POST", "/v2/models/digits/versions/2/infer", `{}`, 404, "no version", nil},
		{"another path", "GET", "/v3", "", 404, "there is no GET /v3", nil},
		{"another method", "DELETE", infer, "", 405, "there is no DELETE /v2/models/digits/infer, but POST", nil},
		{"a load by GET", "GET", "/v2/repository/models/digits/load", "", 405, "but POST", nil},
		{"a wrong name", "POST", infer, strings.Replace(inferBody(t, "", 1500, 1501, ""), "image", "picture", 1), 400, `input "image" is missing`, nil},
		{"a wrong type", "POST", infer, strings.Replace(inferBody(t, "", 1500, 1501, ""), "FP32", "FP64", 1), 400, "FP64", nil},
		{"a wrong shape", "POST", infer, strings.Replace(inferBody(t, "", 1500, 1501, ""), "1,1,8,8", "1,64", 1), 400, "[-1,1,8,8]", nil},
		{"no examples", "POST", infer, `{"inputs":[{"name":"image","shape":[0,1,8,8],"datatype":"FP32","data":[]}]}`, 400, "no examples", nil},
		{"too large", "POST", infer, inferBody(t, "", 1000, 1700, ""), 413, "65536 bytes, the limit: send fewer examples at a time, or start the server with a larger MaxBody", nil},
		{"a large document", "POST", "/v2/repository/index", strings.Repeat(" ", 1<<16+1), 413, "want a small JSON object, or none", nil},
		{"no such output", "POST", infer, inferBody(t, "", 1500, 1501, `,"outputs":[{"name":"mood"}]`), 400, "mood", nil},
		{"a wrong parameter", "POST", infer, inferBody(t, "", 1500, 1501, `,"parameters":{"t_act":"warm"}`), 400, "t_act", nil},
		{"a cold temperature", "POST", infer, inferBody(t, "", 1500, 1501, `,"parameters":{"t_act":0}`), 400, "t_act is 0, want a positive number", nil},
		{"a temperature of 0", "POST", infer, inferBody(t, "", 1500, 1501, `,"parameters":{"t_ens":"0"}`), 400, "t_ens is 0, want a positive number", nil},
		{"temperatures of none", "POST", infer, inferBody(t, "", 1500, 1501, `,"parameters":{"method":"mle","t_act":2}`), 400, "t_act and t_ens are temperatures of mf0", nil},
		{"not packed", "POST", infer, `{}`, 400, "Content-Encoding", []string{"Content-Encoding", "gzip"}},
		{"packed otherwise", "POST", infer, `{}`, 400, "want gzip, deflate or none", []string{"Content-Encoding", "br"}},
		{"no image", "POST", "/v1/predict", "abc", 400, "not a PNG or JPEG", nil},
		{"another name of this machine", "GET", "/v2", "", 403, "evil.example", []string{"Host", "evil.example"}},
		{"a page from elsewhere", "POST", "/v2/repository/models/digits/unload", "", 403, "may not call this server", []string{"Origin", "http://evil.example"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, header, answer := r.send(c.method, c.path, c.body, c.headers...)
			var e struct{ Error string }
			ok := json.Unmarshal(answer, &e) == nil && strings.Contains(e.Error, c.says) && !strings.Contains(e.Error, "\n")
			if code != c.code || !ok {
				t.Errorf("%d %s, want %d and %q", code, answer, c.code, c.says)
			}
			if got := header.Get("Content-Type"); got != "application/json" {
				t.Errorf("Content-Type %q", got)
			}
		})
	}
	// It still answers.
	var got inference
	r.object("POST", infer, inferBody(t, "", 1500, 1501, ""), &got)
}

// The paths are those of Triton's extension_shared_memory.md.
func TestSharedMemoryIsUnsupported(t *testing.T) {
	t.Parallel()
	r := start(t, serve.Config{Bundles: []serve.Bundle{{Dir: digits(t)}}})
	const unsupported = `{"error":"shared memory is not supported: send the data"}`
	for _, memory := range []string{"/v2/systemsharedmemory", "/v2/cudasharedmemory"} {
		for request, code := range map[string]int{
			"GET /status":                  501,
			"GET /region/a%20b/status":     501,
			"POST /register":               501,
			"POST /region/a/register":      501,
			"POST /unregister":             501,
			"POST /region/a/unregister":    501,
			"GET ":                         404,
			"GET /statuses":                404,
			"POST /region/a/b/register":    404,
			"POST /region/register/status": 501,
		} {
			method, path, _ := strings.Cut(request, " ")
			got, header, answer := r.send(method, memory+path, `{"key":"/a","byte_size":64}`)
			if got != code || (string(answer) == unsupported) != (code == 501) || header.Get("Content-Type") != "application/json" {
				t.Errorf("%s %s%s: %d %s, want %d", method, memory, path, got, answer, code)
			}
		}
	}
	err := r.dial().Invoke(t.Context(), "/inference.GRPCInferenceService/SystemSharedMemoryStatus",
		&emptypb.Empty{}, &emptypb.Empty{})
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("by gRPC: %v", err)
	}
}

// A small network runs with one thread, a larger one would not. A configured number is at most that of processors.
func TestThreadsSuitTheNetworkAndTheProcessors(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	for asked, want := range map[int]int{0: 1, 1: 1, 2: 2, 100: 4} {
		c := serve.Config{Bundles: []serve.Bundle{{Name: "digits", Dir: digits(t)}}}
		c.Runtime.Threads = asked
		if got := start(t, c).Threads(); got != want {
			t.Errorf("%d threads asked for: %d, want %d", asked, got, want)
		}
	}
}

func TestAllButProbesNeedTheToken(t *testing.T) {
	t.Parallel()
	r := start(t, serve.Config{Bundles: []serve.Bundle{{Dir: digits(t)}}, Token: "s3cret"})
	for path, want := range map[string]int{"/v2/health/ready": 200, "/v2/health/live": 200, "/v2": 401, "/v2/models/digits": 401} {
		if code, _, answer := r.send("GET", path, ""); code != want {
			t.Errorf("%s without the token: %d %s, want %d", path, code, answer, want)
		}
	}
	for token, want := range map[string]int{"Bearer s3cret": 200, "bearer s3cret": 200, "Bearer s3cre": 401, "Basic s3cret": 401, "s3cret": 401, "Bearer ": 401} {
		if code, header, _ := r.send("GET", "/v2", "", "Authorization", token); code != want || want == 401 && header.Get("WWW-Authenticate") == "" {
			t.Errorf("%q: %d, want %d", token, code, want)
		}
	}
}

func TestABundleIsReloadedOnceItsProbePasses(t *testing.T) {
	t.Parallel()
	dir := wraptest.Copy(t, digits(t))
	r := start(t, serve.Config{Bundles: []serve.Bundle{{Name: "d", Dir: dir}}, Watch: 20 * time.Millisecond})
	sum := func() string {
		var m struct{ Parameters map[string]string }
		r.object("GET", "/v2/models/d", "", &m)
		return m.Parameters["bundle_sha256"]
	}
	first := sum()

	// If the new bundle cannot be loaded, the old one stays, and the error says why.
	manifest := wraptest.Read(t, filepath.Join(dir, "bundle.yaml"))
	wraptest.Write(t, dir, "bundle.yaml", bytes.Replace(manifest, []byte("damping"), []byte("dumping"), 1))
	code, _, answer := r.send("POST", "/v2/repository/models/d/load", "")
	if code != 400 || !strings.Contains(string(answer), "the seal is broken") || !strings.Contains(string(answer), "keeps its old version") {
		t.Errorf("a damaged bundle is loaded: %d %s", code, answer)
	}
	var index []struct{ Name, State, Reason string }
	r.object("POST", "/v2/repository/index", "", &index)
	if len(index) != 1 || index[0].State != "READY" || !strings.Contains(index[0].Reason, "the seal is broken") {
		t.Errorf("index %+v", index)
	}
	var got inference
	r.object("POST", "/v2/models/d/infer", inferBody(t, "", 1500, 1501, ""), &got)

	// A new bundle in its place is found.
	c := wraptest.Quick(wraptest.Config(t, dir))
	c.Force, c.Damping = true, calibrate.Damping{Relative: 10}
	wraptest.MustCalibrate(t, c)
	for deadline := time.Now().Add(20 * time.Second); sum() == first; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the new bundle was not noticed")
		}
	}

	if code, _, answer := r.send("POST", "/v2/repository/models/d/unload", ""); code != 200 {
		t.Errorf("unload: %d %s", code, answer)
	}
	for path, want := range map[string]int{"/v2/health/ready": 503, "/v2/models/d/ready": 503, "/v2/health/live": 200} {
		if code, _, answer := r.send("GET", path, ""); code != want {
			t.Errorf("%s of an unloaded model: %d %s", path, code, answer)
		}
	}
	if code, _, answer := r.send("POST", "/v2/models/d/infer", inferBody(t, "", 1500, 1501, "")); code != 503 {
		t.Errorf("an unloaded model answers: %d %s", code, answer)
	}
	if code, _, answer := r.send("POST", "/v2/repository/models/d/load", "{}"); code != 200 {
		t.Errorf("load: %d %s", code, answer)
	}
	r.object("POST", "/v2/models/d/infer", inferBody(t, "", 1500, 1501, ""), &got)
}

func TestMetricsShowTheServedBundle(t *testing.T) {
	t.Parallel()
	r := start(t, serve.Config{Bundles: []serve.Bundle{{Dir: digits(t)}}})
	var got inference
	r.object("POST", "/v2/models/digits/infer", inferBody(t, "", 1500, 1503, ""), &got)
	if code, _, _ := r.send("POST", "/v2/models/digits/infer", "{}"); code != 400 {
		t.Fatalf("an empty request: %d", code)
	}
	_, _, text := r.send("GET", "/metrics", "")
	for _, want := range []string{
		`nv_inference_request_success{model="digits",version="1"} 1`,
		`nv_inference_request_failure{model="digits",reason="OTHER",version="1"} 1`,
		`nv_inference_count{model="digits",version="1"} 3`,
		`nv_inference_exec_count{model="digits",version="1"} 1`,
		`mfgs_prediction_confidence_count{model="digits"} 3`,
		`mfgs_drift_window_examples{model="digits",quantity="ood_score"} 3`,
	} {
		if !strings.Contains(string(text), want+"\n") {
			t.Errorf("the metrics do not say %s", want)
		}
	}
}

func TestStatisticsCountRequests(t *testing.T) {
	t.Parallel()
	dir := digits(t)
	r := start(t, serve.Config{Bundles: []serve.Bundle{{Dir: dir}, {Name: "other", Dir: dir}}})
	begun := time.Now()
	var got inference
	for _, n := range []int{3, 1} {
		r.object("POST", "/v2/models/digits/infer", inferBody(t, "", 1500, 1500+n, ""), &got)
	}
	if code, _, _ := r.send("POST", "/v2/models/digits/infer", "{}"); code != 400 {
		t.Fatalf("an empty request: %d", code)
	}
	took := uint64(time.Since(begun))
	for path, models := range map[string]int{
		"/v2/models/digits/stats": 1, "/v2/models/digits/versions/1/stats": 1, "/v2/models/stats": 2,
	} {
		var stats oip.Statistics
		r.object("GET", path, "", &stats)
		if len(stats.Models) != models {
			t.Fatalf("%s: %+v", path, stats)
		}
		m := stats.Models[0]
		s := m.Requests
		if m.Name != "digits" || m.Version != "1" || m.Inferences != 4 || m.Executions != 2 ||
			m.Last < uint64(begun.UnixMilli()) || m.Last > uint64(time.Now().UnixMilli()) {
			t.Errorf("%s: %+v", path, m)
		}
		for _, step := range []oip.Times{s.Success, s.Queue, s.ComputeInput, s.ComputeInfer, s.ComputeOutput} {
			if step.Count != 2 || step.NS > took {
				t.Errorf("%s: %+v, in %d ns", path, s, took)
			}
		}
		parts := s.Queue.NS + s.ComputeInfer.NS + s.ComputeOutput.NS
		if s.Fail.Count != 1 || s.ComputeInfer.NS == 0 || s.Fail.NS == 0 || s.Success.NS < parts {
			t.Errorf("%s: %+v", path, s)
		}
		if models == 2 && (stats.Models[1].Name != "other" || stats.Models[1].Inferences+stats.Models[1].Executions != 0) {
			t.Errorf("of a model that nobody asked: %+v", stats.Models[1])
		}
	}
}

// Overridden probabilities are not compared with the validation data.
func TestOverriddenProbabilitiesAreNotCountedAsDrift(t *testing.T) {
	t.Parallel()
	r := start(t, serve.Config{Bundles: []serve.Bundle{{Dir: digits(t)}}})
	for _, c := range []struct {
		parameters string
		want       int // predictions that are counted, in all
	}{
		{`{}`, 3},
		{`{"method":"ts"}`, 3},
		{`{"method":"mf0","t_act":2,"t_ens":0.1}`, 3},
		{`{"max_uncertainty":0.5}`, 6},
	} {
		var got inference
		r.object("POST", "/v2/models/digits/infer", inferBody(t, "", 1500, 1503, `,"parameters":`+c.parameters), &got)
		text := metrics(t, r.Server)
		for _, series := range []string{
			`mfgs_drift_window_examples{model="digits",quantity="ood_score"}`,
			`mfgs_prediction_confidence_count{model="digits"}`,
		} {
			if !strings.Contains(text, fmt.Sprintf("%s %d\n", series, c.want)) {
				t.Errorf("after %s %s is not %d", c.parameters, series, c.want)
			}
		}
	}
}

func TestWhatIsAskedWithoutABody(t *testing.T) {
	t.Parallel()
	r := start(t, serve.Config{Bundles: []serve.Bundle{{Dir: digits(t)}}})
	for path, want := range map[string]string{
		"/v2/health/live":                     `{"live":true}`,
		"/v2/health/ready":                    `{"ready":true}`,
		"/v2/models/digits/ready":             `{"name":"digits","ready":true}`,
		"/v2/models/digits/versions/1/ready":  `{"name":"digits","ready":true}`,
		"/v2":                                 `{"name":"mfgs","version":"` + wrap.Version() + `","extensions":["binary_tensor_data",`,
		"/v2/models/digits":                   `{"name":"digits","versions":["1"],"platform":"onnxruntime_onnx",`,
		"/v2/models/digits/config":            `{"name":"digits","platform":"onnxruntime_onnx","backend":"onnxruntime","max_batch_size":`,
		"/v2/models/digits/versions/1/config": `{"name":"digits","platform":"onnxruntime_onnx","backend":"onnxruntime","max_batch_size":`,
		"/v2/models/digits/stats":             `{"model_stats":[{"name":"digits","version":"1","last_inference":0,`,
	} {
		if code, _, answer := r.send("GET", path, ""); code != 200 || !strings.HasPrefix(string(answer), want) {
			t.Errorf("%s: %d %s, want %s", path, code, answer, want)
		}
	}
}

// RFC 9110, 15.5.6.
func TestAWrongMethodIsAnsweredWithTheAllowedOnes(t *testing.T) {
	t.Parallel()
	r := start(t, serve.Config{Bundles: []serve.Bundle{{Dir: digits(t)}}})
	for request, want := range map[string]string{
		"DELETE /v2/models/digits/infer": "POST",
		"POST /v2/models/digits":         "GET, HEAD",
		"PUT /v1/predict":                "POST",
		"POST /":                         "GET, HEAD",
		"POST /nowhere":                  "",
	} {
		method, path, _ := strings.Cut(request, " ")
		code, header, _ := r.send(method, path, "")
		if header.Get("Allow") != want || code != map[bool]int{true: 404, false: 405}[want == ""] {
			t.Errorf("%s: %d, Allow %q, want %q", request, code, header.Get("Allow"), want)
		}
	}
}

// RFC 9110, 12.5.3.
func TestAnswersAreCompressedIfTheClientAcceptsIt(t *testing.T) {
	t.Parallel()
	r := start(t, serve.Config{Bundles: []serve.Bundle{{Dir: digits(t)}}})
	for accept, packed := range map[string]bool{
		"identity": false, "br": false, "xgzip": false, "gzipx;q=1": false,
		"gzip": true, "GZip": true, "br, gzip": true, "gzip;q=1": true, "gzip;q=0.001": true, "deflate;q=0, gzip ; q = 0.5": true,
		"gzip;q=0": false, "gzip; q=0.000": false, "br;q=1, gzip;q=0": false, "gzip;q=x": false, "gzip;q=": false, "gzip;q=-1": false,
	} {
		code, header, body := r.send("GET", "/openapi.json", "", "Accept-Encoding", accept)
		if code != 200 || (header.Get("Content-Encoding") == "gzip") != packed || json.Valid(body) == packed ||
			header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("%q: %d, %q, Vary %q, want it packed: %v",
				accept, code, header.Get("Content-Encoding"), header.Get("Vary"), packed)
		}
		if packed {
			z, err := gzip.NewReader(bytes.NewReader(body))
			if err == nil {
				body, err = io.ReadAll(z)
			}
			if err != nil || !json.Valid(body) {
				t.Errorf("%q: %v, of what unpacks to %.100q", accept, err, body)
			}
		} else if header.Get("Content-Length") != fmt.Sprint(len(body)) {
			t.Errorf("%q: Content-Length %s of %d bytes", accept, header.Get("Content-Length"), len(body))
		}
		// An answer that fits into a packet is sent as it is.
		if _, header, _ := r.send("GET", "/v1/models", "", "Accept-Encoding", accept); header.Get("Content-Encoding") != "" {
			t.Errorf("%q: a short answer is packed", accept)
		}
	}
}

// 290 test images raise no alarm, as they are distributed like the validation data; 60 grey ones do.
func TestDriftFromTheValidationDataIsDetected(t *testing.T) {
	t.Parallel()
	r := start(t, serve.Config{Bundles: []serve.Bundle{{Dir: digits(t)}}})
	alarms := func() (quantities []string) {
		_, _, text := r.send("GET", "/metrics", "")
		for _, q := range []string{"confidence", "entropy", "ood_score"} {
			series := `mfgs_drift_alarm{model="digits",quantity="` + q + `"} `
			if strings.Contains(string(text), series+"1\n") {
				quantities = append(quantities, q)
			} else if !strings.Contains(string(text), series+"0\n") {
				t.Errorf("the metrics do not say %s", series)
			}
		}
		return quantities
	}
	var got inference
	r.object("POST", "/v2/models/digits/infer", inferBody(t, "", 1500, 1790, ""), &got)
	if a := alarms(); a != nil {
		t.Errorf("test images alarm: %v", a)
	}
	grey := strings.TrimSuffix(strings.Repeat("0.5,", 60*64), ",")
	r.object("POST", "/v2/models/digits/infer",
		`{"inputs":[{"name":"image","shape":[60,1,8,8],"datatype":"FP32","data":[`+grey+`]}]}`, &got)
	if a := alarms(); !slices.Contains(a, "ood_score") {
		t.Errorf("grey images do not alarm: %v", a)
	}
}
