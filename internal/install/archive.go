package install

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/mfgs/mfgs/internal/files"
)

// maxLibrary bounds the size of a library in an archive, in bytes. The largest official one of the pinned
// version has 46 million.
const maxLibrary = 512 << 20

// verify checks that the file at path is the archive.
func (a *archive) verify(ctx context.Context, path string) error {
	f, err := files.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, contextReader{ctx, f})
	if err != nil {
		return err
	}
	if n != a.size {
		return fmt.Errorf("%s: want %d bytes, got %d", a.name, a.size, n)
	}
	if sum := hex.EncodeToString(h.Sum(nil)); sum != a.sha256 {
		return fmt.Errorf("%s: want sha256 %s, got %s", a.name, a.sha256, sum)
	}
	return nil
}

// extract copies the library from the archive at path to a new file dst, and syncs it.
func (a *archive) extract(ctx context.Context, path, dst string) error {
	if strings.HasSuffix(a.name, ".tgz") {
		return a.extractTar(ctx, path, dst)
	}
	z, err := zip.OpenReader(path)
	if err != nil {
		return fmt.Errorf("%s: %w", a.name, err)
	}
	defer z.Close()
	for _, e := range z.File {
		if e.Name != a.entry || !e.Mode().IsRegular() {
			continue
		}
		r, err := e.Open()
		if err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
		defer r.Close()
		return writeLibrary(ctx, r, dst, maxLibrary)
	}
	return a.missing()
}

func (a *archive) extractTar(ctx context.Context, file, dst string) error {
	f, err := files.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(contextReader{ctx, f})
	if err != nil {
		return fmt.Errorf("%s: %w", a.name, err)
	}
	t := tar.NewReader(z)
	for {
		e, err := t.Next()
		if errors.Is(err, io.EOF) {
			return a.missing()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
		if path.Clean(e.Name) == a.entry && e.Typeflag == tar.TypeReg {
			return writeLibrary(ctx, t, dst, maxLibrary)
		}
	}
}

func (a *archive) missing() error {
	return fmt.Errorf("%s has no file %s", a.name, a.entry)
}

func writeLibrary(ctx context.Context, r io.Reader, dst string, limit int64) (err error) {
	f, err := os.OpenFile(dst, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
	}()
	n, err := io.Copy(f, contextReader{ctx, io.LimitReader(r, limit+1)})
	if err != nil {
		return err
	}
	if n > limit {
		return fmt.Errorf("the library in the archive is larger than %d bytes", limit)
	}
	return f.Sync()
}

// A contextReader fails when its context ends.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.r.Read(p)
}
