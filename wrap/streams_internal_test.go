package wrap

import "testing"

// However large its states are, the streams of a network that are open at once have bounded memory, and there may be
// one.
func TestOpenStreamsHaveBoundedMemory(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		each  int64
		most  int
		bytes int64
	}{
		{0, 65536, 0}, {48, 65536, 65536 * 48}, {1 << 14, 65536, 1 << 30}, {1<<14 + 1, 65532, 65532 * (1<<14 + 1)},
		{1 << 20, 1024, 1 << 30}, {1 << 30, 1, 1 << 30}, {1 << 40, 1, 1 << 40},
	} {
		if most, bytes := mostStreams(c.each); most != c.most || bytes != c.bytes {
			t.Errorf("states of %d bytes: %d streams with %d bytes, want %d with %d", c.each, most, bytes, c.most, c.bytes)
		}
	}
}
