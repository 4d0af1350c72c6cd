// Package doctor diagnoses the installation and names the command that fixes each problem. It installs nothing, and
// writes only one file into the cache folder, which it removes.
package doctor

import (
	"context"
	"fmt"
	"os"
	"runtime"

	"github.com/mfgs/mfgs/featurize/ort"
	"github.com/mfgs/mfgs/internal/text"
	"github.com/mfgs/mfgs/wrap"
)

// A Status is the result of a check.
type Status string

// From good to bad. Fail means that commands will fail.
const (
	OK   Status = "ok"
	Warn Status = "warn"
	Fail Status = "fail"
)

// A Check is one thing that was checked. Its texts are single printable lines.
type Check struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	Found  string `json:"found"`
	Fix    string `json:"fix"` // a command, with words in capitals to be replaced; "" if the status is OK
}

// Config says what to check besides the machine.
type Config struct {
	Library  string // path of ONNX Runtime's library; "" to find it
	Provider string // one of ort.Providers that must work; "" is the CPU
	Bundle   string // folder of a bundle to open and probe, "" for none
	Model    string // model file of a bundle without one
}

// Examine runs all checks. ONNX Runtime stays loaded.
func Examine(ctx context.Context, c Config) []Check {
	if c.Provider == "" {
		c.Provider = ort.CPU
	}
	program := fmt.Sprintf("%s, built by %s for %s/%s", wrap.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	library := c.library(ctx)
	checks := []Check{
		{"mfgs", OK, program, ""},
		library,
		c.providers(ctx),
		cache(library.Status == Fail),
		memory(os.DirFS("/")),
		{"CPUs", OK, fmt.Sprintf("%d used, of %d that this process may run on", runtime.GOMAXPROCS(0), runtime.NumCPU()), ""},
	}
	if c.Bundle != "" {
		checks = append(checks, c.bundle(ctx))
	}
	for i := range checks {
		checks[i].Found, checks[i].Fix = text.Line(checks[i].Found), text.Line(checks[i].Fix)
	}
	return checks
}

// Failed returns an error if any check failed.
func Failed(checks []Check) error {
	n := 0
	for _, c := range checks {
		if c.Status == Fail {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d checks failed: run their fixes", n, len(checks))
}

// bytes writes an amount of memory or disk space.
func bytes(n uint64) string {
	if n < 1<<30 {
		return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}
