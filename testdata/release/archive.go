package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"io"
	"time"
)

// A file is an entry of an archive or a wheel.
type file struct {
	name       string // with slashes
	data       []byte
	executable bool
}

func (f file) mode() int64 {
	if f.executable {
		return 0o755
	}
	return 0o644
}

// writeTar writes files as a reproducible tar.gz: without owner, host or build time. All files have the given
// modification time.
func writeTar(w io.Writer, files []file, changed time.Time) error {
	z := gzip.NewWriter(w)
	t := tar.NewWriter(z)
	for _, f := range files {
		err := t.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode(), Size: int64(len(f.data)),
			ModTime: changed.UTC().Truncate(time.Second), Format: tar.FormatUSTAR,
		})
		if err != nil {
			return err
		}
		if _, err := t.Write(f.data); err != nil {
			return err
		}
	}
	if err := t.Close(); err != nil {
		return err
	}
	return z.Close()
}

// writeZip writes files as a reproducible zip.
func writeZip(w io.Writer, files []file, changed time.Time) error {
	z := zip.NewWriter(w)
	for _, f := range files {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: changed.UTC()}
		h.SetMode(0)
		h.ExternalAttrs = uint32(0o100000|f.mode()) << 16 // a regular file of Unix
		h.CreatorVersion = 3 << 8                         // Unix
		w, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := w.Write(f.data); err != nil {
			return err
		}
	}
	return z.Close()
}
