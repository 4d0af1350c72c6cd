// Mfgs-paper holds the experiments around mfgs. The command report reproduces the tables and figures of the paper: Lu,
// Ie and Sha, "Mean-Field Approximation to Gaussian-Softmax Integral with Application to Uncertainty
// Estimation". The command compare (comparebundle.go) measures the paper's methods on a user's own bundle.
//
//  1. A lab (lab.go) calibrates networks and evaluates methods (trial.go).
//  2. Each part of the report has a file with a function that measures and one that writes.
//  3. Claims (claims.go) are judged by comparing rows (compare.go).
//  4. The results are written as paper.json (document.go), from which Markdown and SVG are rendered.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mfgs/mfgs/internal/files"
	"github.com/mfgs/mfgs/internal/option"
	"github.com/mfgs/mfgs/internal/text"
	"github.com/mfgs/mfgs/wrap"
)

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// Messages of libraries name options; those of this command name its flags.
func init() { option.Spell = func(n option.Name) string { return "--" + n.Kebab() } }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal cancels the run; a second one kills it.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

const usage = `usage: mfgs-paper COMMAND [flags]

  compare  evaluate the methods of the paper on a bundle: ensembles, sampling, several layers and others
  report   reproduce the tables and figures of the paper

mfgs-paper COMMAND --help lists the flags of a command.
`

// run runs the command and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	err := runCommand(ctx, args, stdout, stderr)
	var wrong *usageError
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return exitDone
	case errors.As(err, &wrong):
		fmt.Fprintf(stderr, "mfgs-paper: %s\nRun mfgs-paper --help for usage.\n", wrong)
		return exitUsage
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "mfgs-paper: interrupted")
	default:
		fmt.Fprintln(stderr, "mfgs-paper:", text.Line(err.Error()))
	}
	return exitFailed
}

func runCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		return &usageError{"no command: want compare or report"}
	}
	switch name, args := args[0], args[1:]; name {
	case "compare":
		return compareBundle(ctx, args, stdout, stderr)
	case "report":
		o, err := parse(args, stdout)
		if err != nil {
			return err
		}
		return reproduce(ctx, o, stderr)
	case "help", "-h", "-help", "--help":
		fmt.Fprint(stdout, usage)
		return nil
	default:
		return &usageError{fmt.Sprintf("unknown command %q: want compare or report", name)}
	}
}

// options are the parsed flags of report.
type options struct {
	data, models, out, scratch string

	parts []part
	seeds []int
}

func parse(args []string, stdout io.Writer) (options, error) {
	var o options
	var only, seeds string
	f := flag.NewFlagSet("mfgs-paper report", flag.ContinueOnError)
	f.StringVar(&o.data, "data", "", "`DIR` with mnist, notmnist, cifar10, tinyimagenet32, imagenet and models (required)")
	f.StringVar(&o.models, "models", "../../models", "`DIR` with the trained networks of the repository, next to its testdata")
	f.StringVar(&only, "only", "", "run only these `PARTS`, separated by commas: "+strings.Join(partNames(), ",")+" (default all)")
	f.StringVar(&o.out, "out", "../../docs", "write paper.md, paper.json and the folder paper to `DIR`")
	f.StringVar(&seeds, "seeds", "0,1,2,3,4,5,6,7,8,9", "`SEEDS` of the MNIST networks, separated by commas")
	f.StringVar(&o.scratch, "scratch", "", "keep features, bundles and finished parts in `DIR`, to resume an interrupted run (default a temporary folder)")
	if err := parseFlags(f, args, stdout, "--data DIR"); err != nil {
		return o, err
	}
	if o.data == "" {
		return o, &usageError{"--data is required: the folder with the data sets"}
	}
	var err error
	if o.parts, err = parseParts(only); err != nil {
		return o, &usageError{"--only: " + err.Error()}
	}
	if o.seeds, err = parseSeeds(seeds); err != nil {
		return o, &usageError{"--seeds: " + err.Error()}
	}
	return o, nil
}

// parseParts returns the named parts in report order, or all for "".
func parseParts(list string) ([]part, error) {
	if list == "" {
		return parts, nil
	}
	names := strings.Split(list, ",")
	for i, name := range names {
		if !slices.Contains(partNames(), name) {
			return nil, fmt.Errorf("unknown part %q: want some of %s", name, strings.Join(partNames(), ", "))
		}
		if slices.Contains(names[:i], name) {
			return nil, fmt.Errorf("%q is listed twice", name)
		}
	}
	return slices.DeleteFunc(slices.Clone(parts), func(p part) bool { return !slices.Contains(names, p.name) }), nil
}

func parseSeeds(list string) ([]int, error) {
	var seeds []int
	for s := range strings.SplitSeq(list, ",") {
		seed, err := strconv.Atoi(s)
		if err != nil || seed < 0 {
			return nil, fmt.Errorf("seed %q: want whole numbers from 0, separated by commas", s)
		}
		if slices.Contains(seeds, seed) {
			return nil, fmt.Errorf("%d is listed twice", seed)
		}
		seeds = append(seeds, seed)
	}
	return seeds, nil
}

// parts are all parts, in report order.
var parts = []part{
	{"table1", "Table 1: the mean-field approximation against sampling", measureTable1, writeTable1},
	{"short", "Table 1 on networks that do not interpolate", measureShort, writeShort},
	{"damping", "Covariances at equal damping (not in the paper)", measureDamping, writeDamping},
	{"table2", "Table 2: one, two and three layers", measureTable2, writeTable2},
	{"table4", "Table 4: other methods on MNIST and notMNIST", measureTable4, writeTable4},
	{"duplicates", "Table 4 without duplicates", measureDuplicates, writeDuplicates},
	{"ukf", "The unscented Kalman filter", measureUKF, writeUKF},
	{"table3", "Table 3: larger networks", measureTable3, writeTable3},
	{"cifar10", "CIFAR-10", measureCIFAR10, writeCIFAR10},
	{"cifar100", "CIFAR-100 and SVHN", measureCIFAR100, writeCIFAR100},
	{"heatmap", "Figures (a) and (b): the two temperatures", measureHeatMaps, writeHeatMaps},
	{"rotation", "Figure (c): calibration under rotation", measureRotation, writeRotation},
	{"shift", shiftTitle, measureShift, writeShift},
	{"confidence", confidenceTitle, measureConfidence, writeConfidence},
	{"scores", scoresTitle, measureScores, writeScores},
}

func partNames() []string {
	names := make([]string, len(parts))
	for i, p := range parts {
		names[i] = p.name
	}
	return names
}

// reproduce measures the parts and writes the report.
func reproduce(ctx context.Context, o options, stderr io.Writer) (err error) {
	if s, err := os.Stat(o.data); err != nil || !s.IsDir() {
		return fmt.Errorf("--data %s: no such folder", o.data)
	}
	if err := os.MkdirAll(o.out, files.FolderMode); err != nil { // fail now rather than after half an hour
		return fmt.Errorf("--out: %w", err)
	}
	scratch := o.scratch
	if scratch == "" {
		if scratch, err = os.MkdirTemp("", "mfgs-paper-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	} else if err := os.MkdirAll(scratch, files.FolderMode); err != nil {
		return err
	}
	l := newLab(o.data, o.models, scratch, o.seeds, stderr)
	if l.fingerprint, err = fingerprint([]string{l.data, l.models, l.examples}, l.seeds); err != nil {
		return err
	}
	r, err := l.make(ctx, o.parts)
	if err != nil {
		return err
	}
	return r.write(o.out)
}

// make measures parts of the report, or loads them from an earlier run.
func (l *lab) make(ctx context.Context, chosen []part) (*report, error) {
	r := &report{
		code: wrap.Version(), seeds: l.seeds, all: len(chosen) == len(parts),
		machine: fmt.Sprintf("%s/%s, %d processors, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version()),
	}
	for _, p := range chosen {
		s, err := l.part(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		r.sections = append(r.sections, s)
	}
	r.judge()
	r.render()
	return r, nil
}

// part measures a part, or loads it.
func (l *lab) part(ctx context.Context, p part) (*section, error) {
	l.making, l.began = p.name, time.Now()
	s, err := l.kept(p.name)
	if err != nil {
		return nil, err
	}
	if s != nil {
		s.part = p
		l.say("already done")
		return s, nil
	}
	s = &section{Name: p.name, part: p}
	if err := p.measure(ctx, l, s); err != nil {
		return nil, err
	}
	s.Seconds = time.Since(l.began).Seconds()
	l.say("done")
	return s, l.keep(s)
}
