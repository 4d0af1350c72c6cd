package ort

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	onnx "github.com/yalue/onnxruntime_go"

	"github.com/mfgs/mfgs/internal/install"
)

// loaded is the process's library. The binding keeps it in package variables, without a lock.
var loaded struct {
	sync.Mutex
	ok  bool
	lib install.Library
}

// Load loads the library into the process for good. Loading it again does nothing; loading another one is an error.
//
// Load turns the library's telemetry off, by setting ORT_DISABLE_TELEMETRY=1 in the process's environment unless that
// variable is set.
func Load(lib install.Library) error {
	loaded.Lock()
	defer loaded.Unlock()
	if loaded.ok {
		if sameFile(lib.Path, loaded.lib.Path) {
			return nil
		}
		return fmt.Errorf("ONNX Runtime %s from %s is already loaded, and a process can load only one: cannot load %s",
			loaded.lib.Version, loaded.lib.Path, lib.Path)
	}
	if err := install.Check(lib); err != nil {
		return err
	}
	refuse := func(reason string) error {
		return &install.LibraryError{Path: lib.Path, Source: lib.Source, Reason: reason}
	}
	// The official builds since 1.29 write a device identifier to the user's cache folder, and send events about
	// models and runs once the environment is created. Only the user may allow that.
	if _, decided := os.LookupEnv(envTelemetry); !decided {
		os.Setenv(envTelemetry, "1")
	}
	onnx.SetSharedLibraryPath(lib.Path)
	// Log fatal errors only: others are returned.
	if err := onnx.InitializeEnvironment(onnx.WithLogLevelFatal()); err != nil {
		if strings.Contains(err.Error(), "setting ORT API base: 2") {
			return refuse("it is too old")
		}
		return refuse("cannot be loaded: " + plain(err).Error())
	}
	lib.Version = onnx.GetVersion()
	loaded.lib, loaded.ok = lib, true
	// Older builds lack the variable, but have this, on Windows.
	if os.Getenv(envTelemetry) == "1" {
		if err := onnx.DisableTelemetry(); err != nil {
			return refuse("cannot be set up: " + plain(err).Error())
		}
	}
	return nil
}

// envTelemetry is ONNX Runtime's variable that disables telemetry.
const envTelemetry = "ORT_DISABLE_TELEMETRY"

// Loaded returns the library that Load has loaded.
func Loaded() (install.Library, bool) {
	loaded.Lock()
	defer loaded.Unlock()
	return loaded.lib, loaded.ok
}

func sameFile(a, b string) bool {
	sa, errA := os.Stat(a)
	sb, errB := os.Stat(b)
	return filepath.Clean(a) == filepath.Clean(b) || errors.Join(errA, errB) == nil && os.SameFile(sa, sb)
}
