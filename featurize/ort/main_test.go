package ort

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/internal/install"
)

// The tests run with a real ONNX Runtime, which is installed where there is none.
func TestMain(m *testing.M) {
	lib, err := install.Ensure(context.Background(), install.Config{Install: true})
	if err == nil {
		err = Load(lib)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// oneLine checks that an error's message is one line without the noise of a
// double prefix, and holds all of the words.
func oneLine(t testing.TB, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", words)
	}
	msg := err.Error()
	if strings.Contains(msg, "\n") {
		t.Errorf("the message has more than one line: %q", msg)
	}
	for _, w := range words {
		if !strings.Contains(msg, w) {
			t.Errorf("the message %q does not say %q", msg, w)
		}
	}
}
