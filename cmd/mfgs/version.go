package main

import (
	"io"
	"runtime"
	"runtime/debug"

	"github.com/mfgs/mfgs/internal/install"
	"github.com/mfgs/mfgs/wrap"
	"github.com/urfave/cli/v2"
)

// versions are those of this program and of what it runs on.
type versions struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`   // that it was built from, where that is known
	Modified bool   `json:"modified,omitempty"` // what it was built from differed from the commit
	Time     string `json:"time,omitempty"`     // of the commit, RFC 3339
	Go       string `json:"go"`
	Platform string `json:"platform"`

	// ONNXRuntime is what the next command would load; null where nothing usable is found.
	ONNXRuntime *libraryInfo `json:"onnxruntime"`
}

// libraryInfo names an ONNX Runtime on this machine.
type libraryInfo struct {
	Path    string `json:"path"`
	Version string `json:"version,omitempty"` // "" where the file does not tell
	Source  string `json:"source"`
}

// readVersions asks the program and the machine, without loading a library.
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
		f.add("ONNX Runtime", "none found: mfgs setup installs it")
	}
	_, err := io.WriteString(w, "mfgs "+v.Version+"\n"+f.text())
	return err
}
