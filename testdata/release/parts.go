package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A builder builds one commit, in a folder of its own.
type builder struct {
	source
	dir    string
	env    []string
	zig    string
	goroot string
	stubs  stubs
	bill   string // the program that writes bills of materials

	programs map[string]string // that were built, by platform
}

// newBuilder prepares a build in dir. With caches, a folder, nothing compiled before is used.
func (r *release) newBuilder(ctx context.Context, dir, caches string) (*builder, error) {
	b := &builder{dir: dir, bill: filepath.Join(dir, "cyclonedx-gomod"), programs: map[string]string{}}
	var err error
	if b.zig, err = zigFolder(ctx, r.zig); err != nil {
		return nil, err
	}
	if b.env, err = environment(ctx, b.zig, caches); err != nil {
		return nil, err
	}
	if b.source, err = clone(ctx, r.version, filepath.Join(dir, "source")); err != nil {
		return nil, err
	}
	goroot, err := output(ctx, b.source.dir, b.env, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	b.goroot = strings.TrimSpace(string(goroot))
	if b.stubs, err = writeStubs(filepath.Join(dir, "stubs"), b.goroot); err != nil {
		return nil, err
	}
	// Its own hash is in the bills: it must be of the same bytes too.
	_, err = output(ctx, filepath.Join(b.source.dir, "testdata", "release", "bill"), append(slices.Clone(b.env), "CGO_ENABLED=0"),
		"go", "build", "-trimpath", "-buildvcs=false", "-o", b.bill, "github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod")
	return b, err
}

// platform makes the files of one platform in the folder out.
func (b *builder) platform(ctx context.Context, p platform, out string) error {
	program, err := b.program(ctx, p)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	if err := p.examine(data, b.dir, b.zig, b.goroot); err != nil {
		return err
	}
	bill, err := output(ctx, "", b.env, b.bill, "bin", "-json", "-noserial", "-notimestamp", "-std", "-version", "v"+b.version, program)
	if err != nil {
		return err
	}
	licences, err := b.licences(ctx, p)
	if err != nil {
		return err
	}
	words, err := b.words(ctx)
	if err != nil {
		return err
	}
	readme, err := b.read("README.md")
	if err != nil {
		return err
	}
	changes, err := b.read("CHANGELOG.md")
	if err != nil {
		return err
	}
	binary := file{name: p.program(), data: data, executable: true}
	all := slices.Concat([]file{binary, {name: "README.md", data: readme}, {name: "CHANGELOG.md", data: changes}},
		licences, words, []file{{name: "mfgs.cdx.json", data: bill}})
	return b.write(p, out, all, wheel{b.version, p.tags, binary, words, licences, bill, readme})
}

// write writes the archive, the wheel and the bill.
func (b *builder) write(p platform, out string, all []file, w wheel) error {
	for i := range all {
		all[i].name = p.archive(b.version, "/"+all[i].name)
	}
	var archive, packed bytes.Buffer
	suffix, pack := ".tar.gz", writeTar
	if p.goos == "windows" {
		suffix, pack = ".zip", writeZip
	}
	if err := pack(&archive, all, b.changed); err != nil {
		return err
	}
	if err := w.write(&packed, b.changed); err != nil {
		return err
	}
	for name, data := range map[string][]byte{
		p.archive(b.version, suffix):      archive.Bytes(),
		p.archive(b.version, ".cdx.json"): w.bill,
		p.wheel(b.version):                packed.Bytes(),
	} {
		if err := os.WriteFile(filepath.Join(out, name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// program builds the program for a platform, once.
func (b *builder) program(ctx context.Context, p platform) (string, error) {
	if built := b.programs[p.String()]; built != "" {
		return built, nil
	}
	built := filepath.Join(b.dir, p.goos+"-"+p.goarch, p.program())
	// No build ID: it is made of the names of folders as well.
	flags := "-s -w -buildid="
	if p.goos == "darwin" {
		flags += ` "-extldflags=` + b.stubs.link + `"`
	}
	_, err := output(ctx, b.source.dir, b.crossed(p), "go", "build", "-trimpath", "-buildvcs=true", "-ldflags="+flags, "-o", built, "./cmd/mfgs")
	if err != nil {
		return "", err
	}
	b.programs[p.String()] = built
	return built, nil
}

// words are the manual page and the scripts of shells, by the program for this machine, at the places
// below /usr or an environment where they are looked for.
func (b *builder) words(ctx context.Context) ([]file, error) {
	i := slices.IndexFunc(platforms, platform.own)
	if i < 0 {
		return nil, errors.New("a release is built on a platform that it has a program for, and this one is none")
	}
	program, err := b.program(ctx, platforms[i])
	if err != nil {
		return nil, err
	}
	var all []file
	for _, word := range []struct {
		name string
		args []string
	}{
		{"share/man/man1/mfgs.1", []string{"man"}},
		{"share/bash-completion/completions/mfgs", []string{"completion", "bash"}},
		{"share/zsh/site-functions/_mfgs", []string{"completion", "zsh"}},
		{"share/fish/vendor_completions.d/mfgs.fish", []string{"completion", "fish"}},
	} {
		text, err := output(ctx, b.source.dir, b.env, program, word.args...)
		if err != nil {
			return nil, err
		}
		all = append(all, file{name: word.name, data: text})
	}
	return all, nil
}

// licenceFile is the name of a file that must go with what is linked.
var licenceFile = regexp.MustCompile(`(?i)^(licen[sc]es?|copying|copyright|notice|patents)([.-].*)?$`)

// licences are the project's own, and one file with those of all that the program is linked with: Go,
// its modules, and of the C libraries what zig links into it.
func (b *builder) licences(ctx context.Context, p platform) ([]file, error) {
	var own []file
	for _, name := range []string{"LICENSE", "NOTICE"} {
		text, err := b.read(name)
		if err != nil {
			return nil, err
		}
		own = append(own, file{name: name, data: text})
	}
	list, err := output(ctx, b.source.dir, b.crossed(p), "go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}", "./cmd/mfgs")
	if err != nil {
		return nil, err
	}
	modules := strings.Split(strings.TrimSpace(string(list)), "\n")
	slices.Sort(modules)
	var text strings.Builder
	text.WriteString("mfgs is linked with what follows, under the licences of each.\n")
	for _, module := range slices.Compact(modules) {
		name, dir, _ := strings.Cut(module, "\t")
		if name == "" {
			continue // packages of Go itself
		}
		if err := addLicences(&text, name, dir); err != nil {
			return nil, err
		}
	}
	if err := addLicences(&text, "Go", b.goroot); err != nil {
		return nil, err
	}
	if err := addLicences(&text, "zig "+zigVersion, b.zig); err != nil {
		return nil, err
	}
	libc := map[string]string{"linux": "glibc", "windows": "mingw"}[p.goos]
	if libc != "" {
		if err := addLicences(&text, "start-up code of "+libc, filepath.Join(b.zig, "lib", "libc", libc)); err != nil {
			return nil, err
		}
	}
	return append(own, file{name: "THIRD-PARTY-LICENSES.txt", data: []byte(text.String())}), nil
}

// addLicences adds the licences in a folder.
func addLicences(text *strings.Builder, name, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	found := false
	for _, e := range entries {
		if !e.Type().IsRegular() || !licenceFile.MatchString(e.Name()) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		found = true
		fmt.Fprintf(text, "\n%s\n%s: %s\n\n%s\n", strings.Repeat("=", 80), name, e.Name(), strings.TrimSpace(string(data)))
	}
	if !found {
		return fmt.Errorf("%s has no licence in %s", name, dir)
	}
	return nil
}
