package main

import (
	"fmt"
	"io"

	"github.com/mfgs/mfgs/featurize/ort"
	"github.com/mfgs/mfgs/internal/install"
	"github.com/urfave/cli/v2"
)

func (p *program) setup() *cli.Command {
	return &cli.Command{
		Name:      "setup",
		Usage:     "find or install ONNX Runtime",
		UsageText: "mfgs setup [--force | --no-install]",
		Description: fmt.Sprintf(`Searches for ONNX Runtime %s or newer, as every command does: --runtime, the
variable %s, next to the executable, the user's cache,
the system, and Python installations. If there is none, installs the
official build of %s in the user's cache.`, install.MinVersion, install.EnvLibrary, install.PinnedVersion),
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "force", Category: runtimeFlags, Usage: "install " + install.PinnedVersion + " even if ONNX Runtime is found"},
			runtimePathFlag(runtimeFlags),
			noInstallFlag(),
			jsonFlag(),
		},
		Action: func(c *cli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			for _, other := range []string{"no-install", "runtime"} {
				if c.Bool("force") && c.IsSet(other) {
					return usagef(c.Command.Name, "--force and --%s contradict each other", other)
				}
			}
			bar := p.progress()
			config := install.Config{
				Flag: c.String("runtime"), Install: !c.Bool("no-install"), Force: c.Bool("force"),
				Progress: bar.install,
			}
			var lib install.Library
			var err error
			if config.Force {
				lib, err = install.Install(c.Context, config)
			} else {
				lib, err = install.Ensure(c.Context, config)
			}
			bar.done()
			if err != nil {
				return err
			}
			// A library may be found and still fail to load.
			if err := ort.Load(lib); err != nil {
				return err
			}
			if loaded, ok := ort.Loaded(); ok {
				lib.Version = loaded.Version
			}
			if c.Bool("json") {
				return writeJSON(p.stdout, struct {
					Path      string `json:"path"`
					Version   string `json:"version"`
					Source    string `json:"source"`
					Installed string `json:"installed,omitempty"`
				}{lib.Path, lib.Version, lib.Source, lib.Installed})
			}
			var f facts
			f.add("ONNX Runtime", lib.Version)
			f.add("library", lib.Path)
			f.add("found by", lib.Source)
			if lib.Installed != "" {
				f.add("installed from", lib.Installed)
			}
			_, err = io.WriteString(p.stdout, f.text())
			return err
		},
	}
}
