package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// A wheel is a Python package: pip installs its modules, the program as a script of an environment, and the manual page
// and completions at their places. The modules need the packages of an extra, which the program does not. See the
// specifications of binary distributions (PEP 427), metadata 2.4 and tags.
type wheel struct {
	version  string
	tags     []string // platforms
	program  file
	data     []file // below the root of the environment
	modules  []file // of the Python package
	licences []file
	bill     []byte // of materials: CycloneDX as JSON
	readme   []byte
}

// write writes the wheel reproducibly.
func (w wheel) write(to io.Writer, changed time.Time) error {
	root := "mfgs-" + w.version
	info, data := root+".dist-info/", root+".data/"
	var files []file
	add := func(name string, f file) {
		f.name = name
		files = append(files, f)
	}
	add(data+"scripts/"+w.program.name, w.program)
	for _, f := range w.data {
		add(data+"data/"+f.name, f)
	}
	for _, f := range w.modules {
		add(f.name, f)
	}
	// dist-info comes last, for readers that begin at the end of the file.
	for _, f := range w.licences {
		add(info+"licenses/"+f.name, f)
	}
	add(info+"sboms/mfgs.cdx.json", file{data: w.bill})
	add(info+"METADATA", file{data: w.metadata()})
	add(info+"WHEEL", file{data: w.description()})
	add(info+"RECORD", file{data: record(files, info+"RECORD")})
	return writeZip(to, files, changed)
}

func (w wheel) metadata() []byte {
	var b bytes.Buffer
	field := func(name, value string) { fmt.Fprintf(&b, "%s: %s\n", name, value) }
	field("Metadata-Version", "2.4")
	field("Name", "mfgs")
	field("Version", w.version)
	field("Summary", "Calibrated uncertainty for any trained ONNX classifier")
	field("License-Expression", "Apache-2.0")
	for _, f := range w.licences {
		field("License-File", f.name)
	}
	field("Keywords", "onnx,uncertainty,calibration,out-of-distribution,laplace")
	field("Classifier", "Environment :: Console")
	field("Classifier", "Programming Language :: Go")
	field("Classifier", "Topic :: Scientific/Engineering :: Artificial Intelligence")
	field("Requires-Python", ">=3.11") // as onnxruntime 1.24, below, does
	field("Provides-Extra", "python")
	field("Requires-Dist", `numpy; extra == "python"`)
	field("Requires-Dist", `onnxruntime>=1.24; extra == "python"`)
	field("Project-URL", "Source, https://github.com/mfgs/mfgs")
	field("Description-Content-Type", "text/markdown")
	b.WriteByte('\n')
	b.Write(w.readme)
	return b.Bytes()
}

func (w wheel) description() []byte {
	var b bytes.Buffer
	b.WriteString("Wheel-Version: 1.0\nGenerator: mfgs-release\nRoot-Is-Purelib: false\n")
	for _, tag := range w.tags {
		fmt.Fprintf(&b, "Tag: py3-none-%s\n", tag)
	}
	return b.Bytes()
}

// record lists files with their hashes and sizes, and itself without them.
func record(files []file, itself string) []byte {
	var b strings.Builder
	c := csv.NewWriter(&b)
	for _, f := range files {
		sum := sha256.Sum256(f.data)
		c.Write([]string{f.name, "sha256=" + base64.RawURLEncoding.EncodeToString(sum[:]), strconv.Itoa(len(f.data))})
	}
	c.Write([]string{itself, "", ""})
	c.Flush() // cannot fail in memory
	return []byte(b.String())
}
