package install_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/featurize/ort"
	"github.com/mfgs/mfgs/internal/install"
	"github.com/mfgs/mfgs/internal/testerr"
)

func init() {
	install.LoadHelper = func(lib install.Library) {
		if err := ort.Load(lib); err != nil {
			fmt.Println(err)
		}
		_, ok := ort.Loaded()
		fmt.Println("loaded:", ok)
	}
}

// loaded returns the library that this process has loaded.
func loaded(t *testing.T) install.Library {
	t.Helper()
	lib, err := install.Find(install.Config{})
	if err == nil {
		err = ort.Load(lib)
	}
	if err != nil {
		t.Fatal(err)
	}
	lib, _ = ort.Loaded()
	return lib
}

// Load runs in a separate process here, because this one has loaded its library already.
func TestLoadRefusesWhatItCannotUse(t *testing.T) {
	real := loaded(t)
	kinds := install.Unusable(t)
	for name, kind := range map[string]install.Unfit{
		"without an API": {install.FakeLibrary(t, "1.30.0", ""), "too old"},
		"without what it links to": {install.FakeLibrary(t, "1.30.0", "extern int missing_thing; int *p = &missing_thing;"),
			"missing_thing"},
	} {
		kinds[name] = kind
	}
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), install.HelperEnv+"=load", install.ArchiveEnv+"="+kind.Path, install.RaceExit)
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			msg, rest, _ := strings.Cut(string(out), "\n")
			testerr.OneLine(t, errors.New(msg), kind.Reason, kind.Path)
			if rest != "loaded: false\n" {
				t.Errorf("said %q", out)
			}
		})
	}
	if err := ort.Load(real); err != nil {
		t.Errorf("loading the same library again: %v", err)
	}
	link := filepath.Join(install.TempDir(t), "link.so")
	if err := os.Symlink(real.Path, link); err != nil {
		t.Fatal(err)
	}
	if err := ort.Load(install.Library{Path: link}); err != nil {
		t.Errorf("loading the same library by another name: %v", err)
	}
	testerr.OneLine(t, ort.Load(install.Library{Path: install.Put(t, real.Path, install.TempDir(t))}), "only one", real.Path)
	if after, ok := ort.Loaded(); !ok || after != real {
		t.Errorf("loaded is %v, want %v", after, real)
	}
}

// A library that reports to its maker writes an identifier into the user's cache folder first.
func TestLoadTurnsTelemetryOff(t *testing.T) {
	real := loaded(t)
	home := install.TempDir(t)
	cmd := exec.Command(os.Args[0])
	for _, v := range os.Environ() {
		// In continuous integration the library keeps quiet by itself.
		if name, _, _ := strings.Cut(v, "="); name != "ORT_DISABLE_TELEMETRY" && name != "CI" && !strings.HasPrefix(name, "GITHUB_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, install.HelperEnv+"=load", install.ArchiveEnv+"="+real.Path, install.RaceExit,
		"HOME="+home, "XDG_CACHE_HOME="+filepath.Join(home, "cache"), "LOCALAPPDATA="+filepath.Join(home, "local"))
	out, err := cmd.Output()
	if err != nil || string(out) != "loaded: true\n" {
		t.Fatalf("said %q, %v", out, err)
	}
	if entries, err := os.ReadDir(home); err != nil || len(entries) != 0 {
		t.Errorf("loading wrote %v to the user's folders (%v)", entries, err)
	}
}
