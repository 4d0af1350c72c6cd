package lint

import (
	"bytes"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// module is the path of the main module.
const module = "github.com/mfgs/mfgs"

// Stable is the API that docs/install.md guarantees: everything that wrap and wrap/calibration export, and the types
// of other packages that these expose, with their fields. It maps packages to such types, or to nil for all.
var Stable = map[string][]string{
	"wrap": nil, "wrap/calibration": nil, // all

	"wrap/bundle": {
		"ChoiceInfo", "ClassFrequency", "Damping", "External", "Figures", "Head", "Validation", "Preprocessing", "PreprocessSource", "PriorEstimate", "Proof", "Reference",
		"Role", "ScoreInfo", "Settings", "Summary", "TemperatureInfo",
	},
	"calibrate": {
		"Candidate", "Choice", "Covariance", "Damping", "Method", "PriorEstimate", "Structure",
	},
	"calibrate/conformal": {"Decisions", "Plan", "Rule", "Score", "Sets"},
	"calibrate/drift":     {"Reference"},
	"calibrate/external":  {"Form"},
	"calibrate/layer":     {"Head", "Link", "Temperatures"},
	"calibrate/metrics":   {"Difference", "InDomain", "Interval", "OOD", "Recommendation", "Recommended"},
	"calibrate/rows":      {"Shard"},
	"calibrate/score":     {"Candidate", "Selection"},
	"featurize/preprocess": {
		"Arithmetic", "Color", "Crop", "Filter", "Mode", "Order", "Pad", "Position", "Resize", "Round", "Spec",
	},
	"onnx":        {"Dim", "Info", "ValueInfo"},
	"onnx/head":   {"Approximation", "Decoding", "Head", "Kind", "Options"},
	"onnx/tensor": {"Layout", "Tensor", "Type"},
}

// StablePackages type-checks the packages of [Stable] in a checkout of the main module. Those it lacks are left out.
func StablePackages(root string) (map[string]*types.Package, error) {
	args := []string{"list", "-e", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}"}
	for p := range Stable {
		args = append(args, module+"/"+p)
	}
	list := exec.Command("go", args...)
	list.Dir, list.Stderr = root, os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	export := map[string]string{}
	for line := range strings.Lines(string(bytes.TrimSpace(out))) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), "\t")
		export[path] = file
	}
	im := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(export[path])
	})
	all := map[string]*types.Package{}
	for p := range Stable {
		if export[module+"/"+p] == "" {
			if _, err := os.Stat(filepath.Join(root, p)); err == nil {
				return nil, fmt.Errorf("%s does not compile in %s", p, root)
			}
			continue
		}
		if all[p], err = im.Import(module + "/" + p); err != nil {
			return nil, err
		}
	}
	return all, nil
}
