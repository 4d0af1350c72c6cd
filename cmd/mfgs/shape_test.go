package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// The shape that the tree is to keep. Generated files have none.
const (
	maxPackageLines  = 5000 // of a package, without tests
	maxFunctionLines = 80   // of a function, but for tables in it
)

// sourceFile is a Go file of the module.
type sourceFile struct {
	path, pkg string // from the root, with slashes
	test      bool
	text      []byte
	fset      *token.FileSet
	ast       *ast.File
}

func (f *sourceFile) line(p token.Pos) int { return f.fset.Position(p).Line }

// lines is how many lines a node spans.
func (f *sourceFile) lines(n ast.Node) int { return f.line(n.End()) - f.line(n.Pos()) + 1 }

// goFiles parses every Go file of the module but generated ones, for all platforms and build
// tags. Folders that the go command ignores are ignored.
func goFiles(t *testing.T) []*sourceFile {
	t.Helper()
	var all []*sourceFile
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if file != root && (name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")) {
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
		f := &sourceFile{path: filepath.ToSlash(rel), test: strings.HasSuffix(name, "_test.go"), text: text,
			fset: token.NewFileSet()}
		f.pkg = path.Dir(f.path)
		if f.ast, err = parser.ParseFile(f.fset, file, text, parser.ParseComments); err != nil {
			return err
		}
		if !ast.IsGenerated(f.ast) {
			all = append(all, f)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 100 {
		t.Fatalf("only %d Go files were found: the test looks in the wrong place", len(all))
	}
	return all
}

func TestPackagesAreSmall(t *testing.T) {
	lines := map[string]int{}
	for _, f := range goFiles(t) {
		if !f.test {
			lines[f.pkg] += strings.Count(string(f.text), "\n")
		}
	}
	for pkg, n := range lines {
		if n > maxPackageLines {
			t.Errorf("package %s has %d lines, want at most %d: which part of it has a job of its own?", pkg, n, maxPackageLines)
		}
	}
}

func TestFunctionsAreShort(t *testing.T) {
	for _, f := range goFiles(t) {
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

// tableLines counts the lines of tables in a function: of composite literals in which no function
// has more than one statement.
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
