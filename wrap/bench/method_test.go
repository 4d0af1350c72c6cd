package bench

import (
	"reflect"
	"slices"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
)

func TestMethodsAreRead(t *testing.T) {
	for text, want := range map[string]method{
		"mf0":                  {methodKind: methodKind{name: "mf0"}},
		"mc":                   {methodKind: methodKind{name: "mc"}, samples: defaultSamples},
		"mc:20":                {methodKind: methodKind{name: "mc"}, samples: 20},
		"mc:20@fisher/kron":    {methodKind: methodKind{name: "mc"}, samples: 20, covariance: "fisher", structure: calibrate.Kronecker},
		"mf0@sandwich/full":    {methodKind: methodKind{name: "mf0"}, covariance: "sandwich", structure: calibrate.Full},
		"ukf@swag":             {methodKind: methodKind{name: "ukf"}, covariance: "swag"},
		"bnn-ll-vi:7":          {methodKind: methodKind{name: "bnn-ll-vi"}, samples: 7},
		"edl":                  {methodKind: methodKind{name: "edl"}},
		"jackknife-ll:100000":  {methodKind: methodKind{name: "jackknife-ll"}, samples: 100_000},
		"mf2@hessian":          {methodKind: methodKind{name: "mf2"}, covariance: "hessian"},
		"mf1@fisher/full":      {methodKind: methodKind{name: "mf1"}, covariance: "fisher", structure: calibrate.Full},
		"bnn-kfac":             {methodKind: methodKind{name: "bnn-kfac"}, samples: defaultSamples},
		"dropout:1":            {methodKind: methodKind{name: "dropout"}, samples: 1},
		"leverage":             {methodKind: methodKind{name: "leverage"}},
		"mf0@hessian/kron":     {methodKind: methodKind{name: "mf0"}, covariance: "hessian", structure: calibrate.Kronecker},
		"mc@swag":              {methodKind: methodKind{name: "mc"}, samples: defaultSamples, covariance: "swag"},
		"ensemble":             {methodKind: methodKind{name: "ensemble"}},
		"mc:100@sandwich/kron": {methodKind: methodKind{name: "mc"}, samples: 100, covariance: "sandwich", structure: calibrate.Kronecker},
	} {
		got, err := parseMethod(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		i := slices.IndexFunc(methodKinds, func(k methodKind) bool { return k.name == want.name })
		want.methodKind, want.text = methodKinds[i], text
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
}

func TestMethodsThatAreNoneAreRefused(t *testing.T) {
	for text, words := range map[string][]string{
		"":                  {`method ""`, "not known", "bnn-kfac"},
		"mf3":               {`method "mf3"`, "not known"},
		"MF0":               {"not known"},
		"mf0:20":            {"draws no samples", ":20"},
		"mc:0":              {`"0" samples`, "1 to 100000"},
		"mc:100001":         {`"100001" samples`},
		"mc:":               {`"" samples`},
		"mc:1e3":            {`"1e3" samples`},
		"ts@fisher":         {"ts has no covariance", "@fisher"},
		"dropout:5@hessian": {"dropout has no covariance"},
		"mf0@":              {`covariance ""`, "hessian, fisher, sandwich or swag"},
		"mf0@kron":          {`covariance "kron"`},
		"mf0@hessian/":      {`structure ""`, "full or kron"},
		"mf0@hessian/auto":  {`structure "auto"`},
		"mf0@swag/kron":     {"structure of its own", "/kron"},
		"mf0@hessian@kron":  {`covariance "hessian@kron"`},
	} {
		says(t, CheckMethods([]string{text}), words...)
	}
	says(t, CheckMethods([]string{"mc", "mf0", "mc"}), `"mc"`, "twice")
	if err := CheckMethods([]string{"mc", "mc:20", "mc@fisher", "mf0", "mf0@hessian"}); err != nil {
		t.Error(err)
	}
}

func TestEveryMethodIsDescribed(t *testing.T) {
	names := Methods()
	if len(names) < 15 {
		t.Fatalf("only %d methods", len(names))
	}
	for _, n := range names {
		if DescribeMethod(n) == "" {
			t.Errorf("%s is not described", n)
		}
	}
	if got, want := PlainMethods(), []string{"mle", "ts", "mf0", "leverage"}; !slices.Equal(got, want) {
		t.Errorf("plain methods %v, want %v", got, want)
	}
}

func FuzzParseMethod(f *testing.F) {
	for _, s := range []string{"mf0", "mc:20@fisher/kron", "@", ":", "mc:@/", "mf0@swag"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := parseMethod(text)
		if err != nil {
			return
		}
		if m.text != text || m.sampled != (m.samples > 0) || !m.gaussian && (m.covariance != "" || m.structure != "") {
			t.Errorf("%q was read as %+v", text, m)
		}
	})
}
