package lint

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

// ground are packages that any package may import. They import no other packages of this module.
var ground = []string{
	"internal/approx", "internal/realdata", "internal/testerr", // for tests
	"internal/chart", "internal/eigen", "internal/files", "internal/parallel", "internal/pixels", "internal/safetensors",
	"internal/jsontensor", "internal/option", "internal/text", "internal/yamlcheck",
	"calibrate/layer",
	"onnx/tensor", // element types and tensors, which users see
}

// imports says which packages of this module each package may import beyond ground; tests may import anything.
// Every package needs a row, and each new dependency is argued for in review. Patterns match as in path.Match; a
// trailing /... matches a package and all below it. The longest matching row counts.
//
// Mathematics does not import ONNX Runtime, and packages that read model files do not import mathematics.
var imports = map[string][]string{
	"internal/install":       {},
	"internal/oip":           {"internal/oip/inference"},
	"internal/oip/inference": {},

	"onnx":                   {"internal/onnx/..."},
	"onnx/head":              {"onnx", "internal/onnx/..."},
	"onnx/fuse":              {"onnx", "onnx/head", "internal/onnx/..."},
	"internal/onnx/onnxpb":   {},
	"internal/onnx/graph":    {"internal/onnx/onnxpb"},
	"internal/onnx/build":    {"onnx", "internal/onnx/onnxpb"},
	"internal/onnx/onnxtest": {"internal/onnx/onnxpb"}, // for tests

	"calibrate":            {"calibrate/internal/*", "calibrate/meanfield", "calibrate/metrics", "calibrate/rows", "calibrate/score"},
	"calibrate/internal/*": {},
	"calibrate/conformal":  {},
	"calibrate/drift":      {},
	"calibrate/external":   {"calibrate"},
	"calibrate/meanfield":  {},
	"calibrate/metrics":    {},
	"calibrate/rows":       {},
	"calibrate/score":      {"calibrate/metrics", "calibrate/rows"},

	"featurize":                    {"calibrate/rows", "featurize/dataset", "featurize/ort", "featurize/preprocess", "internal/synthetic", "onnx", "onnx/head"},
	"featurize/ort":                {"internal/install"},
	"featurize/dataset":            {"calibrate/rows", "featurize/dataset/internal/*"},
	"featurize/dataset/arrow":      {"featurize/dataset"},
	"featurize/dataset/internal/*": {},
	"featurize/preprocess":         {},

	// Shared by several packages, and not public.
	"internal/attach":    {"calibrate/...", "featurize", "featurize/preprocess", "onnx", "onnx/fuse", "onnx/head", "wrap/bundle"},
	"internal/demo":      {"calibrate", "calibrate/...", "featurize/dataset", "models", "wrap", "wrap/bench", "wrap/calibration"},
	"internal/demo/run":  {"internal/demo", "wrap"},
	"internal/measure":   {"calibrate", "calibrate/..."},
	"internal/source":    {"calibrate/rows", "featurize", "featurize/dataset", "internal/synthetic", "onnx/head", "wrap/bundle"},
	"internal/synthetic": {"featurize/dataset"},
	"internal/wraptest":  {"calibrate", "calibrate/...", "featurize", "internal/attach", "internal/onnx/onnxpb", "internal/onnx/onnxtest", "models", "onnx", "onnx/head", "wrap", "wrap/bundle", "wrap/calibration"},

	"wrap":                          {"calibrate/...", "featurize/...", "internal/...", "onnx/...", "wrap/bundle", "wrap/internal/*"},
	"wrap/calibration":              {"calibrate", "calibrate/...", "featurize", "featurize/...", "internal/...", "onnx", "onnx/head", "wrap", "wrap/bundle", "wrap/internal/*"},
	"wrap/bench":                    {"calibrate/...", "featurize/...", "internal/...", "onnx/...", "wrap", "wrap/bundle"},
	"wrap/bundle":                   {"calibrate/...", "featurize/preprocess", "onnx/head", "wrap/internal/folder"},
	"wrap/export":                   {"calibrate", "calibrate/conformal", "internal/attach", "internal/measure", "internal/oip", "onnx", "onnx/fuse", "wrap", "wrap/bundle", "wrap/internal/probe"},
	"wrap/internal/folder":          {},
	"wrap/internal/part":            {"calibrate", "calibrate/...", "featurize/preprocess", "wrap/bundle", "wrap/internal/folder"},
	"wrap/internal/probe":           {"internal/attach", "internal/source", "onnx", "wrap/bundle"},
	"wrap/internal/proof":           {"calibrate", "onnx/head", "wrap/bundle"},
	"wrap/report":                   {"calibrate/...", "featurize/dataset", "wrap/bench", "wrap/bundle"},
	"wrap/serve":                    {"calibrate/conformal", "internal/oip/...", "onnx", "wrap", "wrap/bundle", "wrap/internal/folder", "wrap/serve/internal/*"},
	"wrap/serve/internal/*":         {},
	"wrap/serve/internal/telemetry": {"calibrate/conformal", "calibrate/drift", "wrap", "wrap/bundle"},

	"models":                                 {},
	"cmd/*":                                  {"onnx/...", "featurize/...", "calibrate/...", "wrap/...", "internal/...", "models", "cmd/*/internal/*"},
	"cmd/mfgs/internal/*":                    {},
	"cmd/mfgs/internal/doctor":               {"featurize/ort", "internal/install", "models", "wrap", "wrap/bundle"},
	"cmd/mfgs/internal/pretrained":           {"cmd/mfgs/internal/published", "featurize/preprocess", "onnx"},
	"cmd/mfgs/internal/published":            {"featurize/preprocess"},
	"cmd/mfgs-paper/internal/*":              {"cmd/mfgs-paper/internal/*", "featurize/dataset"},
	"cmd/mfgs-paper/internal/compare":        {"calibrate", "calibrate/rows", "cmd/mfgs-paper/internal/...", "internal/attach", "internal/measure", "onnx", "onnx/head", "wrap/bench", "wrap/bundle"},
	"cmd/mfgs-paper/internal/methods":        {"calibrate", "calibrate/meanfield", "calibrate/rows"},
	"cmd/mfgs-paper/internal/methods/layers": {"calibrate", "calibrate/meanfield", "cmd/mfgs-paper/internal/methods"},
	"cmd/mfgs-paper/internal/onnxlayers":     {"internal/onnx/...", "onnx", "onnx/head"},
	"cmd/mfgs-paper/internal/oodscores":      {"calibrate/score"},
}

// thirdParty says which packages, tests included, may import each third-party module. Other modules are forbidden.
var thirdParty = map[string][]string{
	"github.com/yalue/onnxruntime_go": {"featurize/ort"},
	"gonum.org/v1/gonum":              {"calibrate/...", "internal/synthetic", "internal/eigen", "internal/parallel", "cmd/mfgs-paper/internal/..."},
	"golang.org/x/image":              {"wrap/report"},
	"google.golang.org/protobuf":      {"onnx/...", "internal/onnx/...", "featurize/ort", "internal/oip/...", "internal/wraptest", "wrap/...", "models", "cmd/mfgs-paper/internal/onnxlayers"}, // wrap: only its tests
	"google.golang.org/grpc":          {"wrap/serve", "wrap/serve/internal/inbound", "internal/oip/..."},
	"google.golang.org/genproto":      {"wrap/serve"}, // grpc's
	// wrap/serve/internal/telemetry: only its tests.
	"gopkg.in/yaml.v3":                  {"internal/yamlcheck", "featurize/preprocess", "wrap/bundle", "wrap/internal/folder", "wrap/calibration", "wrap/internal/part", "wrap/serve/internal/telemetry"},
	"golang.org/x/sync":                 {"featurize", "wrap/serve", "wrap/serve/internal/inbound", "cmd/mfgs-paper", "cmd/mfgs-paper/internal/corrupt"},
	"golang.org/x/sys":                  {"internal/files", "cmd/mfgs", "cmd/mfgs/internal/doctor", "wrap/bundle", "wrap/serve"}, // wrap/bundle: only its tests
	"github.com/urfave/cli/v2":          {"cmd/*"},
	"github.com/schollz/progressbar/v3": {"cmd/*"},
	"golang.org/x/term":                 {"cmd/*"},
	"github.com/rogpeppe/go-internal":   {"internal/install", "cmd/*"},
	"github.com/apache/arrow-go/v18":    {"featurize/dataset/arrow", "cmd/mfgs"},
	"github.com/google/flatbuffers":     {"featurize/dataset/arrow"}, // arrow-go's, as is the next
	"github.com/klauspost/compress":     {"featurize/dataset/arrow"},

	"github.com/prometheus/client_golang":      {"wrap/serve/internal/telemetry"},
	"github.com/prometheus/client_model":       {"wrap/serve/internal/telemetry"}, // only its tests
	"go.opentelemetry.io/otel":                 {"wrap/serve/internal/telemetry"},
	"github.com/santhosh-tekuri/jsonschema/v6": {"wrap/serve"},                    // only its tests
	"go.opentelemetry.io/proto/otlp":           {"wrap/serve/internal/telemetry"}, // only its tests
}

// topLevel are the entries of the repository's root, except dot files.
var topLevel = []string{
	"go.mod", "go.sum", "onnx", "featurize", "calibrate", "wrap", "cmd", "models", "testdata",
	"internal", "README.md", "LICENSE", "NOTICE", "Makefile", "CONTRIBUTING.md", "CHANGELOG.md", "CITATION.cff", "SECURITY.md",
	"docs",
}

// notOurs are build products, which .gitignore excludes.
var notOurs = []string{"mfgs", "mfgs.exe", "dist", "*.test", "*.prof", "*.out"}

const root = "../.."

type dependency struct {
	from, file, to string
	test           bool
}

func TestImportsFollowTheTable(t *testing.T) {
	dependencies, packages := readImports(t)
	for _, known := range []string{"onnx", "featurize/ort", "featurize", "calibrate", "wrap", "models", "cmd/mfgs"} {
		if !slices.Contains(packages, known) {
			t.Errorf("package %s was not found: the test looks in the wrong place", known)
		}
	}
	for _, p := range packages {
		if _, ok := row(imports, p); !ok && !slices.Contains(ground, p) {
			t.Errorf("package %s has no row in the import table", p)
		}
	}
	seen := map[string]bool{}
	for _, a := range dependencies {
		seen[a.to] = true
		if ours, ok := strings.CutPrefix(a.to, module+"/"); ok {
			if a.test || slices.Contains(ground, ours) {
				continue
			}
			if may, _ := row(imports, a.from); !matchAny(may, ours) {
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
		t.Error("the imports that must exist were not found: the test reads no imports")
	}
}

// embedded are the third-party modules that package wrap depends on.
var embedded = []string{
	"github.com/rogpeppe/go-internal", // locks around an installation
	"github.com/yalue/onnxruntime_go",
	"golang.org/x/sync",
	"golang.org/x/sys",
	"golang.org/x/tools", // sets of integers, which gonum's minimisers import
	"gonum.org/v1/gonum",
	"google.golang.org/protobuf",
	"gopkg.in/yaml.v3",
}

// A program that embeds the library needs only these modules: only the command imports readers of heavy formats.
func TestEmbeddingTheLibraryTakesFewModules(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", module+"/wrap")
	list.Dir = root
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

// Every row and pattern matches an import that exists.
func TestEveryRowOfTheImportTableIsUsed(t *testing.T) {
	dependencies, packages := readImports(t)
	used := func(from, to string) bool {
		return slices.ContainsFunc(dependencies, func(a dependency) bool {
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

// readImports parses the imports of every Go file, for all platforms and build tags, except in folders that the go
// command ignores.
func readImports(t *testing.T) (dependencies []dependency, packages []string) {
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
			dependencies = append(dependencies, dependency{from, rel, to, strings.HasSuffix(name, "_test.go")})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return dependencies, packages
}

// row returns the value of the longest key that matches a package.
func row(table map[string][]string, pkg string) (value []string, ok bool) {
	var longest string
	for key := range table {
		if len(key) > len(longest) && matchAny([]string{key}, pkg) {
			longest = key
		}
	}
	value, ok = table[longest]
	return value, ok
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
