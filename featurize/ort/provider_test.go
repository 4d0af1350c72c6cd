package ort

import (
	"errors"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/internal/install"
	"github.com/mfgs/mfgs/internal/testerr"
)

func TestErrorOfAMissingProviderSaysWhatToDo(t *testing.T) {
	t.Parallel()
	lib := install.Library{Path: "/lib/libonnxruntime.so", Version: "1.30.0"}
	for _, provider := range Providers() {
		if provider == CPU {
			continue // which every library has
		}
		err := error(&ProviderError{Provider: provider, Library: lib, Err: errors.New("not enabled in this build.")})
		testerr.OneLine(t, err, "provider "+provider+" ", "ONNX Runtime 1.30.0 at /lib/libonnxruntime.so", "(not enabled in this build)", "use provider cpu", install.EnvLibrary, find(provider).build)
		if !strings.Contains(find(provider).build, "build") {
			t.Errorf("%s: no build is named that has it", provider)
		}
	}
}
