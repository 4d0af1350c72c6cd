package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/mfgs/mfgs/internal/install"
)

const (
	wantedSpace  = 128 << 20 // on the disk of the cache folder, for ONNX Runtime and its archive
	wantedMemory = 512 << 20 // enough to calibrate models of usual size
)

// cache checks the folder that ONNX Runtime is installed to; problems there matter only if it must be installed.
func cache(needed bool) Check {
	bad := func(found string) Check {
		fix := map[string]string{"darwin": "export HOME=FOLDER", "windows": `$env:LocalAppData = "FOLDER"`}[runtime.GOOS]
		check := Check{"cache", Warn, found, cmp.Or(fix, "export XDG_CACHE_HOME=FOLDER")}
		if needed {
			check.Status = Fail
		}
		return check
	}
	dir, err := install.CacheDir()
	if err != nil {
		return bad(err.Error())
	}
	at, state := dir, "not created yet"
	switch info, err := os.Stat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		// It will be made when needed.
		for err != nil && filepath.Dir(at) != at {
			at = filepath.Dir(at)
			info, err = os.Stat(at)
		}
		if err == nil && info.IsDir() {
			err = mayWrite(at)
		}
		if err != nil {
			return bad(fmt.Sprintf("%s cannot be created in %s: %v", dir, at, err))
		}
	case err != nil:
		return bad(err.Error())
	case !info.IsDir():
		return bad(dir + " is not a folder")
	default:
		if err := write(dir); err != nil {
			return bad(fmt.Sprintf("%s cannot be written to: %v", dir, err))
		}
		state = "writable, contains " + bytes(used(dir))
	}
	found := dir + ", " + state
	if space, ok := free(at); ok {
		if found += ", " + bytes(space) + " free"; space < wantedSpace {
			return bad(found + ", want " + bytes(wantedSpace))
		}
	}
	return Check{"cache", OK, found, ""}
}

// write writes a file into a folder and removes it.
func write(dir string) error {
	f, err := os.CreateTemp(dir, ".doctor-")
	if err != nil {
		return err
	}
	_, err = f.WriteString("mfgs")
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}

// used returns the size of all files in a folder, in bytes.
func used(dir string) (n uint64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // unreadable, or just removed
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			n += uint64(info.Size())
		}
		return nil
	})
	return n
}

// memory checks how much memory this process may use, by Linux's files below system; other systems have none.
func memory(system fs.FS) Check {
	total, ok := number(system, "proc/meminfo", "MemTotal:")
	available, _ := number(system, "proc/meminfo", "MemAvailable:")
	total, available = total<<10, available<<10
	if !ok {
		return Check{"memory", OK, "unknown on " + runtime.GOOS, ""}
	}
	found, room := fmt.Sprintf("%s, %s available", bytes(total), bytes(available)), available
	if limit, ok := cgroupMemory(system); ok && limit < total {
		found, room = fmt.Sprintf("%s, limit of the cgroup %s", found, bytes(limit)), min(room, limit)
	}
	if limit, ok := number(system, "proc/self/limits", "Max address space"); ok {
		found, room = fmt.Sprintf("%s, address space %s (ulimit -v)", found, bytes(limit)), min(room, limit)
	}
	if room < wantedMemory {
		return Check{"memory", Warn, found, "mfgs calibrate --structure kron --batch 1 --model MODEL --train SPEC --val SPEC --out DIR"}
	}
	return Check{"memory", OK, found, ""}
}

// number reads the first number after a label in a file.
func number(system fs.FS, file, label string) (n uint64, ok bool) {
	data, err := fs.ReadFile(system, file)
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(data)) {
		if rest, found := strings.CutPrefix(line, label); found {
			if words := strings.Fields(rest); len(words) > 0 {
				n, err = strconv.ParseUint(words[0], 10, 64)
				return n, err == nil
			}
		}
	}
	return 0, false
}

// cgroupMemory returns the least limit of this process's cgroups and their parents, version 1 or 2.
func cgroupMemory(system fs.FS) (least uint64, ok bool) {
	groups, err := fs.ReadFile(system, "proc/self/cgroup")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(groups)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) < 3 {
			continue
		}
		folder, file := "sys/fs/cgroup", "memory.max"
		if fields[1] != "" {
			folder, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
			if !slices.Contains(strings.Split(fields[1], ","), "memory") {
				continue
			}
		}
		// In a container the path may be the one outside of it; its own group is then at the root.
		for dir := path.Clean("/" + fields[2]); ; dir = path.Dir(dir) {
			if n, found := number(system, path.Join(folder, dir, file), ""); found && (!ok || n < least) {
				least, ok = n, true
			}
			if dir == "/" {
				break
			}
		}
	}
	return least, ok
}
