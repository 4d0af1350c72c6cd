package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A source is a clean clone of a commit.
type source struct {
	dir     string
	version string
	commit  string
	changed time.Time // commit time, used for all files
}

func (s source) name() string { return "mfgs " + s.version + " of commit " + s.commit[:12] }

// clone clones the commit checked out in the working folder. The clone has one tag, the version, which the go command
// writes into the program. It returns an error if the commit is tagged with another version.
func clone(ctx context.Context, version, dir string) (source, error) {
	s := source{dir: dir, version: version}
	git := func(args ...string) (string, error) {
		out, err := output(ctx, "", nil, "git", args...)
		return strings.TrimSpace(string(out)), err
	}
	root, err := git("rev-parse", "--show-toplevel")
	if err != nil {
		return s, err
	}
	if s.commit, err = git("rev-parse", "HEAD"); err != nil {
		return s, err
	}
	when, err := git("log", "-1", "--format=%ct", s.commit)
	if err != nil {
		return s, err
	}
	seconds, err := strconv.ParseInt(when, 10, 64)
	if err != nil {
		return s, err
	}
	s.changed = time.Unix(seconds, 0).UTC()
	tags, err := git("tag", "--points-at", s.commit, "v[0-9]*")
	if err != nil {
		return s, err
	}
	if tag := "v" + version; tags != "" && tags != tag {
		return s, fmt.Errorf("commit %s is tagged %s: want %s, or no version", s.commit[:12], strings.Join(strings.Fields(tags), ", "), tag)
	}
	for _, step := range [][]string{
		{"clone", "--quiet", "--no-tags", "--no-checkout", root, dir},
		{"-C", dir, "checkout", "--quiet", "--detach", s.commit},
		{"-C", dir, "-c", "tag.gpgSign=false", "tag", "v" + version},
	} {
		if _, err := git(step...); err != nil {
			return s, err
		}
	}
	return s, nil
}

// read reads a file of the source.
func (s source) read(name string) ([]byte, error) { return os.ReadFile(filepath.Join(s.dir, name)) }

// output runs a program and returns its output. The error includes the end of its standard error.
func output(ctx context.Context, dir string, env []string, program string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = dir, env
	cmd.WaitDelay = 10 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		const enough = 4000
		said := bytes.TrimSpace(stderr.Bytes())
		said = said[max(0, len(said)-enough):]
		return nil, errors.Join(fmt.Errorf("%s %s: %w", filepath.Base(program), strings.Join(args, " "), err),
			errors.New(string(said)))
	}
	return stdout.Bytes(), nil
}
