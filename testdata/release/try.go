package main

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/mfgs/mfgs/internal/install"
)

// demoLimit is the time for a demo, mostly for downloading ONNX Runtime, or emulation.
const demoLimit = 15 * time.Minute

// try runs the programs as users would, and reports which ones this machine cannot run.
func (r *release) try(ctx context.Context, chosen []platform, out string) error {
	for _, p := range chosen {
		dir := filepath.Join(r.work, "try", p.goos+"-"+p.goarch)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		how, err := r.tryOne(ctx, p, out, dir)
		if err != nil {
			return fmt.Errorf("trying %s: %w", p, err)
		}
		fmt.Fprintf(r.log, "%s: %s\n", p, how)
	}
	return nil
}

// tryOne runs a program and returns how, or why it cannot.
func (r *release) tryOne(ctx context.Context, p platform, out, dir string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, demoLimit, fmt.Errorf("not done in %v", demoLimit))
	defer cancel()
	wheel := filepath.Join(out, p.wheel(r.version))
	switch {
	case p.own():
		return "the wheel installed into an empty environment, mfgs demo run from it", r.tryWheel(ctx, wheel, dir)
	case p.goos == "linux" && p.goarch == "arm64":
		const missing = "not run: no qemu-aarch64 or no libraries for it (QEMU_LD_PREFIX)"
		libraries := os.Getenv("QEMU_LD_PREFIX")
		if libraries == "" {
			libraries = "/usr/aarch64-linux-gnu"
		}
		emulator, ok := look("qemu-aarch64", "qemu-aarch64-static")
		if _, err := os.Stat(libraries); err != nil || !ok {
			return missing, nil
		}
		root := filepath.Join(dir, "root")
		if err := emulated(libraries, root); err != nil {
			return "", err
		}
		return "mfgs demo run by qemu-aarch64", r.tryForeign(ctx, p, wheel, dir, []string{emulator, "-L", root})
	case p.goos == "windows":
		wine, ok := look("wine64", "wine")
		if !ok {
			return "not run: no wine", nil
		}
		err := r.tryForeign(ctx, p, wheel, dir, []string{wine})
		if err != nil && strings.Contains(err.Error(), oldWine) {
			return "not run: this wine has no bcryptprimitives.dll, which all programs of Go call: Wine 10 has it", nil
		}
		return "mfgs demo run by Wine", err
	}
	return "linked, not run", nil
}

// oldWine is what Go's runtime prints at its start on a Windows, or Wine, older than 10.
const oldWine = "fatal error: bcryptprimitives.dll not found"

// emulated prepares root for an emulator: the folder of libraries, and empty lists of processors. ONNX Runtime reads
// these at its start along with /proc/cpuinfo, and crashes if that describes another architecture, as with qemu 7;
// if they are empty it asks the system.
func emulated(libraries, root string) error {
	libraries, err := filepath.Abs(libraries)
	if err != nil {
		return err
	}
	cpu := filepath.Join(root, "sys", "devices", "system", "cpu")
	if err := os.MkdirAll(cpu, 0o755); err != nil {
		return err
	}
	for _, list := range []string{"possible", "present"} {
		if err := os.WriteFile(filepath.Join(cpu, list), nil, 0o644); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(libraries)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == "sys" {
			continue
		}
		if err := os.Symlink(filepath.Join(libraries, e.Name()), filepath.Join(root, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// look returns the first program that is installed.
func look(names ...string) (string, bool) {
	for _, name := range names {
		if found, err := exec.LookPath(name); err == nil {
			return found, true
		}
	}
	return "", false
}

// tryWheel installs a wheel into an empty environment and runs the demo with empty user folders, so that it installs
// ONNX Runtime.
func (r *release) tryWheel(ctx context.Context, wheel, dir string) error {
	venv := filepath.Join(dir, "venv")
	if _, err := output(ctx, dir, nil, "python3", "-m", "venv", venv); err != nil {
		return err
	}
	bin := filepath.Join(venv, "bin")
	if _, err := output(ctx, dir, nil, filepath.Join(bin, "pip"), "install", "--quiet", "--no-index", wheel); err != nil {
		return err
	}
	return r.demo(ctx, dir, []string{filepath.Join(bin, "mfgs")}, "PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
}

// tryForeign runs the demo of a wheel for another platform in an emulator, with the official ONNX Runtime for that
// platform beside the program.
func (r *release) tryForeign(ctx context.Context, p platform, wheel, dir string, emulator []string) error {
	tag := "win_amd64"
	if p.goos == "linux" {
		tag = "manylinux_2_28_aarch64"
	}
	_, err := output(ctx, dir, nil, "python3", "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:",
		"--platform", tag, "--python-version", "3.12", "--dest", dir, "onnxruntime=="+install.PinnedVersion)
	if err != nil {
		return err
	}
	runtimes, err := filepath.Glob(filepath.Join(dir, "onnxruntime-*.whl"))
	if err != nil || len(runtimes) != 1 {
		return fmt.Errorf("pip left %d packages of ONNX Runtime, want 1", len(runtimes))
	}
	bin := filepath.Join(dir, "bin")
	if err := unpack(wheel, "/scripts/", bin); err != nil {
		return err
	}
	if err := unpack(runtimes[0], "onnxruntime/capi/", bin); err != nil {
		return err
	}
	return r.demo(ctx, dir, append(emulator, filepath.Join(bin, p.program())), "WINEPREFIX="+filepath.Join(dir, "wine"), "WINEDEBUG=-all")
}

// unpack copies the files of a zip whose paths contain a folder.
func unpack(archive, folder, to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	z, err := zip.OpenReader(archive)
	if err != nil {
		return err
	}
	defer z.Close()
	for _, f := range z.File {
		if !strings.Contains(f.Name, folder) || strings.HasSuffix(f.Name, "/") {
			continue
		}
		r, err := f.Open()
		if err != nil {
			return err
		}
		data, err := io.ReadAll(r)
		r.Close()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, path.Base(f.Name)), data, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// demo runs a program's version and demo commands, with empty user folders.
func (r *release) demo(ctx context.Context, dir string, program []string, env ...string) error {
	home := filepath.Join(dir, "home")
	if err := os.MkdirAll(home, 0o755); err != nil {
		return err
	}
	all := append(os.Environ(), "HOME="+home, "XDG_CACHE_HOME="+filepath.Join(home, ".cache"))
	all = append(all, env...)
	for _, run := range []struct{ verb, want string }{
		{"--version", "mfgs v" + r.version},
		{"demo", "the OOD score of mfgs"},
	} {
		out, err := output(ctx, dir, all, program[0], append(program[1:len(program):len(program)], run.verb)...)
		if err != nil {
			return err
		}
		if said := strings.Join(strings.Fields(string(out)), " "); !strings.Contains(said, run.want) {
			return fmt.Errorf("%s said nothing of %q: %s", run.verb, run.want, bytes.TrimSpace(out))
		}
	}
	return nil
}
