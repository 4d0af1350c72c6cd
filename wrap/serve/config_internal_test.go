package serve

import "testing"

// However few files a process may open, the connections of HTTP and gRPC leave some for other files, and one client
// leaves some for other clients.
func TestConnectionsFitTheLimitOfFiles(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		files             uint64
		perClient         int
		wantMost, wantOne int
	}{
		{unlimited, DefaultMaxPerClient, 8192, 2048},
		{2*8192 + reserved, DefaultMaxPerClient, 8192, 2048},
		{2*8192 + reserved - 2, DefaultMaxPerClient, 8191, 2047},
		{4096, DefaultMaxPerClient, (4096 - reserved) / 2, (4096 - reserved) / 8},
		{1024, DefaultMaxPerClient, 256, 64},
		{1024, 8192, 256, 256},
		{4, DefaultMaxPerClient, 1, 1},
	} {
		if most, each := connectionsWithin(test.files, test.perClient); most != test.wantMost || each != test.wantOne {
			t.Errorf("%d files, %d for a client: %d and %d, want %d and %d", test.files, test.perClient, most, each, test.wantMost, test.wantOne)
		}
	}
}
