package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// switches is the code by which instrumented code asks whether a rule is off.
const switches = `package graph

var off int

var tables []func()

// RuleTables registers a function that rebuilds tables of rules.
func RuleTables(fill func()) { tables = append(tables, fill) }

// SwitchOff switches one rule off, and all others on.
func SwitchOff(rule int) {
	off = rule
	for _, fill := range tables {
		fill()
	}
}

// RuleNamed returns the name of an operator if its rule is on.
func RuleNamed(rule int, name string) string {
	if rule == off {
		return "-" + name
	}
	return name
}

// RuleIsOff reports whether a rule is off.
func RuleIsOff(rule int) bool { return rule == off }
`

// exported and imported give this command access to them.
const exported = `package head

import "github.com/mfgs/mfgs/internal/onnx/graph"

var SwitchOff = graph.SwitchOff

var (
	RuleNamed, RuleIsOff, RuleTables = graph.RuleNamed, graph.RuleIsOff, graph.RuleTables
)
`

const imported = `package main

import "github.com/mfgs/mfgs/onnx/head"

func init() { switchOff = head.SwitchOff }
`

// An edit replaces a range of a file by text.
type edit struct {
	at, end int
	text    string
}

// operator matches operator names.
var operator = regexp.MustCompile(`^([a-z.]+\.)?[A-Z]\w+$`)

// instrument returns a file in which each rule can be switched off, and appends the names of the rules.
func instrument(name, dir string, rules *[]string) ([]byte, error) {
	source, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var edits []edit
	offset := func(p token.Pos) int { return set.Position(p).Offset }
	rule := func(format string, args ...any) int {
		*rules = append(*rules, filepath.Base(dir)+"/"+filepath.Base(name)+": "+fmt.Sprintf(format, args...))
		return len(*rules)
	}
	replaced := map[ast.Expr]bool{}
	literal := func(function string, e ast.Expr) {
		l, ok := e.(*ast.BasicLit)
		if !ok || l.Kind != token.STRING || replaced[e] {
			return
		}
		if s, err := strconv.Unquote(l.Value); err != nil || !operator.MatchString(s) {
			return
		}
		replaced[e] = true
		number := rule("%s%s", function, strings.Trim(l.Value, `"`))
		edits = append(edits, edit{offset(l.Pos()), offset(l.End()), fmt.Sprintf("RuleNamed(%d, %s)", number, l.Value)})
	}
	filled := false
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		function := f.Name.Name + ", "
		if f.Name.Name == "init" {
			function, filled = "", true
			tables := "fillTables" + strings.TrimSuffix(filepath.Base(name), ".go")
			edits = append(edits, edit{offset(f.Name.Pos()), offset(f.Name.End()), tables})
		} else if results := nothing(f); results != "" && switched.MatchString(f.Name.Name) {
			at := offset(f.Body.Lbrace) + 1
			edits = append(edits, edit{at, at, fmt.Sprintf("\nif RuleIsOff(%d) { return %s }\n", rule("%s", f.Name.Name), results)})
		}
		ast.Inspect(f.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CaseClause:
				for _, e := range n.List {
					literal(function, e)
				}
			case *ast.CompositeLit:
				for _, e := range n.Elts {
					if kv, ok := e.(*ast.KeyValueExpr); ok {
						e = kv.Key
					}
					literal(function, e)
				}
			case *ast.IndexExpr:
				literal(function, n.Index)
			case *ast.BinaryExpr:
				if n.Op == token.EQL || n.Op == token.NEQ {
					literal(function, n.X)
					literal(function, n.Y)
				}
			}
			return true
		})
	}
	out := apply(source, edits)
	if filled {
		fill := "fillTables" + strings.TrimSuffix(filepath.Base(name), ".go")
		out = fmt.Appendf(out, "\nfunc init() { %s(); RuleTables(%s) }\n", fill, fill)
	}
	return out, nil
}

// apply returns a file with edits, which must not overlap.
func apply(source []byte, edits []edit) []byte {
	slices.SortFunc(edits, func(a, b edit) int { return a.at - b.at })
	var out bytes.Buffer
	last := 0
	for _, e := range edits {
		out.Write(source[last:e.at])
		out.WriteString(e.text)
		last = e.end
	}
	out.Write(source[last:])
	return out.Bytes()
}

// switched are functions that recognise one pattern, and can be made to recognise nothing.
var switched = regexp.MustCompile(`^(fold[A-Z]\w*|lower[A-Z]\w*|cdist|differences|squares|spread|narrow|complements|` +
	`made|passes|slicesAll|negative|einsumOverRest|slicesColumn1|` +
	`sum|joined|stacked|scaled|shifted|factor|repeat|uniform|isDistance|nearest|candidates|labels|named|literals|quoted|` +
	`numerals|linkAfter|leadsOut|merges|flattens|timeFirst|givesScores|exclusive|gatherND|recurrent|Common|` +
	`gemm|matMul|conv|selectsClasses|ungated|gates)$`)

// nothing is the return statement of a function that recognises nothing, "" if unknown.
func nothing(f *ast.FuncDecl) string {
	var list []string
	if f.Type.Results == nil {
		return ""
	}
	for _, r := range f.Type.Results.List {
		zero := "nil"
		if id, ok := r.Type.(*ast.Ident); ok {
			switch id.Name {
			case "bool":
				zero = "false"
			case "string", "Link":
				zero = `""`
			case "float64", "int64", "int":
				zero = "0"
			case "error":
			default:
				return ""
			}
		}
		for range max(1, len(r.Names)) {
			list = append(list, zero)
		}
	}
	return strings.Join(list, ", ")
}
