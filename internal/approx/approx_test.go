package approx

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"math"
	"path/filepath"
	"strings"
	"testing"
)

func TestEqual(t *testing.T) {
	t.Parallel()
	nan, inf := math.NaN(), math.Inf(1)
	for _, test := range []struct {
		got, want, tolerance float64
		equal, relative      bool
	}{
		{1, 1, 0, true, true},
		{1.5, 1, 0.5, true, true},
		{0.5, 1, 0.5, true, true},
		{1.5, 1, 0.25, false, false},
		{-3, -2, 0.5, false, true},
		{-3, -2, 0.25, false, false},
		{0, 0, 0, true, true},
		{1e-300, 0, 1, true, false},
		{inf, inf, 0, true, true},
		{inf, -inf, 1, false, true}, // every number is within a part of infinity
		{1, inf, 1, false, true},
		{inf, 1, 1, false, false},
		{nan, 1, 1, false, false},
		{1, nan, 1, false, false},
		{nan, nan, 1, false, false},
		{1, 1.5, nan, false, false},
		{nan, nan, inf, false, false},
	} {
		if got := Equal(test.got, test.want, test.tolerance); got != test.equal {
			t.Errorf("Equal(%v, %v, %v) = %v", test.got, test.want, test.tolerance, got)
		}
		if got := Relative(test.got, test.want, test.tolerance); got != test.relative {
			t.Errorf("Relative(%v, %v, %v) = %v", test.got, test.want, test.tolerance, got)
		}
	}
}

// A comparison such as math.Abs(a-b) > tolerance is false for NaN, so that the
// test around it passes.
func TestNoTestLetsNaNPass(t *testing.T) {
	t.Parallel()
	files := 0
	err := filepath.WalkDir("../..", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "testdata":
			return fs.SkipDir
		case !strings.HasSuffix(file, "_test.go"):
			return nil
		}
		files++
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, pos := range letNaNPass(parsed) {
			t.Errorf("%s: NaN passes this comparison: use approx.Equal or approx.Relative", set.Position(pos))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 100 {
		t.Fatalf("%d test files were found: the test looks in the wrong place", files)
	}
}

func TestComparisonsThatNaNPassesAreFound(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]int{
		"if math.Abs(a-b) > tol {}":                                1,
		"if tol < math.Abs(a-b) {}":                                1,
		"if math.Abs(a-b)/c >= tol || math.Abs(float64(a)) > 1 {}": 2,
		"if d := math.Abs(a - b); ok && d > tol {}":                1,
		"if !(math.Abs(a-b) <= tol) {}":                            0,
		"if a > math.Abs(b) {}":                                    0,
		"if math.Abs(a-b) <= tol && n > 1 {}":                      0,
	} {
		parsed, err := parser.ParseFile(token.NewFileSet(), "", "package p; func f() {"+code+"}", 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := letNaNPass(parsed); len(got) != want {
			t.Errorf("%s: %d found, want %d", code, len(got), want)
		}
	}
}

// letNaNPass returns where a value computed by math.Abs, or a variable that the if statement sets to one, is compared
// by >.
func letNaNPass(file *ast.File) (found []token.Pos) {
	distances := map[string]bool{}
	isDistance := func(e ast.Expr) (is bool) {
		ast.Inspect(e, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				x, ok := n.X.(*ast.Ident)
				is = is || ok && x.Name == "math" && n.Sel.Name == "Abs"
			case *ast.Ident:
				is = is || distances[n.Name]
			}
			return true
		})
		return is
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt:
			clear(distances)
			set, ok := n.Init.(*ast.AssignStmt)
			if !ok || len(set.Lhs) != 1 || len(set.Rhs) != 1 {
				break
			}
			name, ok := set.Lhs[0].(*ast.Ident)
			if call, is := set.Rhs[0].(*ast.CallExpr); ok && is && isDistance(call.Fun) {
				distances[name.Name] = true
			}
		case *ast.BinaryExpr:
			larger := n.X
			switch n.Op {
			case token.LSS, token.LEQ:
				larger = n.Y
			case token.GTR, token.GEQ:
			default:
				return true
			}
			if isDistance(larger) {
				found = append(found, n.OpPos)
			}
		}
		return true
	})
	return found
}
