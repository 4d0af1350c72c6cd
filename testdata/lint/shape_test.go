package lint

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

// The limits of source files, except generated ones.
const (
	maxFunctionLines = 80  // of a function, without tables in it
	maxColumns       = 120 // of a line, with tabs of four, without string literals
	mayCircle        = 10  // packages with more files must not have cycles of files
)

// A sourceFile is a Go file of this repository.
type sourceFile struct {
	path, pkg string // from the root, with slashes
	test      bool
	text      []byte
	fset      *token.FileSet
	ast       *ast.File
}

func (f *sourceFile) line(p token.Pos) int { return f.fset.Position(p).Line }

// lines returns how many lines a node spans.
func (f *sourceFile) lines(n ast.Node) int { return f.line(n.End()) - f.line(n.Pos()) + 1 }

// goFiles returns all Go files of mfgs and mfgs-paper except generated ones, parsed once.
func goFiles(t *testing.T) []*sourceFile {
	t.Helper()
	return found(t, parsedFiles, 100)
}

// toolFiles returns those of this module, of tools.
func toolFiles(t *testing.T) []*sourceFile {
	t.Helper()
	return found(t, parsedTools, 20)
}

func found(t *testing.T, parsed func() ([]*sourceFile, error), least int) []*sourceFile {
	t.Helper()
	all, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < least {
		t.Fatalf("only %d Go files were found: the test looks in the wrong place", len(all))
	}
	return all
}

var (
	parsedFiles = sync.OnceValues(func() ([]*sourceFile, error) { return parseFiles(root) })
	parsedTools = sync.OnceValues(func() ([]*sourceFile, error) { return parseFiles(filepath.Join(root, "testdata")) })
)

// parseFiles parses the files of all platforms and build tags, except in folders that the go command ignores.
func parseFiles(dir string) (all []*sourceFile, err error) {
	err = filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if file != dir && (name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		f := &sourceFile{path: filepath.ToSlash(rel), text: text, fset: token.NewFileSet()}
		f.pkg, f.test = path.Dir(f.path), strings.HasSuffix(name, "_test.go")
		if f.ast, err = parser.ParseFile(f.fset, file, text, parser.ParseComments); err != nil {
			return err
		}
		if !ast.IsGenerated(f.ast) {
			all = append(all, f)
		}
		return nil
	})
	return all, err
}

func TestFunctionsAreShort(t *testing.T) {
	for _, f := range slices.Concat(goFiles(t), toolFiles(t)) {
		if f.test {
			continue
		}
		for _, d := range f.ast.Decls {
			if d, ok := d.(*ast.FuncDecl); ok {
				if n := f.lines(d) - f.tableLines(d); n > maxFunctionLines {
					t.Errorf("%s: %s has %d lines, want at most %d: which of its steps have names?", f.path, d.Name.Name, n, maxFunctionLines)
				}
			}
		}
	}
}

// tableLines counts the lines of tables in a function: composite literals whose function literals have at most one
// statement.
func (f *sourceFile) tableLines(fn ast.Node) (n int) {
	ast.Inspect(fn, func(node ast.Node) bool {
		lit, ok := node.(*ast.CompositeLit)
		if !ok {
			return true
		}
		table := true
		ast.Inspect(lit, func(node ast.Node) bool {
			if fn, ok := node.(*ast.FuncLit); ok && len(fn.Body.List) > 1 {
				table = false
			}
			return table
		})
		if table {
			n += f.lines(lit) - 1
		}
		return !table
	})
	return n
}

func TestLinesAreNarrow(t *testing.T) {
	for _, f := range slices.Concat(goFiles(t), toolFiles(t)) {
		spared := f.spared()
		for i, line := range strings.Split(string(f.text), "\n") {
			if n := columns(line) - spared[i+1]; n > maxColumns {
				t.Errorf("%s:%d: %d columns, want at most %d", f.path, i+1, n, maxColumns)
			}
		}
	}
}

func columns(s string) int { return utf8.RuneCountInString(strings.ReplaceAll(s, "\t", "    ")) }

// spared counts the columns of string literals and of expected output of examples, by line.
func (f *sourceFile) spared() map[int]int {
	taken := map[int]int{}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			for i, part := range strings.Split(lit.Value, "\n") {
				taken[f.line(lit.Pos())+i] += columns(part)
			}
		}
		return true
	})
	for _, group := range f.ast.Comments {
		if output := strings.ToLower(group.Text()); f.test && strings.HasPrefix(output, "output:") {
			for _, c := range group.List {
				taken[f.line(c.Pos())] += columns(c.Text)
			}
		}
	}
	return taken
}

// The files of a large package have an order in which each uses only names of earlier ones, so that it can be read in
// that order. Methods belong to the file of their type.
func TestFilesReferOneWay(t *testing.T) {
	packages := map[string][]*sourceFile{}
	for _, f := range goFiles(t) {
		if !f.test {
			packages[f.pkg] = append(packages[f.pkg], f)
		}
	}
	for pkg, files := range packages {
		if len(files) <= mayCircle {
			continue
		}
		for _, circle := range circles(references(files)) {
			t.Errorf("package %s: files refer to each other in a circle: %s", pkg, strings.Join(circle, ", "))
		}
	}
}

// references maps each file to the files of its package whose names it uses.
func references(files []*sourceFile) map[string]map[string]bool {
	declared := map[string][]string{} // name → files: those of several platforms may declare the same
	for _, f := range files {
		for _, d := range f.ast.Decls {
			for _, name := range declaredNames(d) {
				declared[name] = append(declared[name], path.Base(f.path))
			}
		}
	}
	uses := map[string]map[string]bool{}
	for _, f := range files {
		own := path.Base(f.path)
		uses[own] = map[string]bool{}
		for _, id := range f.ast.Unresolved {
			for _, other := range declared[id.Name] {
				if other != own && !slices.Contains(declared[id.Name], own) {
					uses[own][other] = true
				}
			}
		}
	}
	return uses
}

// declaredNames returns the package-level names of a declaration.
func declaredNames(d ast.Decl) (names []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			names = append(names, d.Name.Name)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				names = append(names, s.Name.Name)
			case *ast.ValueSpec:
				for _, n := range s.Names {
					names = append(names, n.Name)
				}
			}
		}
	}
	return slices.DeleteFunc(names, func(n string) bool { return n == "init" || n == "_" })
}

// circles returns the strongly connected components of more than one node (Tarjan, Depth-First
// Search and Linear Graph Algorithms, 1972).
func circles(graph map[string]map[string]bool) (all [][]string) {
	index, low := map[string]int{}, map[string]int{}
	var stack []string
	var visit func(string)
	visit = func(v string) {
		index[v] = len(index) + 1
		low[v] = index[v]
		stack = append(stack, v)
		for _, w := range slices.Sorted(maps.Keys(graph[v])) {
			if index[w] == 0 {
				visit(w)
				low[v] = min(low[v], low[w])
			} else if slices.Contains(stack, w) {
				low[v] = min(low[v], index[w])
			}
		}
		if low[v] == index[v] {
			i := slices.Index(stack, v)
			if circle := slices.Clone(stack[i:]); len(circle) > 1 {
				all = append(all, circle)
			}
			stack = stack[:i]
		}
	}
	for _, v := range slices.Sorted(maps.Keys(graph)) {
		if index[v] == 0 {
			visit(v)
		}
	}
	slices.SortFunc(all, func(a, b []string) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return all
}
