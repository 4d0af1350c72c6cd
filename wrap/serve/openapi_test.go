package serve_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/wrap/serve"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A description is the part of /openapi.json that is compared with the server.
type description struct {
	OpenAPI string
	Paths   map[string]map[string]json.RawMessage
	whole   any // closed: see closed
}

// An operation is a method of a path.
type operation struct {
	ID        string `json:"operationId"`
	Responses map[string]struct {
		Ref     string `json:"$ref"`
		Content map[string]any
	}
}

// closed makes schemas allow only the properties that they name, so that none is left undescribed.
func closed(v any) {
	switch v := v.(type) {
	case map[string]any:
		if _, any := v["additionalProperties"]; v["type"] == "object" && v["properties"] != nil && !any {
			v["additionalProperties"] = false
		}
		for _, one := range v {
			closed(one)
		}
	case []any:
		for _, one := range v {
			closed(one)
		}
	}
}

func (r *running) description() description {
	r.t.Helper()
	var d description
	r.object("GET", "/openapi.json", "", &d)
	_, _, text := r.send("GET", "/openapi.json", "")
	whole, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		r.t.Fatal(err)
	}
	closed(whole)
	d.whole = whole
	return d
}

// operations returns all operations, by method and path.
func (d description) operations(t *testing.T) map[string]operation {
	t.Helper()
	all := map[string]operation{}
	for path, item := range d.Paths {
		for method, text := range item {
			if method == "parameters" {
				continue
			}
			var one operation
			if err := json.Unmarshal(text, &one); err != nil {
				t.Fatalf("%s %s: %v", method, path, err)
			}
			all[strings.ToUpper(method)+" "+path] = one
		}
	}
	return all
}

func TestOpenAPIHasExactlyTheServersPaths(t *testing.T) {
	t.Parallel()
	r := start(t, serve.Config{Bundles: []serve.Bundle{{Dir: digits(t)}}})
	d := r.description()
	served := r.Patterns()
	for i := range served {
		served[i] = strings.TrimSuffix(served[i], "{$}")
	}
	slices.Sort(served)
	described := slices.Sorted(maps.Keys(d.operations(t)))
	if !slices.Equal(served, described) {
		t.Errorf("served are\n%s\ndescribed are\n%s", strings.Join(served, "\n"), strings.Join(described, "\n"))
	}
	ids := map[string]bool{}
	for name, one := range d.operations(t) {
		if one.ID == "" || ids[one.ID] {
			t.Errorf("%s: the operationId %q is none, or twice", name, one.ID)
		}
		ids[one.ID] = true
	}
	if !strings.HasPrefix(d.OpenAPI, "3.1.") {
		t.Errorf("openapi %q", d.OpenAPI)
	}
}

func TestAnswersMatchOpenAPI(t *testing.T) {
	t.Parallel()
	dir := digits(t)
	r := start(t, serve.Config{Bundles: []serve.Bundle{{Name: "digits", Dir: dir}, {Name: "gone", Dir: dir}}, MaxBody: 1 << 16})
	d := r.description()
	c := jsonschema.NewCompiler()
	if err := c.AddResource("mem:///openapi.json", d.whole); err != nil {
		t.Fatal(err)
	}
	operations := d.operations(t)
	tried := map[string]bool{}
	// answers sends a request, and checks the answer against its operation.
	answers := func(of, path, body string, want int, headers ...string) {
		t.Helper()
		method, pattern, _ := strings.Cut(of, " ")
		one, ok := operations[of]
		if !ok {
			t.Fatalf("no operation %s", of)
		}
		code, header, text := r.send(method, path, body, headers...)
		if code != want {
			t.Fatalf("%s: %d %s, want %d", path, code, text, want)
		}
		tried[of] = tried[of] || code == http.StatusOK
		status := strconv.Itoa(code)
		response, ok := one.Responses[status]
		if !ok {
			t.Errorf("%s: %d is not described", of, code)
			return
		}
		at := "mem:///openapi.json#/paths/" + strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(pattern) +
			"/" + strings.ToLower(method) + "/responses/" + status
		if response.Ref != "" {
			at = "mem:///openapi.json" + response.Ref
		} else if len(response.Content) == 0 {
			if len(text) > 0 {
				t.Errorf("%s: an answer that is not described: %s", of, text)
			}
			return
		}
		kind, _, _ := strings.Cut(header.Get("Content-Type"), ";")
		if response.Ref == "" && response.Content[kind] == nil || response.Ref != "" && kind != "application/json" {
			t.Errorf("%s: %s is not described", of, kind)
		}
		if kind != "application/json" {
			return
		}
		schema, err := c.Compile(at + "/content/application~1json/schema")
		if err != nil {
			t.Fatal(err)
		}
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err == nil {
			err = schema.Validate(v)
		}
		if err != nil {
			t.Errorf("%s: %v\nin %s", of, err, text)
		}
	}
	_, _, html := r.send("GET", "/", "")
	_, file, _ := strings.Cut(string(html), `src="`)
	file, _, _ = strings.Cut(file, `"`)
	digit := digitFile(t, 1500)
	answers("GET /", "/", "", 200)
	answers("GET /page/{version}/{name}", "/"+file, "", 200)
	answers("GET /page/{version}/{name}", "/page/0/none.js", "", 404)
	answers("GET /openapi.json", "/openapi.json", "", 200)
	answers("GET /metrics", "/metrics", "", 200)
	answers("POST /v1/predict", "/v1/predict", digit, 200)
	answers("POST /v1/predict", "/v1/predict?method=ts&max_uncertainty=0&top=2", digit, 200)
	answers("POST /v1/predict", "/v1/predict?model=none", digit, 404)
	answers("POST /v1/predict", "/v1/predict", "", 400)
	answers("POST /v1/predict", "/v1/predict", strings.Repeat("x", 1<<16+1), 413)
	answers("POST /v1/predict", "/v1/predict", digit, 403, "Host", "evil.example")
	answers("POST /v2/repository/models/{model}/load", "/v2/repository/models/gone/load", "", 200)
	answers("POST /v2/repository/models/{model}/unload", "/v2/repository/models/gone/unload", "{}", 200)
	answers("POST /v1/predict", "/v1/predict?model=gone", digit, 503)
	answers("GET /v1/models", "/v1/models", "", 200) // of which one is not loaded
	answers("GET /v2", "/v2", "", 200)
	answers("GET /v2/health/live", "/v2/health/live", "", 200)
	answers("GET /v2/health/ready", "/v2/health/ready", "", 503)
	answers("POST /v2/repository/index", "/v2/repository/index", "", 200)
	answers("POST /v2/repository/index", "/v2/repository/index", strings.Repeat(" ", 1<<16+1), 413)
	for _, what := range []string{"load", "unload"} {
		of := "POST /v2/repository/models/{model}/" + what
		at := "/v2/repository/models/digits/" + what
		answers(of, at, strings.Repeat(" ", 1<<16+1), 413)
		answers(of, at, `{"parameters":{"config":"{}"}}`, 501)
	}
	answers("GET /v2/models/stats", "/v2/models/stats", "", 200)
	for _, base := range []string{"/v2/models/{model}", "/v2/models/{model}/versions/{version}"} {
		at := strings.NewReplacer("{model}", "digits", "{version}", "1").Replace(base)
		answers("GET "+base, at, "", 200)
		answers("GET "+base+"/ready", at+"/ready", "", 200)
		answers("GET "+base+"/config", at+"/config", "", 200)
		answers("GET "+base+"/stats", at+"/stats", "", 200)
		answers("POST "+base+"/infer", at+"/infer", inferBody(t, "q", 1500, 1502, ""), 200)
		answers("POST "+base+"/infer", at+"/infer", "{}", 400)
		answers("POST "+base+"/infer", at+"/infer",
			`{"inputs":[{"name":"image","shape":[1,1,8,8],"datatype":"FP32","parameters":{"shared_memory_region":"a"}}]}`, 501)
		answers("GET "+base, strings.Replace(at, "digits", "gone", 1), "", 503)
		answers("GET "+base, strings.Replace(at, "digits", "none", 1), "", 404)
	}
	answers("POST /v2/repository/models/{model}/load", "/v2/repository/models/gone/load", "", 200)
	answers("GET /v2/health/ready", "/v2/health/ready", "", 200)
	for name := range operations {
		if !tried[name] {
			t.Errorf("%s was not answered", name)
		}
	}
}
