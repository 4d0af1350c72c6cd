package main

import (
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestSavedPartsAreLoadedAndForeignOnesRefused(t *testing.T) {
	t.Parallel()
	l := newLab("", "", t.TempDir(), nil, io.Discard)
	if s, err := l.kept("ukf"); s != nil || err != nil {
		t.Errorf("%v, error %v: want nothing", s, err)
	}
	want := &section{Name: "ukf", Seconds: 3, Rows: []row{{place: place{"ukf", mnistName, "mf0"}, Note: "here"}}}
	if err := l.keep(want); err != nil {
		t.Fatal(err)
	}
	got, err := l.kept("ukf")
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, error %v: want %+v", got, err, want)
	}
	path := l.keptPath("table1")
	if err := l.keep(&section{Name: "ukf"}); err != nil {
		t.Fatal(err)
	}
	other, err := os.ReadFile(l.keptPath("ukf"))
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{
		"another's": string(other), "empty": "", "no object": "[]", "cut off": string(other[:len(other)/2]),
		"no section": "{}", "no name": `{"Section":{},"Places":[]}`, "places that no row has": `{"Section":{"Name":"table1"},"Places":[["a","b","c"]]}`,
	} {
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := l.kept("table1"); err == nil || !strings.Contains(err.Error(), filepath.Base(path)) ||
			!strings.HasSuffix(err.Error(), "remove it") {
			t.Errorf("%s: error %v, want one that says to remove %s", name, err, path)
		}
	}
}
