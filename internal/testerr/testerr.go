// Package testerr checks error messages in tests.
package testerr

import (
	"strings"
	"testing"
)

// OneLine checks that the message of an error is one line that contains all of the words.
func OneLine(t testing.TB, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", words)
	}
	if strings.ContainsAny(err.Error(), "\n\r") {
		t.Errorf("the message has more than one line: %q", err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the message %q does not contain %q", err, w)
		}
	}
}
