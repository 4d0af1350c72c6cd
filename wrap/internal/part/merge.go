package part

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/option"
	"github.com/mfgs/mfgs/internal/parallel"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// Merge reads parts and makes one part of them. The result does not depend on their order, or on how some were
// merged before. model is the folder of the part that has the model, "" if none does. product multiplies
// matrices, and may be nil.
//
// Parts must have the same recipe and data, and no shard twice. [Manifest.Missing] reports missing shards.
func Merge(
	ctx context.Context, dirs []string, product parallel.Product, step func(done, total int),
) (p *Part, model string, err error) {
	if len(dirs) == 0 {
		return nil, "", errors.New("no parts to merge")
	}
	if step == nil {
		step = func(int, int) {}
	}
	parts := make([]folderOf, len(dirs))
	for i, dir := range dirs {
		m, err := ReadManifest(dir)
		if err != nil {
			return nil, "", err
		}
		parts[i] = folderOf{dir, m}
	}
	if err := checkDuplicates(dirs); err != nil {
		return nil, "", err
	}
	// In this order few sums are in memory at a time.
	slices.SortFunc(parts, func(a, b folderOf) int {
		return cmp.Or(cmp.Compare(a.at(), b.at()), cmp.Compare(a.dir, b.dir))
	})
	p = &Part{}
	if err := p.mergeManifests(parts); err != nil {
		return nil, "", err
	}
	sets := map[bundle.Role]*gathered{}
	for role, name := range rowsNames {
		sets[role] = &gathered{name: name}
	}
	complete := tree{}
	first := math.MaxInt // position of the first validation example so far
	for i, f := range parts {
		if err := context.Cause(ctx); err != nil {
			return nil, "", err
		}
		step(i, len(parts))
		o, err := Open(f.dir, product)
		if err != nil {
			return nil, "", err
		}
		if err := p.mergeSums(o); err != nil {
			return nil, "", fmt.Errorf("%s: %w", f.dir, err)
		}
		if train := o.Set(bundle.Train); train != nil {
			for i := range train.Shards {
				complete.add(&train.Shards[i], p.Sums.Join)
			}
		}
		for _, role := range roles[1:] {
			if err := sets[role].add(f.dir, *o.Rows(role)); err != nil {
				return nil, "", err
			}
		}
		if b := o.Val; b != nil && b.N > 0 && b.Positions[0] < first {
			p.Probe, first = o.Probe, b.Positions[0]
		}
		if model == "" && f.Copy(f.dir, ModelName) != nil {
			model = f.dir
		}
	}
	step(len(parts), len(parts))
	for role, set := range sets {
		*p.Rows(role) = mergeRows(set.batches)
	}
	return p, model, p.check()
}

// checkDuplicates refuses a folder that is listed twice.
func checkDuplicates(dirs []string) error {
	seen := map[string]string{}
	for _, dir := range dirs {
		path, err := filepath.Abs(dir)
		if err == nil {
			path, err = filepath.EvalSymlinks(path)
		}
		if err != nil {
			return err
		}
		switch other, again := seen[path]; {
		case again && other == dir:
			return fmt.Errorf("%s is given twice", dir)
		case again:
			return fmt.Errorf("%s is given twice, also as %s", dir, other)
		}
		seen[path] = dir
	}
	return nil
}

// gathered has the examples of a set from several parts.
type gathered struct {
	name    string // of the file
	batches []*rows.Batch
	first   string // the part with the first examples
	labels  string // the kind of their labels
}

// add adds the examples of another part, nil if it has none of the set.
func (h *gathered) add(dir string, b *rows.Batch) error {
	if b == nil {
		return nil
	}
	switch labels := labelsOf(b); {
	case b.N == 0:
	case h.first == "":
		h.first, h.labels = dir, labels
	case labels != h.labels:
		return mismatch(h.first, dir, "what goes with "+h.name, h.labels, labels)
	}
	h.batches = append(h.batches, b)
	return nil
}

// folderOf is a part of which the manifest was read.
type folderOf struct {
	dir string
	*Manifest
}

// hasExamples reports whether any examples were read. Without any, as of an empty stream, it is unknown whether data
// are images.
func (f folderOf) hasExamples() bool {
	return slices.ContainsFunc(f.Sets, func(s Set) bool { return s.Examples() > 0 })
}

// at returns where its training data begins.
func (f *folderOf) at() int {
	if s := f.Set(bundle.Train); s != nil {
		return s.Shards[0].From
	}
	return maxPosition + 1 // last
}

// mergeManifests adds the sets of parts, and refuses parts of different calibrations.
func (p *Part) mergeManifests(parts []folderOf) error {
	first := &parts[max(0, slices.IndexFunc(parts, folderOf.hasExamples))]
	p.Tool, p.Recipe = first.Tool, first.Recipe
	for i := range parts {
		f := &parts[i]
		if f.Tool != first.Tool {
			return mismatch(first.dir, f.dir, "tool", first.Tool, f.Tool)
		}
		recipe := f.Recipe
		if !f.hasExamples() {
			recipe.Preprocess = first.Recipe.Preprocess
		}
		if p.Recipe.Columns == nil {
			p.Recipe.Columns = recipe.Columns
		}
		if recipe.Columns == nil { // a part without tables
			recipe.Columns = p.Recipe.Columns
		}
		if field, a, b := Difference(p.Recipe.resolved(), recipe.resolved()); field != "" {
			return mismatch(first.dir, f.dir, field, a, b)
		}
	}
	for _, role := range roles {
		var all *Set
		var from string // the first part with this set
		holds := map[int]string{}
		for i := range parts {
			f := &parts[i]
			s := f.Set(role)
			if s == nil {
				continue
			}
			if all == nil {
				all, from = &Set{Role: role, Spec: s.Spec, From: s.From, Count: s.Count, Stream: s.Stream}, f.dir
				all.Shards = append(all.Shards, s.Shards...)
			} else {
				inAll := func(s *Set) setIdentity { return s.identity(s.Shards[0].Shard.Count) }
				if field, a, b := Difference(inAll(all), inAll(s)); field != "" {
					return mismatch(from, f.dir, fmt.Sprintf("%s %s", role, field), a, b)
				}
				all.Shards = append(all.Shards, s.Shards...)
			}
			for _, shard := range s.Shards {
				if other, twice := holds[shard.Shard.Index]; twice {
					return fmt.Errorf("shard %d of %d of %s is in both %s and %s: merge each shard once", shard.Shard.Index, shard.Shard.Count, role, other, f.dir)
				}
				holds[shard.Shard.Index] = f.dir
			}
		}
		if all == nil {
			continue
		}
		all.sort()
		p.Sets = append(p.Sets, *all)
		if n := p.Recipe.Settings.MaxBad; all.Bad() > n {
			return fmt.Errorf("%s: the parts skipped %d unreadable records in total, %s allows %d",
				role, all.Bad(), option.MaxBad, n)
		}
	}
	return nil
}

// Identity is what distinguishes a part from those of other calibrations and other shards: everything except
// the results of reading the data. Compare with [Difference].
func (m *Manifest) Identity() map[string]any {
	sets := map[string]any{}
	for i := range m.Sets {
		s := &m.Sets[i]
		shards := make([]string, len(s.Shards))
		for j, p := range s.Shards {
			shards[j] = p.Shard.String()
		}
		sets[string(s.Role)] = s.identity(shards)
	}
	return map[string]any{"tool": m.Tool, "recipe": m.Recipe.resolved(), "sets": sets}
}

// mismatch says in which field two parts differ.
func mismatch(a, b, field, ofA, ofB string) error {
	return fmt.Errorf("%s and %s are not parts of one calibration: %s is %s in the first and %s in the second", a, b, field, ofA, ofB)
}

// setIdentity is what parts must agree on about a set.
type setIdentity struct {
	Spec   string `yaml:"spec"`
	From   int    `yaml:"from"`
	Count  int    `yaml:"count"`
	Stream bool   `yaml:"stream"`
	Shards any    `yaml:"shards"` // which, of a part; how many in all, of parts to be merged
}

func (s *Set) identity(shards any) setIdentity {
	return setIdentity{s.Spec, s.From, s.Count, s.Stream, shards}
}

// Difference returns the first YAML field in which two values differ, with its values; "" if they are equal.
func Difference(a, b any) (field, ofA, ofB string) {
	var x, y yaml.Node
	if x.Encode(a) != nil || y.Encode(b) != nil {
		return "", "", "" // impossible for what was read from YAML
	}
	return diff("", &x, &y)
}

func diff(path string, a, b *yaml.Node) (field, ofA, ofB string) {
	switch {
	case a.Kind == yaml.SequenceNode && b.Kind == yaml.SequenceNode && len(a.Content) == len(b.Content):
		for i, c := range a.Content {
			if field, ofA, ofB := diff(fmt.Sprintf("%s[%d]", path, i), c, b.Content[i]); field != "" {
				return field, ofA, ofB
			}
		}
		return "", "", ""
	case a.Kind == yaml.ScalarNode && b.Kind == yaml.ScalarNode && a.Value == b.Value:
		return "", "", ""
	case a.Kind != yaml.MappingNode || b.Kind != yaml.MappingNode:
		return path, shown(a), shown(b)
	}
	values := func(n *yaml.Node) (keys []string, of map[string]*yaml.Node) {
		of = map[string]*yaml.Node{}
		for i := 0; i < len(n.Content); i += 2 {
			keys = append(keys, n.Content[i].Value)
			of[n.Content[i].Value] = n.Content[i+1]
		}
		return keys, of
	}
	keysA, inA := values(a)
	keysB, inB := values(b)
	for _, key := range append(keysA, keysB...) {
		name := strings.TrimPrefix(path+"."+key, ".")
		switch {
		case inA[key] == nil:
			return name, "nothing", shown(inB[key])
		case inB[key] == nil:
			return name, shown(inA[key]), "nothing"
		}
	}
	for _, key := range keysA {
		name := strings.TrimPrefix(path+"."+key, ".")
		if field, ofA, ofB := diff(name, inA[key], inB[key]); field != "" {
			return field, ofA, ofB
		}
	}
	return "", "", ""
}

// shown returns a value on one line. Lists have their length, in which they differ.
func shown(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode {
		return n.Value
	}
	const most = 10
	var parts []string
	for _, c := range n.Content[:min(len(n.Content), most)] {
		parts = append(parts, shown(c))
	}
	if len(n.Content) > most {
		return fmt.Sprintf("[%s …] (%d)", strings.Join(parts, " "), len(n.Content))
	}
	if n.Kind == yaml.SequenceNode {
		return fmt.Sprintf("[%s] (%d)", strings.Join(parts, " "), len(n.Content))
	}
	return "[" + strings.Join(parts, " ") + "]"
}

// mergeSums adds the training data of another part, which must not be used afterwards.
func (p *Part) mergeSums(o *Part) error {
	if o.Sums == nil {
		return nil
	}
	if p.Sums == nil {
		p.Sums, p.Counts, p.Sample = o.Sums, o.Counts, o.Sample
		return nil
	}
	p.Counts.Merge(o.Counts)
	p.Sample.Add(o.Sample.Rows())
	return p.Sums.Merge(o.Sums)
}

// A tree determines which sums are added up before all shards are there: those of two neighbours,
// of two such pairs, and so on, independent of the order of merging. Many parts then need the memory of a
// few, the same shards give the same bytes however merges are nested, and groups of two, four, eight …
// neighbours, from the first shard on, become as small as one part.
type tree map[node]span

// A node has the shards index·2^level + 1 to (index+1)·2^level.
type node struct{ level, index int }

// A span has the blocks from … to-1.
type span struct{ from, to int }

// add records that a shard was merged, and joins the blocks of all nodes that it completes.
func (t tree) add(s *Shard, join func(from, to int)) {
	at := node{0, s.Shard.Index - 1}
	blocks := span{s.From / rows.BlockSize, (s.To + rows.BlockSize - 1) / rows.BlockSize}
	for {
		t[at] = blocks
		other, ok := t[node{at.level, at.index ^ 1}]
		if !ok {
			return
		}
		blocks = span{min(blocks.from, other.from), max(blocks.to, other.to)}
		join(blocks.from, blocks.to)
		at = node{at.level + 1, at.index / 2}
	}
}

// mergeRows returns the examples of several batches in the order of their positions. No block has
// examples in two of them.
func mergeRows(batches []*rows.Batch) *rows.Batch {
	if len(batches) <= 1 {
		if len(batches) == 1 {
			return batches[0]
		}
		return nil
	}
	var blocks []*rows.Batch
	for _, b := range batches {
		for from := 0; from < b.N; {
			to := from + 1
			for to < b.N && rows.Block(b.Positions[to]) == rows.Block(b.Positions[from]) {
				to++
			}
			blocks = append(blocks, b.Slice(from, to))
			from = to
		}
	}
	slices.SortFunc(blocks, func(a, b *rows.Batch) int { return cmp.Compare(a.Positions[0], b.Positions[0]) })
	all := &rows.Batch{}
	for _, b := range blocks {
		all.Append(b)
	}
	return all
}

// Missing returns an error that names missing data: training and validation data must be there, with all shards
// of every set.
func (m *Manifest) Missing() error {
	for _, role := range roles {
		s := m.Set(role)
		if s == nil && (role == bundle.Train && m.Recipe.Trained() || role == bundle.Val) {
			return fmt.Errorf("no part has %s data", role)
		}
		if s == nil {
			continue
		}
		have := map[int]bool{}
		for _, p := range s.Shards {
			have[p.Shard.Index] = true
		}
		count := s.Shards[0].Shard.Count
		var gone []string
		for i := 1; i <= count && len(gone) <= 10; i++ {
			if !have[i] {
				gone = append(gone, fmt.Sprint(i))
			}
		}
		switch {
		case len(gone) == 1:
			return fmt.Errorf("shard %s of %d of %s is missing", gone[0], count, role)
		case len(gone) > 10:
			return fmt.Errorf("%d of %d shards of %s are missing, such as shard %s", count-len(s.Shards), count, role, gone[0])
		case len(gone) > 1:
			return fmt.Errorf("shards %s of %d of %s are missing", strings.Join(gone, ", "), count, role)
		}
		if s.Examples() == 0 {
			return fmt.Errorf("%s: no examples could be read of %s", role, s.Spec)
		}
	}
	return nil
}
