package compare

import (
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/internal/wraptest"
)

func TestMain(m *testing.M) { wraptest.Main(m, nil) }

func TestMethodsAreParsed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]request{
		"mf0":                  {method: find("mf0")},
		"mc":                   {method: find("mc"), samples: defaultSamples},
		"mc:20":                {method: find("mc"), samples: 20},
		"mc:20@fisher/kron":    {method: find("mc"), samples: 20, covariance: "fisher", structure: calibrate.Kronecker},
		"mf0@sandwich/full":    {method: find("mf0"), covariance: "sandwich", structure: calibrate.Full},
		"ukf@swag":             {method: find("ukf"), covariance: "swag"},
		"bnn-ll-vi:7":          {method: find("bnn-ll-vi"), samples: 7},
		"edl":                  {method: find("edl")},
		"jackknife-ll:100000":  {method: find("jackknife-ll"), samples: 100_000},
		"mf2@hessian":          {method: find("mf2"), covariance: "hessian"},
		"mf1@fisher/full":      {method: find("mf1"), covariance: "fisher", structure: calibrate.Full},
		"bnn-kfac":             {method: find("bnn-kfac"), samples: defaultSamples},
		"dropout:1":            {method: find("dropout"), samples: 1},
		"leverage":             {method: find("leverage")},
		"mf0@hessian/kron":     {method: find("mf0"), covariance: "hessian", structure: calibrate.Kronecker},
		"mc@swag":              {method: find("mc"), samples: defaultSamples, covariance: "swag"},
		"ensemble":             {method: find("ensemble")},
		"hot":                  {method: find("hot")},
		"mf0_noise":            {method: find("mf0_noise")},
		"mc:100@sandwich/kron": {method: find("mc"), samples: 100, covariance: "sandwich", structure: calibrate.Kronecker},
	} {
		got, err := parseMethod(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		want.text = text
		if *got != want {
			t.Errorf("%s: %+v, want %+v", text, *got, want)
		}
	}
}

func TestUnknownMethodsAreRefused(t *testing.T) {
	t.Parallel()
	for text, words := range map[string][]string{
		"":                  {`method ""`, "unknown", "bnn-kfac"},
		"mf3":               {`method "mf3"`, "unknown"},
		"MF0":               {"unknown"},
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
		"hot:2":             {"hot draws no samples"},
		"noise@fisher":      {"noise has no covariance"},
		"mf0@swag/kron":     {"its own structure", "/kron"},
		"mf0@hessian@kron":  {`covariance "hessian@kron"`},
	} {
		wraptest.Says(t, CheckMethods([]string{text}), words...)
	}
	wraptest.Says(t, CheckMethods([]string{"mc", "mf0", "mc"}), `"mc"`, "twice")
	if err := CheckMethods([]string{"mc", "mc:20", "mc@fisher", "mf0", "mf0@hessian"}); err != nil {
		t.Error(err)
	}
}

func TestEveryMethodIsDescribed(t *testing.T) {
	t.Parallel()
	names := Methods()
	if len(names) < 15 {
		t.Fatalf("only %d methods", len(names))
	}
	for _, n := range names {
		if DescribeMethod(n) == "" {
			t.Errorf("%s is not described", n)
		}
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
