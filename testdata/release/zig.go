package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// zigVersion is the version of the package ziglang on PyPI, which compiles and links C for all platforms, except
// for parts of macOS (stubs.go).
const zigVersion = "0.17.1"

// zigWheel is the SHA-256 of the package for Linux on x86-64, where releases are built.
const zigWheel = "ea6cc5d87b033cf0aedfbc8f9549a908cae6c50ac31f1698188fa48a74524b54"

// zigFolder returns the folder of the given zig, or of one installed into the user's cache.
func zigFolder(ctx context.Context, given string) (string, error) {
	if given != "" {
		return filepath.Abs(given)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	venv := filepath.Join(cache, "mfgs-release", "zig-"+zigVersion)
	find := func() (string, bool) {
		found, err := filepath.Glob(filepath.Join(venv, "lib", "python3*", "site-packages", "ziglang", "zig"))
		if err != nil || len(found) != 1 {
			return "", false
		}
		return filepath.Dir(found[0]), true
	}
	if dir, ok := find(); ok {
		return dir, nil
	}
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return "", fmt.Errorf("zig %s is installed on linux/amd64 alone: install ziglang==%[1]s from PyPI and name its folder with -zig", zigVersion)
	}
	if err := os.MkdirAll(filepath.Dir(venv), 0o755); err != nil {
		return "", err
	}
	wanted := filepath.Join(filepath.Dir(venv), "requirements.txt")
	if err := os.WriteFile(wanted, []byte("ziglang=="+zigVersion+" --hash=sha256:"+zigWheel+"\n"), 0o644); err != nil {
		return "", err
	}
	if _, err := output(ctx, "", nil, "python3", "-m", "venv", "--clear", venv); err != nil {
		return "", err
	}
	_, err = output(ctx, "", nil, filepath.Join(venv, "bin", "pip"), "install", "--quiet", "--require-hashes",
		"--no-deps", "--only-binary=:all:", "-r", wanted)
	if err != nil {
		return "", err
	}
	if dir, ok := find(); ok {
		return dir, nil
	}
	return "", errors.New("the package ziglang has no zig")
}

// environment returns the environment of the go command. Of this machine's settings it keeps only those for module
// sources and caches, so that no other affects the build. caches, if not "", is a folder for fresh build caches.
func environment(ctx context.Context, zig, caches string) ([]string, error) {
	var env []string
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if !strings.HasPrefix(name, "GO") && !strings.HasPrefix(name, "CGO_") && name != "CC" && name != "CXX" && name != "PATH" {
			env = append(env, v)
		}
	}
	// Found in PATH, so that no folder name enters the build's identity.
	env = append(env, "PATH="+zig+string(filepath.ListSeparator)+os.Getenv("PATH"),
		"GOENV=off", "GOFLAGS=-mod=readonly", "GOTOOLCHAIN=local", "GOWORK=off")
	for _, name := range []string{"GOPATH", "GOMODCACHE", "GOCACHE", "GOPROXY", "GOSUMDB", "GONOPROXY", "GONOSUMDB", "GOPRIVATE", "GOINSECURE"} {
		value, err := output(ctx, "", nil, "go", "env", name)
		if err != nil {
			return nil, err
		}
		env = append(env, name+"="+strings.TrimSpace(string(value)))
	}
	if caches != "" {
		env = append(env, "GOCACHE="+filepath.Join(caches, "go"), "ZIG_GLOBAL_CACHE_DIR="+filepath.Join(caches, "zig"),
			"ZIG_LOCAL_CACHE_DIR="+filepath.Join(caches, "zig"))
	}
	path, err := exec.LookPath(filepath.Join(zig, "zig"))
	if err != nil {
		return nil, err
	}
	version, err := output(ctx, "", env, path, "version")
	if err != nil {
		return nil, err
	}
	if v := strings.TrimSpace(string(version)); v != zigVersion {
		return nil, fmt.Errorf("%s is zig %s: want %s", path, v, zigVersion)
	}
	return env, nil
}

// crossed returns the environment for building for a platform.
func (b *builder) crossed(p platform) []string {
	flags := "-O2"
	if p.goos == "darwin" {
		flags += b.stubs.compile
	}
	// Without -g, which makes zig keep debugging information.
	return append(slices.Clone(b.env), "GOOS="+p.goos, "GOARCH="+p.goarch, "GOAMD64=v1", "GOARM64=v8.0", "CGO_ENABLED=1",
		"CC=zig cc -target "+p.target, "CXX=zig c++ -target "+p.target, "CGO_CFLAGS="+flags, "CGO_CXXFLAGS="+flags, "CGO_LDFLAGS=-O2")
}
