package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/onnx/files"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// A report is what is written in the end.
type report struct {
	sections []*section
	seeds    []int
	all      bool // of the parts
}

// A verdict is what the results say of a claim.
type verdict string

const (
	holds verdict = "holds"
	fails verdict = "does not hold"
	open  verdict = "undecided"
)

// A claim is one of the paper's, with what came out.
type claim struct {
	text     string // as in "mf0 tells notMNIST better than sampling"
	verdict  verdict
	but      string // which comparisons it does not hold of, where it holds of others
	evidence string

	comparisons int // that were made
}

// A section is one part of the report.
type section struct {
	name, title string
	seconds     float64

	text     bytes.Buffer // Markdown
	rows     []row
	pictures []picture
	claims   []claim
}

// A picture is an SVG file in the folder paper.
type picture struct {
	name string
	svg  []byte
}

// A row is a line of a table, measured on one network or several.
type row struct {
	place
	runs  []measurement // none where there is no data or no network for it
	paper *figures
	note  string // what is not as in the paper, or why there are no runs
}

// A measurement is a row of one network.
type measurement struct {
	seed any // a number, or several as in "0-4"
	answer
}

// add keeps rows, for the JSON, and returns them.
func (s *section) add(rows ...row) []row {
	s.rows = append(s.rows, rows...)
	return rows
}

// write adds a paragraph.
func (s *section) write(format string, args ...any) {
	fmt.Fprintf(&s.text, format+"\n\n", args...)
}

// Of numbers that may be absent.
type sample []float64

func (s sample) mean() float64 {
	var sum float64
	for _, v := range s {
		sum += v
	}
	return sum / float64(len(s))
}

// spread is the standard deviation over networks, 0 of a single one.
func (s sample) spread() float64 {
	if len(s) < 2 {
		return 0
	}
	m, sum := s.mean(), 0.0
	for _, v := range s {
		sum += (v - m) * (v - m)
	}
	return math.Sqrt(sum / float64(len(s)-1))
}

// A quantity takes one number from figures, nil where they have none.
type quantity func(figures) *float64

// The quantities of a table's columns.
var (
	errorOf quantity = func(f figures) *float64 { return f.Error }
	nllOf   quantity = func(f figures) *float64 { return f.NLL }
	eceOf   quantity = func(f figures) *float64 { return f.ECE }

	debiasedOf quantity = func(f figures) *float64 { return f.DebiasedCE }
	aurcOf     quantity = func(f figures) *float64 { return f.AURC }
)

// told takes a number of how well a set is told under the temperatures for that;
// with nll under those for likelihood.
func told(set string, nll bool, of func(detection) float64) quantity {
	return func(f figures) *float64 {
		sets := f.OOD
		if nll {
			sets = f.OODNLL
		}
		d, ok := sets[set]
		if !ok {
			return nil
		}
		v := of(d)
		return &v
	}
}

func accuracyOf(d detection) float64 { return d.Accuracy }
func aurocOf(d detection) float64    { return d.AUROC }
func auprInOf(d detection) float64   { return d.AUPRIn }
func auprOutOf(d detection) float64  { return d.AUPROut }

// over returns a quantity of all runs, nil where they have none of it.
func (r row) over(q quantity) sample {
	var all sample
	for _, run := range r.runs {
		if v := q(run.figures); v != nil {
			all = append(all, *v)
		}
	}
	return all
}

// mean returns the means of all figures over the runs.
func (r row) mean() figures {
	var f figures
	at := func(q quantity) *float64 {
		if all := r.over(q); len(all) > 0 {
			m := all.mean()
			return &m
		}
		return nil
	}
	f.Error, f.NLL, f.ECE = at(errorOf), at(nllOf), at(eceOf)
	f.DebiasedCE, f.AURC = at(debiasedOf), at(aurcOf)
	sets := func(nll bool, first map[string]detection) map[string]detection {
		means := map[string]detection{}
		for set := range first {
			of := func(o func(detection) float64) float64 { return r.over(told(set, nll, o)).mean() }
			means[set] = detection{of(accuracyOf), of(aurocOf), of(auprInOf), of(auprOutOf)}
		}
		return means
	}
	if len(r.runs) > 0 {
		f.OOD, f.OODNLL = sets(false, r.runs[0].OOD), sets(true, r.runs[0].OODNLL)
	}
	return f
}

// An entry is an object of paper.json: a row of one network, the mean of those of
// several, or, all of its numbers null, a row that could not be made.
type entry struct {
	Table string `json:"table"`
	Row   string `json:"row"`
	Data  string `json:"data"`
	Seed  any    `json:"seed"` // a number, several as in "0-4", or "mean"; null where there is none
	figures

	Damping *bundle.Damping `json:"damping,omitempty"`
	Paper   *figures        `json:"paper,omitempty"`
	Note    string          `json:"note,omitempty"`
}

// entries returns the rows as paper.json has them.
func (r row) entries() []entry {
	base := entry{Table: r.table, Row: r.row, Data: r.data, Paper: r.paper, Note: r.note}
	if len(r.runs) == 0 {
		return []entry{base}
	}
	var all []entry
	for _, run := range r.runs {
		e := base
		e.Seed, e.figures, e.Damping = run.seed, run.figures, run.damping
		all = append(all, e)
	}
	if len(r.runs) > 1 {
		e := base
		e.Seed, e.figures = "mean", r.mean()
		all = append(all, e)
	}
	return all
}

// json renders paper.json.
func (r *report) json() ([]byte, error) {
	all := []entry{}
	for _, s := range r.sections {
		for _, row := range s.rows {
			all = append(all, row.entries()...)
		}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(all)
	return b.Bytes(), err
}

// A table is a Markdown table.
type table struct{ b strings.Builder }

func newTable(head ...string) *table {
	t := new(table)
	t.row(head...)
	t.b.WriteString("|---" + strings.Repeat("|---:", len(head)-1) + "|\n")
	return t
}

func (t *table) row(cells ...string) {
	t.b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}

func (t *table) String() string { return t.b.String() }

// A column is a quantity with its name and how it is printed.
type column struct {
	name   string
	of     []quantity // two are printed as a : b
	scale  float64
	digits int
}

// inDomain are the columns of a labelled test set.
var inDomain = []column{
	{"error %", []quantity{errorOf}, 100, 2},
	{"NLL", []quantity{nllOf}, 1, 4},
	{"ECE %", []quantity{eceOf}, 100, 2},
}

// detecting are the columns of how well a set is told.
func detecting(set string, nll bool) []column {
	mark := ""
	if nll {
		mark = "nll "
	}
	return []column{
		{mark + "Acc.", []quantity{told(set, nll, accuracyOf)}, 100, 1},
		{mark + "ROC", []quantity{told(set, nll, aurocOf)}, 100, 1},
		{mark + "PR in : out", []quantity{told(set, nll, auprInOf), told(set, nll, auprOutOf)}, 100, 1},
	}
}

// cell prints a quantity of a row: its mean, and its spread over networks.
func (c column) cell(r row) string {
	var parts []string
	for _, q := range c.of {
		all := r.over(q)
		if len(all) == 0 {
			return "–"
		}
		text := fmt.Sprintf("%.*f", c.digits, c.scale*all.mean())
		if len(all) > 1 {
			text += fmt.Sprintf(" ± %.*f", c.digits, c.scale*all.spread())
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, " : ")
}

// printed prints a quantity as the paper does.
func (c column) printed(f figures) string {
	var parts []string
	for _, q := range c.of {
		v := q(f)
		if v == nil {
			return ""
		}
		// As many digits as the paper gives.
		parts = append(parts, fmt.Sprintf("*%g*", math.Round(*v*c.scale*1e4)/1e4))
	}
	return strings.Join(parts, " : ")
}

// render is a table of rows, each with the paper's numbers below it.
func render(rows []row, columns ...column) string {
	head := []string{""}
	for _, c := range columns {
		head = append(head, c.name)
	}
	t := newTable(head...)
	for _, r := range rows {
		cells := []string{"**" + r.row + "**"}
		for _, c := range columns {
			text := c.cell(r)
			if len(r.runs) == 0 {
				text = ""
			}
			cells = append(cells, text)
		}
		if len(r.runs) == 0 {
			cells[1] = "not made"
		}
		t.row(cells...)
		if r.paper == nil {
			continue
		}
		cells = []string{"*the paper*"}
		for _, c := range columns {
			cells = append(cells, c.printed(*r.paper))
		}
		if slices.ContainsFunc(cells[1:], func(c string) bool { return c != "" }) {
			t.row(cells...)
		}
	}
	return t.String() + notes(rows)
}

// notes lists what is to be said of rows.
func notes(rows []row) string {
	most := 0
	for _, r := range rows {
		most = max(most, len(r.runs))
	}
	var b strings.Builder
	for _, r := range rows {
		var all []string
		if r.note != "" {
			all = append(all, r.note)
		}
		if len(r.runs) == 1 && most > 1 {
			if seed, ok := r.runs[0].seed.(int); ok {
				all = append(all, fmt.Sprintf("of the network of seed %d alone", seed))
			}
		}
		if len(all) > 0 {
			fmt.Fprintf(&b, "\n- %s: %s", r.row, strings.Join(all, "; "))
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return b.String() + "\n"
}

// markdown renders paper.md.
func (r *report) markdown() []byte {
	var b bytes.Buffer
	b.WriteString("# The paper's experiments, made again\n\n")
	b.WriteString(r.summary() + "\n\n")
	b.WriteString(r.preamble() + "\n\n")
	if text := r.listClaims(); text != "" {
		b.WriteString("## What the paper says, and what came out\n\n" + text + "\n")
	}
	for _, s := range r.sections {
		fmt.Fprintf(&b, "## %s\n\n%s", s.title, s.text.String())
	}
	b.WriteString("## Making it again\n\n")
	command := "go run ./cmd/mfgs-paper --data ../shared/data"
	if !r.all {
		command += " --only " + strings.Join(r.names(), ",")
	}
	fmt.Fprintf(&b, "    %s\n\n", command)
	b.WriteString("No network is trained; the scripts that trained them stand beside them in `models`. ")
	t := newTable("part", "seconds")
	var total float64
	for _, s := range r.sections {
		t.row(s.name, fmt.Sprintf("%.0f", s.seconds))
		total += s.seconds
	}
	t.row("all", fmt.Sprintf("%.0f", total))
	fmt.Fprintf(&b, "Seconds it took, features that\nseveral parts share counted where they were first needed (%s/%s, %d processors, %s):\n\n%s",
		runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version(), t)
	return b.Bytes()
}

func (r *report) names() []string {
	var names []string
	for _, s := range r.sections {
		names = append(names, s.name)
	}
	return names
}

// write puts the report into a folder: every file whole, and paper.json last.
func (r *report) write(dir string) error {
	document, err := r.json()
	if err != nil {
		return err
	}
	type file struct {
		path string
		data []byte
	}
	var list []file
	for _, s := range r.sections {
		for _, p := range s.pictures {
			list = append(list, file{filepath.Join(dir, "paper", p.name), p.svg})
		}
	}
	list = append(list, file{filepath.Join(dir, "paper.md"), r.markdown()}, file{filepath.Join(dir, "paper.json"), document})
	for _, f := range list {
		if err := os.MkdirAll(filepath.Dir(f.path), files.FolderMode); err != nil {
			return err
		}
		if err := writeFile(f.path, f.data); err != nil {
			return err
		}
	}
	return nil
}

// writeFile writes a whole file, or none.
func writeFile(path string, data []byte) error {
	return files.Write(path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}
