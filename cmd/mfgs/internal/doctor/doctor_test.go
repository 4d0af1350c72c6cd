package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

// The least limit counts: of the machine, of any cgroup above the process, or of the address space.
func TestMemoryIsTheLeastLimit(t *testing.T) {
	const machine = "MemTotal:  8388608 kB\nMemFree: 1 kB\nMemAvailable:  4194304 kB\n"
	for name, test := range map[string]struct {
		files  map[string]string
		status Status
		want   string
	}{
		"machine": {map[string]string{"proc/meminfo": machine}, OK, "8.0 GiB, 4.0 GiB available"},
		"version 2, above": {map[string]string{"proc/meminfo": machine, "proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/memory.max": "2147483648\n", "sys/fs/cgroup/a/b/memory.max": "max\n"}, OK,
			"8.0 GiB, 4.0 GiB available, limit of the cgroup 2.0 GiB"},
		"version 1, in a container": {map[string]string{"proc/meminfo": machine,
			"proc/self/cgroup": "5:cpu,cpuacct:/x\n4:memory:/docker/1\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "268435456\n"}, Warn,
			"8.0 GiB, 4.0 GiB available, limit of the cgroup 256 MiB"},
		"version 1, no limit": {map[string]string{"proc/meminfo": machine, "proc/self/cgroup": "4:memory:/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, OK, "8.0 GiB, 4.0 GiB available"},
		"address space": {map[string]string{"proc/meminfo": machine,
			"proc/self/limits": "Max address space         104857600            unlimited            bytes     \n"}, Warn,
			"8.0 GiB, 4.0 GiB available, address space 100 MiB (ulimit -v)"},
		"no limits": {map[string]string{"proc/meminfo": machine,
			"proc/self/limits": "Max address space         unlimited            unlimited            bytes     \n"}, OK,
			"8.0 GiB, 4.0 GiB available"},
		"little": {map[string]string{"proc/meminfo": "MemTotal: 1048576 kB\nMemAvailable: 102400 kB\n"}, Warn,
			"1.0 GiB, 100 MiB available"},
		"torn": {map[string]string{"proc/meminfo": machine, "proc/self/cgroup": "memory\n0:\n\n"}, OK,
			"8.0 GiB, 4.0 GiB available"},
		"another system": {nil, OK, "unknown on "},
	} {
		t.Run(name, func(t *testing.T) {
			system := fstest.MapFS{}
			for file, text := range test.files {
				system[file] = &fstest.MapFile{Data: []byte(text)}
			}
			got := memory(system)
			exact := len(test.files) > 0
			if got.Status != test.status || exact && got.Found != test.want ||
				!strings.HasPrefix(got.Found, test.want) {
				t.Errorf("%s, %s; want %s, %s", got.Status, got.Found, test.status, test.want)
			}
			if (got.Fix == "") != (got.Status == OK) {
				t.Errorf("%s has the fix %q", got.Status, got.Fix)
			}
		})
	}
}

func TestTheProbeFileIsRemoved(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), make([]byte, 3<<20), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := write(dir); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the folder holds %v, %v; want the one file that was there", entries, err)
	}
	if n := used(dir); n != 3<<20 {
		t.Errorf("it holds %d bytes, want %d", n, 3<<20)
	}
	if err := write(filepath.Join(dir, "a")); err == nil {
		t.Error("a file was written to as a folder")
	}
}

func TestPathsInFixesAreOneWord(t *testing.T) {
	for path, want := range map[string]string{"/a/b.so": "/a/b.so", "a b": "'a b'", "it's $1": `'it'\''s $1'`} {
		if got := quoted(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}
