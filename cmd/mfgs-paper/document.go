package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/images"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// paper.json is a list of objects, each with a table and a row: one for the report's origin, one per part, one
// per claim, then the rows of the report's tables. paper.md is rendered from it, except for the heat maps.

// The "table" of objects that are not rows.
const (
	reportTable = "report"
	partsTable  = "parts"
	claimsTable = "claims"
)

// An origin records how the report was produced.
type origin struct {
	Table   string `json:"table"`
	Row     string `json:"row"`
	Code    string `json:"code"` // as printed by mfgs version
	Machine string `json:"machine"`
	Seeds   []int  `json:"seeds"` // of the default networks on MNIST
}

// A made is a part of the report, as in paper.json.
type made struct {
	Table   string             `json:"table"`
	Name    string             `json:"row"`
	Seconds float64            `json:"seconds"`
	Facts   map[string]float64 `json:"facts,omitempty"`
}

// A judged is a claim with its verdict, as in paper.json.
type judged struct {
	Table string `json:"table"`
	claim
}

// An entry is a row for one network and draw, or the mean over several. All figures of a row that was not measured
// are null.
type entry struct {
	Part  string `json:"part"`
	Table string `json:"table"`
	Row   string `json:"row"`
	Data  string `json:"data"`
	Kind  string `json:"kind,omitempty"` // of networks; "" for the default
	Seed  any    `json:"seed"`           // a number, several as in "0,1,2", "mean", or null
	Draw  int    `json:"draw,omitempty"`
	figures

	Damping *bundle.Damping `json:"damping,omitempty"`
	Paper   *figures        `json:"paper,omitempty"`
	Note    string          `json:"note,omitempty"`
}

// entries converts a row to entries.
func (r row) entries(part string) []*entry {
	base := entry{Part: part, Table: r.table, Row: r.row, Data: r.data, Paper: r.Paper, Note: r.Note}
	if len(r.Runs) == 0 {
		return []*entry{&base}
	}
	var all []*entry
	for _, run := range r.Runs {
		e := base
		e.Kind, e.Seed, e.Draw, e.figures, e.Damping = run.Kind, run.Seed, run.Draw, run.figures, run.Damping
		all = append(all, &e)
	}
	if len(r.Runs) > 1 {
		e := base
		e.Seed, e.figures = "mean", r.mean()
		all = append(all, &e)
	}
	return all
}

// json renders paper.json, one object per line.
func (r *report) json() ([]byte, error) {
	all := []any{origin{reportTable, "made by", r.code, r.machine, r.seeds}}
	for _, s := range r.sections {
		all = append(all, made{partsTable, s.Name, s.Seconds, s.Facts})
	}
	for _, c := range r.claims {
		all = append(all, judged{claimsTable, c})
	}
	for _, s := range r.sections {
		for _, row := range s.Rows {
			for _, e := range row.entries(s.Name) {
				all = append(all, e)
			}
		}
	}
	lines := make([][]byte, len(all))
	for i, v := range all {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(v); err != nil {
			return nil, err
		}
		lines[i] = bytes.TrimRight(b.Bytes(), "\n")
	}
	return slices.Concat([]byte("[\n"), bytes.Join(lines, []byte(",\n")), []byte("\n]\n")), nil
}

// restore sets the fields of a claim that paper.json does not hold, from the same claim in all.
func (c *claim) restore(all []claim) error {
	at := slices.IndexFunc(all, func(q claim) bool { return q.Text == c.Text && q.Source == c.Source })
	if at < 0 {
		return fmt.Errorf("unknown claim %q", c.Text)
	}
	c.assertion, c.contrasts = all[at].assertion, all[at].contrasts
	for i := range c.Comparisons {
		of := &c.Comparisons[i]
		k := slices.IndexFunc(c.contrasts, func(q contrast) bool {
			return q.table == of.Table && q.data == of.Data && q.a == of.A && q.b == of.B && q.q.key == of.Quantity
		})
		if k < 0 {
			return fmt.Errorf("%q has no comparison of %s and %s", c.Text, of.A, of.B)
		}
		of.quantity = c.contrasts[k].q
	}
	return nil
}

// readReport parses a paper.json. The report lacks resamples and measured pictures.
func readReport(data []byte, parts []part) (*report, error) {
	var lines []json.RawMessage
	if err := json.Unmarshal(data, &lines); err != nil {
		return nil, err
	}
	r := &report{}
	known := slices.Concat(paperClaims(), ownClaims())
	for _, line := range lines {
		var e entry
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, err
		}
		var err error
		switch e.Table {
		case reportTable:
			var o origin
			err = json.Unmarshal(line, &o)
			r.code, r.machine, r.seeds = o.Code, o.Machine, o.Seeds
		case partsTable:
			var m made
			err = json.Unmarshal(line, &m)
			at := slices.IndexFunc(parts, func(of part) bool { return of.name == m.Name })
			if at < 0 {
				return nil, fmt.Errorf("unknown part %q", m.Name)
			}
			r.sections = append(r.sections, &section{Name: m.Name, Seconds: m.Seconds, Facts: m.Facts, part: parts[at]})
		case claimsTable:
			var j judged
			if err = json.Unmarshal(line, &j); err == nil {
				err = j.restore(known)
			}
			r.claims = append(r.claims, j.claim)
		default:
			err = r.readRow(&e)
		}
		if err != nil {
			return nil, err
		}
	}
	r.all = len(r.sections) == len(parts)
	return r, nil
}

// readRow adds a row, or a run of the last row, to its part.
func (r *report) readRow(e *entry) error {
	i := slices.IndexFunc(r.sections, func(s *section) bool { return s.Name == e.Part })
	if i < 0 {
		return fmt.Errorf("table %s, %s: unknown part %q", e.Table, e.Row, e.Part)
	}
	s, at := r.sections[i], place{e.Table, e.Data, e.Row}
	if n := len(s.Rows); n == 0 || s.Rows[n-1].place != at {
		s.add(row{place: at, Paper: e.Paper, Note: e.Note})
	}
	if e.Seed == nil || e.Seed == "mean" {
		return nil
	}
	m := measurement{Seed: e.Seed, Kind: e.Kind, Draw: e.Draw}
	m.figures, m.Damping = e.figures, e.Damping
	if v, ok := e.Seed.(float64); ok {
		m.Seed, m.Networks = int(v), []int{int(v)}
	} else {
		for text := range strings.SplitSeq(fmt.Sprint(e.Seed), ",") {
			n, err := strconv.Atoi(text)
			if err != nil {
				return fmt.Errorf("%v: the seed %v: %w", at, e.Seed, err)
			}
			m.Networks = append(m.Networks, n)
		}
	}
	of := &s.Rows[len(s.Rows)-1]
	of.Runs = append(of.Runs, m)
	return nil
}

// write writes the report to a folder.
func (r *report) write(dir string) error {
	document, err := r.json()
	if err != nil {
		return err
	}
	list := map[string][]byte{filepath.Join(dir, "paper.md"): r.markdown(), filepath.Join(dir, "paper.json"): document}
	for _, s := range r.sections {
		for _, p := range s.pictures {
			list[filepath.Join(dir, "paper", p.Name)] = p.SVG
		}
	}
	for _, path := range slices.Sorted(maps.Keys(list)) {
		if err := images.WriteFile(path, list[path]); err != nil {
			return err
		}
	}
	return nil
}
