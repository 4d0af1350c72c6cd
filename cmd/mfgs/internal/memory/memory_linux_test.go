package memory

import (
	"strings"
	"testing"
)

func TestOnlyWantOfMemoryIsTakenForIt(t *testing.T) {
	for last, want := range map[string]bool{
		"runtime: out of memory: cannot allocate 20971520-byte block (33161216 in use)": true,
		"runtime/cgo: pthread_create failed: Resource temporarily unavailable":          true,
		"fatal error: failed to reserve page summary memory":                            true,
		"libgcc_s.so.1 must be installed for unwinding to work":                         true,
		"terminate called after throwing an instance of 'std::bad_alloc'":               true,
		"panic: runtime error: index out of range [3] with length 3":                    false,
		"fatal error: all goroutines are asleep - deadlock!":                            false,
		"mfgs: x.csv: out of memory":                                                    false,
	} {
		const before, behind = "mfgs: warning: a\n", "\ngoroutine 1 [running]:\nmain.main()\n"
		var b strings.Builder
		all := before + last + behind
		if died := copyUntilDeath(&b, strings.NewReader(all)); died != want {
			t.Errorf("%s: taken for want of memory: %t", last, died)
		}
		if got := b.String(); want && got != before || !want && got != all {
			t.Errorf("%s: copied %q", last, got)
		}
	}
}
