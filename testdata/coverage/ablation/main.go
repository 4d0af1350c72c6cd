// Command ablation switches off the rules by which onnx/head finds a classifier's last layer, one at a time, and counts
// the models of a folder that are then not wrapped, or wrapped differently.
//
// A rule is an operator name in the code of onnx/head and internal/onnx/graph (a row of a table, a case of a
// switch, a name in a list), which is replaced by one that no operator has, or one of the functions in switched,
// which is made to recognise nothing. The code is changed by go build -overlay only.
//
//	go run -C testdata ./coverage/ablation -models coverage/work -models ../../shared/data/models > table.md
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
)

type folders []string

func (f *folders) String() string     { return strings.Join(*f, ",") }
func (f *folders) Set(s string) error { *f = append(*f, s); return nil }

func main() {
	log.SetFlags(0)
	var models folders
	flag.Var(&models, "models", "folder whose .onnx files are looked at, as often as wanted")
	probing := flag.Bool("probe", false, "print what is found in the models named on stdin, and stop")
	root := flag.String("root", "..", "the repository")
	numbers := flag.String("rules", "", "with -probe: numbers of rules that are switched off, one after another")
	only := flag.String("only", "", "regular expression: only rules whose names match")
	raw := flag.String("raw", "", "file for the rule and model of every difference")
	workers := flag.Int("workers", runtime.NumCPU(), "rules tried at a time")
	flag.Parse()
	if *probing {
		probe(os.Stdin, os.Stdout, *numbers)
		return
	}
	if err := run(*root, models, *only, *raw, *workers); err != nil {
		log.Fatal("ablation: ", err)
	}
}

func run(root string, folders []string, only, raw string, workers int) error {
	match, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	list, err := find(folders)
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "ablation")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	rules, binary, err := build(root, scratch)
	if err != nil {
		return err
	}
	t := &table{needs: map[string][]string{}}
	if err := t.fill(binary, rules, match, list, workers); err != nil {
		return err
	}
	if raw != "" {
		var b bytes.Buffer
		for _, rule := range slices.Sorted(maps.Keys(t.needs)) {
			for _, model := range t.needs[rule] {
				fmt.Fprintf(&b, "%s\t%s\n", rule, model)
			}
		}
		if err := os.WriteFile(raw, b.Bytes(), 0o666); err != nil {
			return err
		}
	}
	return t.write(os.Stdout)
}

// find returns the model files in folders.
func find(folders []string) (list []string, err error) {
	for _, folder := range folders {
		if folder, err = filepath.Abs(folder); err != nil {
			return nil, err
		}
		err = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".onnx") && d.Type().IsRegular() {
				list = append(list, path)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no .onnx files in %v", folders)
	}
	return list, nil
}

// build builds this command with instrumented head-finding code, and returns the names of the rules.
func build(root, scratch string) (rules []string, binary string, err error) {
	replace := map[string]string{}
	for _, dir := range []string{"onnx/internal/graph", "onnx/head"} {
		names, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		if err != nil {
			return nil, "", err
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			source, err := instrument(name, dir, &rules)
			if err != nil {
				return nil, "", err
			}
			if err := overlay(replace, scratch, name, source); err != nil {
				return nil, "", err
			}
		}
	}
	for name, source := range map[string]string{"onnx/internal/graph/ablation.go": switches, "onnx/head/ablation.go": exported,
		"testdata/coverage/ablation/switched.go": imported} {
		if err := overlay(replace, scratch, filepath.Join(root, name), []byte(source)); err != nil {
			return nil, "", err
		}
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return nil, "", err
	}
	if err := os.WriteFile(filepath.Join(scratch, "overlay.json"), list, 0o666); err != nil {
		return nil, "", err
	}
	binary = filepath.Join(scratch, "ablation")
	c := exec.Command("go", "build", "-overlay", filepath.Join(scratch, "overlay.json"), "-o", binary, "./coverage/ablation")
	c.Dir, c.Stderr = filepath.Join(root, "testdata"), os.Stderr
	return rules, binary, c.Run()
}

func overlay(replace map[string]string, scratch, name string, source []byte) error {
	name, err := filepath.Abs(name)
	if err != nil {
		return err
	}
	replace[name] = filepath.Join(scratch, fmt.Sprintf("%d.go", len(replace)))
	return os.WriteFile(replace[name], source, 0o666)
}

// fill probes all models, in several processes.
func (t *table) fill(binary string, rules []string, match *regexp.Regexp, list []string, workers int) error {
	var wanted []string
	for i, rule := range rules {
		if match.MatchString(rule) {
			wanted = append(wanted, fmt.Sprint(i+1))
			t.needs[rule] = nil
		}
	}
	var lock sync.Mutex
	var group sync.WaitGroup
	var failed error
	for worker := range workers {
		var part []string
		for i := worker; i < len(list); i += workers {
			part = append(part, list[i])
		}
		group.Go(func() {
			c := exec.Command(binary, "-probe", "-rules", strings.Join(wanted, ","))
			c.Stdin, c.Stderr = strings.NewReader(strings.Join(part, "\n")), os.Stderr
			out, err := c.Output()
			lock.Lock()
			defer lock.Unlock()
			if err != nil {
				failed = err
			}
			for line := range strings.Lines(string(out)) {
				fields := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 3)
				number, err := strconv.Atoi(fields[0])
				if err != nil || len(fields) != 3 {
					failed = fmt.Errorf("the probe says %q", line)
					return
				}
				if number == 0 {
					t.count(fields[1], fields[2])
				} else {
					t.needs[rules[number-1]] = append(t.needs[rules[number-1]], fields[1])
				}
			}
		})
	}
	group.Wait()
	return failed
}
