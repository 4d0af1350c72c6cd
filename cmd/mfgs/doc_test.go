package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/install"
	"github.com/mfgs/mfgs/wrap"
	"github.com/rogpeppe/go-internal/testscript"
)

// root is the root of the repository.
const root = "../.."

var updateDocs = flag.Bool("update", false, "let TestDocumentedCommands write the figures that commands print now into the documentation")

// mustShow are documents that must have commands.
var mustShow = []string{"../../docs/faq.md", "../../docs/serving.md"}

// TestDocumentedCommands runs the commands in ```console fences of the README and docs: lines that begin with
// "$ mfgs ", "$ curl ", "$ go ", "$ cp " or "$ sed ", with continuation lines. They run in order, each document in a
// folder of its own with the repository's models and examples. A command fails if the last line shown is an error.
// A server, with & at its end, runs in the background at free addresses. The lines below a command, if any, are its
// output, with "…" for omitted lines. Words must be equal, and figures nearly: see sameFigure. Fenced files, which
// begin with a comment that is their name, are in the folder from the start: see documentedFiles. ```sh fences take
// longer: testdata/firstrun/run.sh runs them.
func TestDocumentedCommands(t *testing.T) {
	t.Parallel()
	lib, err := install.Find(install.Config{})
	if err != nil {
		t.Fatal(err)
	}
	files := []string{"../../README.md"}
	for _, pattern := range []string{"../../docs/*.md", "../../docs/tutorials/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatal(pattern, err)
		}
		files = append(files, found...)
	}
	readers := newReadersModule(t)
	tree, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range mustShow {
		if !slices.Contains(files, file) {
			t.Errorf("there is no %s", file)
		}
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(text), "\n")
		commands, err := documentedCommands(lines)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if len(commands) == 0 {
			if slices.Contains(mustShow, file) || strings.Contains(file, "/tutorials/") && !slices.Contains(lines, "```sh") {
				t.Errorf("%s: no command found", file)
			}
			continue
		}
		var script strings.Builder
		web, rpc := freeAddress(t), freeAddress(t)
		for i, c := range commands {
			command := strings.ReplaceAll(strings.ReplaceAll(c.command, "'", "''"), "127.0.0.1:8000", web)
			if server, ok := strings.CutSuffix(command, " &"); ok {
				fmt.Fprintf(&script, "exec sh -c 'exec %s --http %s --grpc %s' &\n", server, web, rpc)
				continue
			}
			fails := ""
			if c.fails(lines) {
				fails = "! "
			}
			fmt.Fprintf(&script, "%sexec sh -e -c '%s'\nshows %d\n", fails, command, i)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".md")
		path := filepath.Join(t.TempDir(), name+".txtar")
		if err := os.WriteFile(path, []byte(script.String()), 0o666); err != nil {
			t.Fatal(err)
		}
		if *updateDocs {
			// The scripts run in parallel, after this function.
			t.Cleanup(func() {
				if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o666); err != nil {
					t.Error(err)
				}
			})
		}
		testscript.Run(t, testscript.Params{
			Files: []string{path},
			Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
				// shows I: what the last command printed is what the document shows for its command I.
				"shows": func(ts *testscript.TestScript, neg bool, args []string) {
					i, err := strconv.Atoi(args[0])
					ts.Check(err)
					printed := printedLines(ts.ReadFile("stderr"), ts.ReadFile("stdout"))
					if *updateDocs {
						ts.Check(commands[i].update(lines, printed))
						return
					}
					if err := commands[i].compare(lines, printed); err != nil {
						ts.Fatalf("%s: %v", file, err)
					}
				},
			},
			Setup: func(env *testscript.Env) error {
				env.Setenv(install.EnvLibrary, lib.Path)
				env.Setenv(install.EnvNoInstall, "1")
				if err := os.Mkdir(filepath.Join(env.WorkDir, "testdata"), 0o777); err != nil {
					return err
				}
				for _, dir := range []string{"docs", "models", "testdata/examples", "testdata/onnx"} {
					if err := os.Symlink(filepath.Join(tree, dir), filepath.Join(env.WorkDir, dir)); err != nil {
						return err
					}
				}
				written := documentedFiles(lines)
				for name, text := range written {
					if err := os.WriteFile(filepath.Join(env.WorkDir, name), []byte(text), 0o666); err != nil {
						return err
					}
				}
				if _, program := written["main.go"]; program {
					return readers.setup(env)
				}
				return nil
			},
		})
	}
}

// freeAddress returns a local address that is not in use, below the ports that systems give to connections, so that no
// other test gets it meanwhile.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10000+rand.IntN(20000)))
		if err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal("no free port between 10000 and 30000")
	return ""
}

// A documentedCommand is a command and the lines of its output in the document: from…to-1, without trailing blank
// lines. If from == to, the document shows no output.
type documentedCommand struct {
	command  string
	from, to int
}

// errorLine matches an error of mfgs, and the hint after one of usage.
var errorLine = regexp.MustCompile("^(mfgs( [a-z]+)?: |run `mfgs )")

// fails reports whether the document shows that the command fails: the last line is an error.
func (c documentedCommand) fails(lines []string) bool {
	last := lines[max(c.from, c.to)-1]
	return c.to > c.from && errorLine.MatchString(last) && !strings.HasPrefix(last, "mfgs: warning: ")
}

func documentedCommands(lines []string) ([]documentedCommand, error) {
	var commands []documentedCommand
	fenced, continued := false, false
	ours := false // what is printed here is printed by the last command
	for i, line := range lines {
		line = strings.TrimRight(line, "\r")
		if fence := strings.TrimSpace(line); strings.HasPrefix(fence, "```") {
			if continued {
				return nil, fmt.Errorf("line %d: the command is not at its end", i)
			}
			fenced, ours = fence == "```console", false
			continue
		}
		if !fenced {
			continue
		}
		command, prompt := strings.CutPrefix(line, "$ ")
		switch {
		case continued:
			last := &commands[len(commands)-1]
			last.command = strings.TrimSuffix(last.command, `\`) + strings.TrimSpace(line)
			last.from, last.to = i+1, i+1
		case prompt:
			program, _, _ := strings.Cut(command, " ")
			ours = slices.Contains([]string{"mfgs", "curl", "go", "cp", "sed"}, program)
			if ours {
				commands = append(commands, documentedCommand{command, i + 1, i + 1})
			}
		case ours && line != "":
			commands[len(commands)-1].to = i + 1
		}
		continued = (continued || prompt && ours) && strings.HasSuffix(line, `\`)
	}
	return commands, nil
}

// fileName matches the first line of a fenced file.
var fileName = regexp.MustCompile(`^(?://|#) ([a-z0-9_]+\.[a-z]+)$`)

// documentedFiles returns the fenced files of a document, whose first line is a comment with their name.
func documentedFiles(lines []string) map[string]string {
	files := map[string]string{}
	fenced, name := false, ""
	for i, line := range lines {
		if strings.HasPrefix(line, "```") {
			fenced, name = !fenced, ""
			if first := fileName.FindStringSubmatch(lines[min(i+1, len(lines)-1)]); fenced && first != nil {
				name = first[1]
			}
		} else if fenced && name != "" {
			files[name] += line + "\n"
		}
	}
	return files
}

// A readersModule is a Go module as a reader makes it by go mod init and go get: its go.mod requires this tree.
type readersModule struct {
	mod, sum []byte
	env      map[string]string
}

func newReadersModule(t *testing.T) *readersModule {
	t.Helper()
	out, err := exec.Command("go", "env", "-json", "GOMODCACHE", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	m := new(readersModule)
	if err := json.Unmarshal(out, &m.env); err != nil {
		t.Fatal(err)
	}
	if m.mod, err = os.ReadFile("../../go.mod"); err != nil {
		t.Fatal(err)
	}
	if m.sum, err = os.ReadFile("../../go.sum"); err != nil {
		t.Fatal(err)
	}
	here, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	ours := "module github.com/mfgs/mfgs\n"
	if !strings.HasPrefix(string(m.mod), ours) {
		t.Fatalf("go.mod does not begin with %q", ours)
	}
	m.mod = fmt.Appendf(nil, "module example\n%s\nrequire github.com/mfgs/mfgs v0.0.0\nreplace github.com/mfgs/mfgs => %q\n",
		m.mod[len(ours):], filepath.ToSlash(here))
	return m
}

// setup makes the folder of a script such a module.
func (m *readersModule) setup(env *testscript.Env) error {
	for name, value := range m.env {
		env.Setenv(name, value)
	}
	env.Setenv("GOFLAGS", "-mod=mod")
	return errors.Join(os.WriteFile(filepath.Join(env.WorkDir, "go.mod"), m.mod, 0o666),
		os.WriteFile(filepath.Join(env.WorkDir, "go.sum"), m.sum, 0o666))
}

// printedLines returns the output of a command, warnings first, without progress, which only slow runs print.
func printedLines(stderr, stdout string) []string {
	return slices.DeleteFunc(strings.Split(stderr+stdout, "\n"), isProgress)
}

const leftOut = "…"

// each calls then with each line of the document and the printed line that it shows. Consecutive lines must be
// consecutive in both.
func (c documentedCommand) each(lines, printed []string, then func(line int, printed string) error) error {
	at, skip := 0, false
	for i := c.from; i < c.to; i++ {
		if lines[i] == leftOut {
			skip = true
			continue
		}
		want := words(lines[i])
		found := at
		for skip && found < len(printed) && !slices.Equal(words(printed[found]), want) {
			found++
		}
		if found == len(printed) || !slices.Equal(words(printed[found]), want) {
			return fmt.Errorf("line %d is not printed by %s there:\n%s\nprinted:\n%s", i+1, c.command, lines[i], strings.Join(printed[at:], "\n"))
		}
		if err := then(i, printed[found]); err != nil {
			return err
		}
		at, skip = found+1, false
	}
	return nil
}

// compare returns an error if the document differs from the output.
func (c documentedCommand) compare(lines, printed []string) error {
	return c.each(lines, printed, func(i int, got string) error {
		shown, now := strings.Fields(lines[i]), strings.Fields(got)
		for k := range shown {
			if !sameFigure(now[k], shown[k]) {
				return fmt.Errorf("line %d shows %s for\n%s\n(go test ./cmd/mfgs -run TestDocumentedCommands -update writes the figures of now)", i+1, shown[k], got)
			}
		}
		return nil
	})
}

// update replaces the shown lines by the printed ones.
func (c documentedCommand) update(lines, printed []string) error {
	return c.each(lines, printed, func(i int, got string) error {
		lines[i] = got
		return nil
	})
}

// figure matches a number in the output, with punctuation.
var figure = regexp.MustCompile(`^([([]?|[*†]*[±≤≥])(-?[0-9][0-9,]*(?:\.[0-9]+)?(?:e[-+][0-9]+)?)(%?[],:;)]*)$`)

// words returns the words of a line, with # for each figure.
func words(line string) []string {
	words := strings.Fields(line)
	for i, w := range words {
		words[i] = figure.ReplaceAllString(w, "$1#$3")
	}
	return words
}

// sameFigure reports whether two words are equal, or figures that differ by no more than rounding on another processor
// explains: whole numbers not at all, percentages by one point, others by 5 % and one unit in the last place. The
// bounds are wide since rounding may change one or two predictions of a few hundred, and the tuned temperatures.
func sameFigure(got, shown string) bool {
	if got == shown {
		return true
	}
	g, s := figure.FindStringSubmatch(got), figure.FindStringSubmatch(shown)
	if g == nil || s == nil || g[1] != s[1] || g[3] != s[3] || !strings.Contains(s[2], ".") {
		return false
	}
	a, errA := strconv.ParseFloat(strings.ReplaceAll(g[2], ",", ""), 64)
	b, errB := strconv.ParseFloat(strings.ReplaceAll(s[2], ",", ""), 64)
	if errA != nil || errB != nil {
		return false
	}
	const rounding = 1 + 1e-9 // of these very numbers
	if strings.HasPrefix(s[3], "%") {
		return approx.Equal(a, b, 1*rounding)
	}
	mantissa, power, _ := strings.Cut(s[2], "e")
	_, decimals, _ := strings.Cut(mantissa, ".")
	exponent, _ := strconv.Atoi(power) // 0 where there is none
	lastPlace := math.Pow10(exponent - len(decimals))
	return approx.Equal(a, b, (0.05*math.Abs(b)+lastPlace)*rounding)
}

func TestCommandsAreFoundInDocumentation(t *testing.T) {
	t.Parallel()
	text := "$ mfgs a\n```console\n$ mfgs b 'x y' \\\n    --flag\noutput\n\nmfgs more\n\n$ make c\nmfgs d\n$ mfgs e\n$ curl f\n```\n```go\n$ mfgs f\n```\n"
	lines := strings.Split(text, "\n")
	commands, err := documentedCommands(lines)
	if err != nil {
		t.Fatal(err)
	}
	var got [][]string
	for _, c := range commands {
		got = append(got, append([]string{c.command}, lines[c.from:c.to]...))
	}
	want := [][]string{{"mfgs b 'x y' --flag", "output", "", "mfgs more"}, {"mfgs e"}, {"curl f"}}
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		t.Errorf("%q, want %q", got, want)
	}
	if _, err := documentedCommands([]string{"```console", `$ mfgs a \`, "```"}); err == nil {
		t.Error("a command that goes on behind the fence is taken")
	}
}

func TestDocumentedOutputIsCompared(t *testing.T) {
	t.Parallel()
	printed := []string{"head  Gemm, 64 features", "time  0.3 s", "", "mle   2.81%  0.1592", "mf0   2.81%  0.1008", ""}
	for _, test := range []struct {
		shown string
		same  bool
	}{
		{"", true},
		{"head Gemm, 64 features", true},
		{"head  Gemm, 64 features\n…\n\nmle   2.81%  0.1592\nmf0   2.81%  0.1008", true},
		{"…\nmf0  3.5%  0.1047\n…", true},
		{"…\nmf0  3.9%  0.1008", false},
		{"…\nmf0  2.81%  0.1070", false},
		{"…\nts  2.81%  0.1008", false},
		{"head  Gemm, 65 features", false},
		{"head  Gemm, 64 features\nmle   2.81%  0.1592", false}, // lines are left out
		{"mle   2.81%  0.1592", false},
		{"…\nmf0   2.81%  0.1008\nmle   2.81%  0.1592", false},
		{"…\nmf0   2.81%  0.1008\n\nmore", false},
	} {
		lines := strings.Split(test.shown, "\n")
		if test.shown == "" {
			lines = nil
		}
		c := documentedCommand{"mfgs x", 0, len(lines)}
		if err := c.compare(lines, printed); (err == nil) != test.same {
			t.Errorf("%q: %v", test.shown, err)
		}
	}

	lines := []string{"$ mfgs x", "head Gemm, 63 features", "…", "mf0 9% 1.0"}
	if err := (documentedCommand{"mfgs x", 1, 4}).update(lines, printed); err != nil {
		t.Fatal(err)
	}
	if want := []string{"$ mfgs x", printed[0], "…", printed[4]}; !slices.Equal(lines, want) {
		t.Errorf("updated to %q, want %q", lines, want)
	}
}

func TestProgressOfASlowRunIsNotCompared(t *testing.T) {
	t.Parallel()
	clock := time.Unix(0, 0)
	var stderr strings.Builder
	stderr.WriteString("mfgs: warning: few examples\n")
	p := newProgress(&stderr, true, func() time.Time { return clock })
	for done := range 5 {
		p.work(wrap.Progress{Stage: "tuning", Unit: "candidates", Done: done, Total: 5})
		clock = clock.Add(time.Minute)
	}
	p.work(wrap.Progress{Stage: "predicting", Unit: "examples", Done: 12})
	if n := strings.Count(stderr.String(), "\n"); n < 5 {
		t.Fatalf("a run of five minutes printed %d lines:\n%s", n, &stderr)
	}
	lines := []string{"mfgs: warning: few examples", "bundle  digits.mfgs"}
	c := documentedCommand{"mfgs x", 0, len(lines)}
	if err := c.compare(lines, printedLines(stderr.String(), "bundle  digits.mfgs\n")); err != nil {
		t.Error(err)
	}
}

func TestSameFigure(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		got, shown string
		same       bool
	}{
		{"mf0", "mf0", true},
		{"mf0", "mf1", false},
		{"300", "301", false},
		{"1,200", "1,200", true},
		{"1.63%", "2.60%", true},
		{"1.63%", "2.64%", false},
		{"1.63%", "1.63", false},
		{"0.1000", "0.1050", true},
		{"0.1000", "0.1060", false},
		{"0.001", "0.002", true}, // the last place
		{"0.001", "0.003", false},
		{"1.58e+08", "1.63e+08", true},
		{"1.50e+08", "1.63e+08", false},
		{"1.63e+07", "1.63e+08", false},
		{"0.3,", "0.3;", false},
		{"-0.3", "0.3", false},
		{"[-0.0040,", "[-0.0041,", true},
		{"0.0109],", "0.0209],", false},
		{"*±0.10%", "*±0.30%", true},
		{"*±0.10%", "±0.10%", false},
		{"±0.10%", "≤0.10%", false},
	} {
		if got := sameFigure(test.got, test.shown); got != test.same {
			t.Errorf("%s for %s: %v", test.got, test.shown, got)
		}
	}
}

// argument matches an argument of mfgs serve in a manifest.
var argument = regexp.MustCompile(`(?m)^\s+- (--[a-z-]+)=`)

func TestManifestsHaveFlagsOfServe(t *testing.T) {
	t.Parallel()
	_, help, _ := invoke(t.Context(), "serve", "--help")
	for _, name := range []string{"serve.yaml", "kserve.yaml"} {
		text, err := os.ReadFile("../../docs/kubernetes/" + name)
		if err != nil {
			t.Fatal(err)
		}
		flags := argument.FindAllStringSubmatch(string(text), -1)
		if len(flags) < 5 {
			t.Errorf("%s: %d flags found, want at least 5", name, len(flags))
		}
		for _, flag := range flags {
			if !strings.Contains(help, "  "+flag[1]+" ") {
				t.Errorf("%s: mfgs serve has no %s", name, flag[1])
			}
		}
	}
}

// sureOf matches a sentence of two tutorials, without its line breaks.
var sureOf = regexp.MustCompile(`Before calibration, (\d+) of the (\d+) test \w+ have a confidence above 99 %, and (\d+) of these are wrong. After calibration it is (\d+), and (\d+) of these (?:is|are) wrong`)

func TestExamplesAreAsConfidentAsDocumented(t *testing.T) {
	t.Parallel()
	const digits, texts = "../../models/digits-mlp/digits-images-idx3-ubyte.gz", "../../testdata/examples/distilbert/"
	for _, example := range []struct {
		page, model, test string
		calibrate         []string
	}{
		{"vendor", "keras", digits + "[1400:]", []string{"--train", digits + "[400:900]", "--val", digits + "[900:1400]", "--target-error", ".05"}},
		{"text", "distilbert", texts + "test.jsonl", []string{"--train", texts + "train.jsonl", "--val", texts + "val.jsonl",
			"--ood", texts + "foreign-val.jsonl", "--target-error", ".05"}},
	} {
		text, err := os.ReadFile("../../docs/tutorials/" + example.page + ".md")
		if err != nil {
			t.Fatal(err)
		}
		said := sureOf.FindStringSubmatch(strings.Join(strings.Fields(string(text)), " "))
		if said == nil {
			t.Fatalf("the sentence of %s is not there", example.page)
		}
		bundle := filepath.Join(t.TempDir(), "bundle")
		model := "../../testdata/examples/" + example.model + "/model.onnx"
		args := append([]string{"calibrate", "--model", model, "--out", bundle, "--false-alarm", ".05"}, example.calibrate...)
		if code, _, stderr := invoke(t.Context(), args...); code != 0 {
			t.Fatal(stderr)
		}
		code, stdout, stderr := invoke(t.Context(), "predict", "--bundle", bundle, "--json", example.test)
		if code != 0 {
			t.Fatal(stderr)
		}
		var report struct {
			Predictions []struct {
				Label      *int      `json:"label"`
				Class      int       `json:"class"`
				Confidence float64   `json:"confidence"`
				Logits     []float64 `json:"logits"`
			} `json:"predictions"`
		}
		if err := json.Unmarshal([]byte(stdout), &report); err != nil {
			t.Fatal(err)
		}
		var before, wrongBefore, after, wrongAfter int
		for _, p := range report.Predictions {
			class, largest := 0, math.Inf(-1)
			for k, a := range p.Logits {
				if a > largest {
					class, largest = k, a
				}
			}
			sum := 0.0
			for _, a := range p.Logits {
				sum += math.Exp(a - largest)
			}
			if 1/sum > 0.99 {
				before++
				if class != *p.Label {
					wrongBefore++
				}
			}
			if p.Confidence > 0.99 {
				after++
				if p.Class != *p.Label {
					wrongAfter++
				}
			}
		}
		// The slack is for rounding on other processors.
		for k, want := range []struct{ count, slack int }{
			{before, 10}, {len(report.Predictions), 0}, {wrongBefore, 2}, {after, 30}, {wrongAfter, 2},
		} {
			if n, err := strconv.Atoi(said[k+1]); err != nil || n < want.count-want.slack || n > want.count+
				want.slack {
				t.Errorf("%s: %q, but number %d is %d", example.page, said[0], k+1, want.count)
			}
		}
	}
}
