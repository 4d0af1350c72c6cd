package main

import (
	"io"

	"github.com/mfgs/mfgs/onnx/files"
)

// writeFile writes a whole file, or none.
func writeFile(path string, data []byte) error {
	return files.Write(path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}
