package files

import (
	"context"
	"io"
)

// Reader returns a reader of r that fails with the cause of ctx once that has ended, for files that take long to read.
func Reader(ctx context.Context, r io.Reader) io.Reader { return &contextReader{ctx, r} }

type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *contextReader) Read(p []byte) (int, error) {
	if err := context.Cause(c.ctx); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
