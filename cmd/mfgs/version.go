package main

import (
	"io"
	"runtime"
	"runtime/debug"

	"github.com/mfgs/mfgs/internal/install"
	"github.com/mfgs/mfgs/wrap"
	"github.com/urfave/cli/v2"
)

// versions are the versions of this program and its environment.
type versions struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`   // it was built from, if known
	Modified bool   `json:"modified,omitempty"` // the work tree differed from the commit
	Time     string `json:"time,omitempty"`     // of the commit, RFC 3339
	Go       string `json:"go"`
	Platform string `json:"platform"`

	// ONNXRuntime is the library that commands would load; null if none is found.
	ONNXRuntime *libraryInfo `json:"onnxruntime"`
}

// libraryInfo describes an ONNX Runtime library.
type libraryInfo struct {
	Path    string `json:"path"`
	Version string `json:"version,omitempty"` // "" if unknown
	Source  string `json:"source"`
}

// readVersions finds the versions without loading a library.
func readVersions() versions {
	v := versions{Version: wrap.Version(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				v.Commit = s.Value
			case "vcs.modified":
				v.Modified = s.Value == "true"
			case "vcs.time":
				v.Time = s.Value
			}
		}
	}
	if lib, err := install.Find(install.Config{}); err == nil {
		v.ONNXRuntime = &libraryInfo{lib.Path, lib.Version, lib.Source}
	}
	return v
}

func (p *program) version() *cli.Command {
	return &cli.Command{
		Name:        "version",
		Usage:       "print the versions of mfgs and ONNX Runtime",
		UsageText:   "mfgs version [--json]",
		Description: "The first line is mfgs and its version, for scripts. mfgs --version is the same.",
		Flags:       []cli.Flag{jsonFlag()},
		Action: func(c *cli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			if c.Bool("json") {
				return writeJSON(p.stdout, readVersions())
			}
			return writeVersions(p.stdout, readVersions())
		},
	}
}

func writeVersions(w io.Writer, v versions) error {
	var f facts
	if v.Commit != "" {
		commit := v.Commit
		if v.Modified {
			commit += ", modified"
		}
		if v.Time != "" {
			commit += ", " + v.Time
		}
		f.add("commit", commit)
	}
	f.add("built by", v.Go+" for "+v.Platform)
	if lib := v.ONNXRuntime; lib != nil {
		f.add("ONNX Runtime", lib.Version)
		f.add("library", lib.Path)
		f.add("found by", lib.Source)
	} else {
		f.add("ONNX Runtime", "not found: mfgs setup installs it")
	}
	_, err := io.WriteString(w, "mfgs "+v.Version+"\n"+f.text())
	return err
}
