package main

import (
	"errors"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/mfgs/mfgs"

// imports says what each package may import of this module, in the files that are built and in its
// tests. It is a statement of policy: a package without a row fails the test, and a row is the
// place to argue about a new arrow. A pattern matches as path.Match does; a trailing /... takes a
// package and all below it.
//
// Left to right is the way from a model file to a served prediction: nothing mathematical knows of
// ONNX Runtime, and nothing that reads model files knows of the mathematics.
var imports = map[string][]string{
	"onnx":                           {"featurize/tensor", "onnx/internal/onnxpb", "onnx/internal/graph", "onnx/files"},
	"onnx/internal/onnxpb":           {"featurize/tensor"},
	"onnx/internal/graph":            {"featurize/tensor", "onnx/internal/onnxpb"},
	"onnx/internal/build":            {"featurize/tensor", "onnx", "onnx/internal/onnxpb"},
	"onnx/internal/onnxtest":         {"featurize/tensor", "onnx/internal/onnxpb"}, // for tests
	"onnx/head":                      {"featurize/tensor", "onnx", "onnx/internal/build", "onnx/internal/graph", "onnx/internal/onnxpb"},
	"onnx/fuse":                      {"featurize/tensor", "onnx", "onnx/head", "onnx/internal/build", "onnx/internal/onnxpb"},
	"onnx/layers":                    {"featurize/tensor", "onnx", "onnx/head", "onnx/internal/graph", "onnx/internal/onnxpb"},
	"featurize/tensor":               {},
	"featurize/ort":                  {"featurize/ort/install", "featurize/tensor"},
	"featurize/ort/install":          {"onnx/files"},
	"featurize/pixels":               {},
	"featurize/standin":              {"featurize/dataset", "featurize/pixels"},
	"featurize/tensor/jsontensor":    {"featurize/tensor"},
	"featurize/dataset":              {"featurize/dataset/internal/*", "featurize/pixels", "featurize/tensor", "featurize/tensor/jsontensor", "featurize/text", "calibrate/rows"},
	"featurize/dataset/arrow":        {"featurize/dataset", "featurize/tensor"},
	"featurize/dataset/internal/*":   {"featurize/tensor", "featurize/tensor/jsontensor", "featurize/text", "onnx/files"},
	"featurize/preprocess":           {"featurize/pixels", "featurize/tensor", "featurize/text"},
	"featurize/preprocess/published": {"featurize/preprocess", "featurize/text"},
	"featurize":                      {"onnx", "onnx/head", "featurize/*", "onnx/files", "calibrate/rows"},
	"calibrate/meanfield":            {},
	"calibrate/metrics":              {},
	"calibrate/conformal":            {},
	"calibrate/drift":                {},
	"calibrate/safetensors":          {"featurize/tensor"},
	"calibrate/rows":                 {"calibrate/safetensors"},
	"calibrate/score":                {"calibrate/metrics", "calibrate/internal/*"},
	"calibrate":                      {"calibrate/meanfield", "calibrate/metrics", "calibrate/rows", "calibrate/safetensors", "calibrate/score", "calibrate/internal/*"},
	"calibrate/internal/*":           {},
	"calibrate/methods":              {"calibrate", "calibrate/*", "calibrate/internal/*"},
	"calibrate/methods/layers":       {"calibrate", "calibrate/methods", "calibrate/meanfield", "calibrate/rows", "calibrate/internal/*"},
	"wrap/bundle":                    {"calibrate", "calibrate/conformal", "calibrate/drift", "calibrate/metrics", "calibrate/rows", "calibrate/safetensors", "calibrate/score", "onnx/files", "featurize/tensor", "featurize/text", "featurize/preprocess", "wrap/internal/folder"},
	"wrap/internal/folder":           {"featurize/text", "onnx/files"},
	"wrap/internal/source":           {"calibrate", "calibrate/rows", "featurize", "featurize/dataset", "featurize/standin", "wrap/bundle"},
	"wrap/part":                      {"calibrate", "calibrate/conformal", "calibrate/rows", "calibrate/safetensors", "calibrate/score", "featurize/preprocess", "featurize/tensor", "onnx/files", "wrap/bundle", "wrap/internal/folder"},
	"wrap/internal/measure":          {"calibrate", "calibrate/conformal", "calibrate/metrics", "calibrate/rows", "calibrate/score"},
	"wrap/internal/attach":           {"onnx", "onnx/head", "onnx/fuse", "featurize", "featurize/preprocess", "calibrate", "calibrate/conformal", "calibrate/meanfield", "calibrate/rows", "calibrate/score", "wrap/bundle"},
	"wrap/internal/proof":            {"calibrate", "onnx/head", "wrap/part"},
	"wrap/internal/probe":            {"onnx", "featurize/tensor", "calibrate", "wrap/bundle", "wrap/internal/attach", "wrap/internal/source"},
	"wrap":                           {"onnx", "onnx/head", "onnx/fuse", "onnx/files", "featurize", "featurize/*", "featurize/tensor/jsontensor", "featurize/ort/install", "calibrate", "calibrate/*", "wrap/bundle", "wrap/part", "wrap/internal/*"},
	"wrap/presets":                   {"calibrate/metrics", "calibrate/rows", "featurize", "featurize/dataset", "featurize/preprocess", "onnx", "onnx/head", "wrap", "wrap/bench", "wrap/bundle", "wrap/internal/attach", "wrap/internal/source", "wrap/pretrained"},
	"wrap/pretrained":                {"featurize/preprocess", "featurize/preprocess/published", "featurize/tensor", "featurize/text", "onnx", "onnx/files"},
	"wrap/bench":                     {"onnx", "onnx/head", "onnx/layers", "featurize", "featurize/dataset", "calibrate", "calibrate/*", "calibrate/methods/layers", "wrap", "wrap/bundle", "wrap/internal/*"},
	"wrap/report":                    {"calibrate", "calibrate/conformal", "calibrate/metrics", "calibrate/rows", "featurize/dataset", "featurize/pixels", "featurize/text", "onnx/files", "wrap/bench", "wrap/bundle", "wrap/report/chart"},
	"wrap/report/chart":              {},
	"wrap/serve/engine":              {"featurize/tensor"},
	"wrap/job":                       {"calibrate", "calibrate/conformal", "calibrate/score", "featurize/dataset", "featurize/preprocess", "featurize/text", "onnx", "onnx/files", "onnx/head", "wrap", "wrap/bundle", "wrap/internal/folder"},
	"wrap/export":                    {"calibrate/conformal", "featurize/tensor", "onnx", "onnx/fuse", "onnx/files", "wrap", "wrap/bundle", "wrap/internal/attach"},
	"wrap/serve/oip":                 {"featurize/tensor", "featurize/tensor/jsontensor", "wrap/serve/oip/inference"},
	"wrap/serve":                     {"calibrate/conformal", "featurize/tensor", "onnx", "onnx/files", "wrap", "wrap/bundle", "wrap/internal/folder", "wrap/serve/*", "wrap/serve/oip/inference"},
	"wrap/serve/oip/inference":       {},
	"wrap/serve/inbound":             {},
	"wrap/serve/page":                {},
	"wrap/serve/telemetry":           {"calibrate/conformal", "calibrate/drift", "wrap", "wrap/bundle"},
	"wrap/internal/wraptest":         {"featurize/tensor", "onnx", "onnx/head", "featurize", "calibrate", "calibrate/score", "models", "wrap", "wrap/internal/attach"},
	"cmd/*":                          {"onnx", "onnx/head", "onnx/fuse", "featurize/...", "calibrate/...", "wrap/...", "models", "onnx/files", "featurize/text", "cmd/*/internal/*"},
	"cmd/mfgs/internal/complete":     {"featurize/text"},
	"cmd/mfgs/internal/doctor":       {"featurize/ort", "featurize/ort/install", "featurize/tensor", "featurize/text", "models", "wrap", "wrap/bundle"},
	"cmd/mfgs/internal/memory":       {"featurize/text"},
	"cmd/mfgs/internal/roff":         {},
	"models":                         {},
	"calibrate/approx":               {},
	"onnx/files":                     {},
	"featurize/text":                 {},

	"cmd/mfgs-paper/internal/archive":  {"onnx/files"},
	"cmd/mfgs-paper/internal/corrupt":  {},
	"cmd/mfgs-paper/internal/estimate": {},
	"cmd/mfgs-paper/internal/gallery":  {"cmd/mfgs-paper/internal/archive", "featurize/dataset", "onnx/files"},
	"cmd/mfgs-paper/internal/lanes":    {},
	"cmd/mfgs-paper/internal/markdown": {},
	"cmd/mfgs-paper/internal/peak":     {},
	"cmd/mfgs-paper/internal/ranks":    {},
	"cmd/mfgs-paper/internal/resize":   {"featurize/pixels"},
	"cmd/mfgs-paper/internal/stamp":    {},
	"cmd/mfgs-paper/internal/spoil": {
		"cmd/mfgs-paper/internal/corrupt", "cmd/mfgs-paper/internal/gallery", "onnx/files",
	},
}

// testImports are what tests may import beyond their row, calibrate/approx and testdata/realdata.
var testImports = map[string][]string{
	"featurize/preprocess/published":  {"featurize/pixels", "featurize/tensor"}, // pictures to tensors
	"cmd/mfgs-paper/internal/archive": {"featurize/dataset"},                    // what is written is read by it
	"featurize/standin":               {"calibrate/rows"},                       // the shards of its examples
	"featurize/ort/install":           {"featurize/ort"},                        // a process that loads what was found
	"onnx":                            {"onnx/internal/onnxtest"},
	"onnx/internal/graph":             {"onnx/internal/onnxtest"},
	"onnx/head":                       {"onnx/internal/onnxtest"},
	// What counts of a fused graph is what ONNX Runtime computes of it, against the formulas. The package
	// itself knows neither: its external tests alone do, which needs no arrow of the code to turn round.
	"onnx/fuse":   {"onnx/internal/onnxtest", "calibrate/meanfield", "featurize/ort", "featurize/ort/install"},
	"onnx/layers": {"onnx/internal/onnxtest"},
	"featurize":   {"onnx/layers", "featurize/ort/install"}, // whose networks it runs; the library
	// A real network and real data; comparisons and exports of what was calibrated.
	"wrap/internal/proof":  {"calibrate", "onnx/head", "wrap/part"},
	"wrap":                 {"models", "wrap/bench", "wrap/export"},
	"wrap/bench":           {"models", "wrap/internal/wraptest"},
	"wrap/report":          {"wrap"},
	"wrap/export":          {"models", "calibrate", "featurize/ort", "onnx/head", "wrap/internal/wraptest"},
	"wrap/internal/attach": {"featurize/tensor", "featurize/ort", "wrap/internal/wraptest"},
	"wrap/presets":         {"calibrate", "featurize/tensor", "wrap/internal/wraptest"},
	"wrap/serve":           {"calibrate", "featurize/pixels", "wrap/internal/wraptest"},
}

// thirdParty says which packages, tests included, may import each module from
// elsewhere. What is not listed is not imported at all.
var thirdParty = map[string][]string{
	"github.com/yalue/onnxruntime_go": {"featurize/ort"},
	"gonum.org/v1/gonum":              {"calibrate/...", "featurize/standin", "cmd/mfgs-paper/internal/..."},
	"gonum.org/v1/plot":               {"wrap/report/chart"},
	"golang.org/x/image":              {"wrap/report"},
	"google.golang.org/protobuf":      {"onnx/...", "featurize/ort", "wrap/...", "models"}, // wrap: only its tests
	"google.golang.org/grpc":          {"wrap/serve", "wrap/serve/inbound", "wrap/serve/oip/..."},
	"google.golang.org/genproto":      {"wrap/serve"}, // grpc's
	// wrap/serve/telemetry: only its tests.
	"gopkg.in/yaml.v3":                  {"featurize/preprocess", "wrap/bundle", "wrap/internal/folder", "wrap/job", "wrap/part", "wrap/serve/telemetry"},
	"golang.org/x/mod":                  {"cmd/mfgs"}, // only its tests
	"golang.org/x/sync":                 {"featurize", "wrap/serve", "wrap/serve/inbound", "cmd/mfgs-paper/internal/lanes"},
	"golang.org/x/sys":                  {"onnx/files", "cmd/mfgs", "cmd/mfgs/internal/doctor", "wrap/bundle", "wrap/serve"}, // wrap/bundle: only its tests
	"github.com/urfave/cli/v2":          {"cmd/*"},
	"github.com/schollz/progressbar/v3": {"cmd/*"},
	"golang.org/x/term":                 {"cmd/*", "cmd/mfgs/internal/memory"},
	"github.com/rogpeppe/go-internal":   {"featurize/ort/install", "cmd/*"},
	"github.com/apache/arrow-go/v18":    {"featurize/dataset/arrow", "cmd/mfgs"},
	"github.com/google/flatbuffers":     {"featurize/dataset/arrow"}, // arrow-go's, as is the next
	"github.com/klauspost/compress":     {"featurize/dataset/arrow"},

	"github.com/prometheus/client_golang":      {"wrap/serve/telemetry"},
	"github.com/prometheus/client_model":       {"wrap/serve/telemetry"}, // only its tests
	"go.opentelemetry.io/otel":                 {"wrap/serve/telemetry"},
	"github.com/santhosh-tekuri/jsonschema/v6": {"wrap/serve"},           // only its tests
	"go.opentelemetry.io/proto/otlp":           {"wrap/serve/telemetry"}, // only its tests
}

// topLevel is all that the root of the repository holds beside dot files.
var topLevel = []string{
	"go.mod", "go.sum", "onnx", "featurize", "calibrate", "wrap", "cmd", "models", "testdata",
	"README.md", "LICENSE", "NOTICE", "Makefile", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "docs",
}

// notOurs are build products that .gitignore keeps out of the repository.
var notOurs = []string{"mfgs", "mfgs.exe", "dist", "*.test", "*.prof", "*.out"}

const root = "../.."

type arrow struct {
	from, file, to string
	test           bool
}

func TestImportsFollowTheTable(t *testing.T) {
	arrows, packages := readImports(t)
	for _, room := range []string{"onnx", "featurize/ort", "featurize", "calibrate", "wrap", "models", "cmd/mfgs"} {
		if !slices.Contains(packages, room) {
			t.Errorf("package %s was not found: the test looks in the wrong place", room)
		}
	}
	for _, p := range packages {
		if _, ok := row(imports, p); !ok {
			t.Errorf("package %s has no row in the import table", p)
		}
	}
	seen := map[string]bool{}
	for _, a := range arrows {
		seen[a.to] = true
		if ours, ok := strings.CutPrefix(a.to, module+"/"); ok {
			// An external test package imports the package it tests.
			if ours == a.from && a.test {
				continue
			}
			may, _ := row(imports, a.from)
			if !matchAny(may, ours) && !(a.test && (ours == "calibrate/approx" || ours == "testdata/realdata" || matchAny(testImports[a.from], ours))) {
				t.Errorf("%s: %s may not import %s", a.file, a.from, ours)
			}
			continue
		}
		if first, _, _ := strings.Cut(a.to, "/"); !strings.Contains(first, ".") {
			continue // the standard library, or C
		}
		mod := moduleOf(a.to)
		if mod == "" {
			t.Errorf("%s: %s is of no module in the table of third parties", a.file, a.to)
		} else if !matchAny(thirdParty[mod], a.from) {
			t.Errorf("%s: %s may not import %s", a.file, a.from, a.to)
		}
	}
	if !seen["github.com/yalue/onnxruntime_go"] || !seen[module+"/onnx"] {
		t.Error("the arrows that must exist were not seen: the test reads no imports")
	}
}

// embedded are the modules from elsewhere that a program links which imports package wrap.
var embedded = []string{
	"github.com/rogpeppe/go-internal", // locks around an installation
	"github.com/yalue/onnxruntime_go",
	"golang.org/x/sync",
	"golang.org/x/sys",
	"golang.org/x/tools", // with go-internal
	"gonum.org/v1/gonum",
	"google.golang.org/protobuf",
	"gopkg.in/yaml.v3",
}

// What a program pays for embedding the library is these modules and no more: readers of heavy
// formats are imported by the command alone.
func TestEmbeddingTheLibraryTakesFewModules(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", module+"/wrap")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Fields(string(out))
	slices.Sort(got)
	got = slices.DeleteFunc(slices.Compact(got), func(m string) bool { return m == module })
	if !slices.Equal(got, embedded) {
		t.Errorf("package wrap brings in the modules\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(embedded, "\n"))
	}
}

// Every row and every pattern in it stands for an import that there is.
func TestTheTableHasNothingThatDoesNotExist(t *testing.T) {
	arrows, packages := readImports(t)
	used := func(from, to string) bool {
		return slices.ContainsFunc(arrows, func(a arrow) bool {
			return matchAny([]string{from}, a.from) && matchAny([]string{to}, strings.TrimPrefix(a.to, module+"/"))
		})
	}
	for from, row := range imports {
		if !slices.ContainsFunc(packages, func(p string) bool { return matchAny([]string{from}, p) }) {
			t.Errorf("the import table has a row for %s, which does not exist", from)
		}
		for _, to := range row {
			if !used(from, to) {
				t.Errorf("the import table lets %s import %s, which it does not", from, to)
			}
		}
	}
	for from, row := range testImports {
		for _, to := range row {
			if !used(from, to) {
				t.Errorf("the table lets tests of %s import %s, which they do not", from, to)
			}
		}
	}
	for mod, row := range thirdParty {
		for _, from := range row {
			if !used(from, mod+"/...") {
				t.Errorf("the table lets %s import %s, which it does not", from, mod)
			}
		}
	}
}

func TestTopLevelIsAsDesigned(t *testing.T) {
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, e := range entries {
		found[e.Name()] = true
		if strings.HasPrefix(e.Name(), ".") || slices.Contains(topLevel, e.Name()) || matchAny(notOurs, e.Name()) {
			continue
		}
		t.Errorf("%s does not belong in the root of the repository", e.Name())
	}
	for _, must := range []string{"go.mod", "onnx", "featurize", "calibrate", "wrap", "cmd", "models", "testdata", "README.md"} {
		if !found[must] {
			t.Errorf("%s is missing from the root of the repository", must)
		}
	}
}

// readImports parses the import lines of every Go file of the module, for all
// platforms and build tags. Folders that the go command ignores are ignored.
func readImports(t *testing.T) (arrows []arrow, packages []string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			ignored := name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")
			if ignored && file != root {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		from := path.Dir(rel)
		if !slices.Contains(packages, from) {
			packages = append(packages, from)
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range parsed.Imports {
			to, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return errors.Join(errors.New(rel), err)
			}
			arrows = append(arrows, arrow{from, rel, to, strings.HasSuffix(name, "_test.go")})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return arrows, packages
}

// row returns the value of the key that matches a package.
func row(table map[string][]string, pkg string) ([]string, bool) {
	for key, value := range table {
		if matchAny([]string{key}, pkg) {
			return value, true
		}
	}
	return nil, false
}

func matchAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		if tree, ok := strings.CutSuffix(p, "/..."); ok {
			return name == tree || strings.HasPrefix(name, tree+"/")
		}
		ok, err := path.Match(p, name)
		return ok && err == nil
	})
}

// moduleOf returns the module in the table that holds an imported package.
func moduleOf(imported string) string {
	for mod := range thirdParty {
		if imported == mod || strings.HasPrefix(imported, mod+"/") {
			return mod
		}
	}
	return ""
}
