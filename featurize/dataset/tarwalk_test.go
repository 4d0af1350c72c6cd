package dataset

import (
	"archive/tar"
	"bytes"
	"testing"
)

// counting counts the bytes that are read.
type counting struct {
	*bytes.Reader
	read int
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.read += n
	return n, err
}

func TestContentOfArchivesIsSkippedBySeeking(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range []string{"a.png", "b.png"} {
		if err := w.WriteHeader(&tar.Header{Name: name, Size: size, Mode: 0o666}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(make([]byte, size)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r := &counting{Reader: bytes.NewReader(b.Bytes())}
	members := 0
	for _, err := range walkTar(r) {
		if err != nil {
			t.Fatal(err)
		}
		members++
	}
	if members != 2 || r.read > size/16 {
		t.Errorf("%d bytes were read to list %d members of %d bytes each", r.read, members, size)
	}
}
