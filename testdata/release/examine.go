package main

import (
	"bytes"
	"debug/elf"
	"debug/macho"
	"debug/pe"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// examine checks that a program needs nothing that its platform may lack, and contains none of the folder names.
func (p platform) examine(program []byte, folders ...string) error {
	for _, folder := range folders {
		if folder != "" && bytes.Contains(program, []byte(folder)) {
			return fmt.Errorf("the program has the name of the folder %s in it", folder)
		}
	}
	switch p.goos {
	case "linux":
		return examineELF(bytes.NewReader(program))
	case "darwin":
		return examineMachO(bytes.NewReader(program), p.goarch == "arm64")
	case "windows":
		return examinePE(bytes.NewReader(program))
	}
	return fmt.Errorf("no programs for %s are known", p.goos)
}

// examineELF accepts only glibc's libraries, and functions of the oldest supported version.
func examineELF(r *bytes.Reader) error {
	f, err := elf.NewFile(r)
	if err != nil {
		return err
	}
	libraries, err := f.ImportedLibraries()
	if err != nil {
		return err
	}
	known := []string{"libc.so.6", "libdl.so.2", "libm.so.6", "libpthread.so.0", "libresolv.so.2", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
	for _, l := range libraries {
		if !slices.Contains(known, l) {
			return fmt.Errorf("the program needs %s, which is not of glibc", l)
		}
	}
	symbols, err := f.ImportedSymbols()
	if err != nil {
		return err
	}
	for _, s := range symbols {
		version, ok := strings.CutPrefix(s.Version, "GLIBC_")
		if ok && newer(version, glibcFloor) {
			return fmt.Errorf("the program needs %s of glibc %s: want no newer than %s", s.Name, version, glibcFloor)
		}
	}
	return nil
}

// newer compares dotted numbers.
func newer(a, b string) bool {
	numbers := func(s string) (all []int) {
		for part := range strings.SplitSeq(s, ".") {
			n, err := strconv.Atoi(part)
			if err != nil {
				n = 1 << 30 // GLIBC_PRIVATE: no version
			}
			all = append(all, n)
		}
		return all
	}
	return slices.Compare(numbers(a), numbers(b)) > 0
}

// examineMachO accepts only system libraries, and requires a signature where the kernel does.
func examineMachO(r *bytes.Reader, signed bool) error {
	f, err := macho.NewFile(r)
	if err != nil {
		return err
	}
	libraries, err := f.ImportedLibraries()
	if err != nil {
		return err
	}
	for _, l := range libraries {
		if !strings.HasPrefix(l, "/usr/lib/") && !strings.HasPrefix(l, "/System/Library/") {
			return fmt.Errorf("the program needs %s, which is not of macOS", l)
		}
	}
	const codeSignature = 0x1d // LC_CODE_SIGNATURE
	for _, l := range f.Loads {
		if raw := l.Raw(); len(raw) >= 8 && f.ByteOrder.Uint32(raw) == codeSignature {
			return nil
		}
	}
	if signed {
		return fmt.Errorf("the program has no signature, without which it does not start")
	}
	return nil
}

// examinePE accepts only libraries that come with Windows.
func examinePE(r *bytes.Reader) error {
	f, err := pe.NewFile(r)
	if err != nil {
		return err
	}
	symbols, err := f.ImportedSymbols() // function:library
	if err != nil {
		return err
	}
	if len(symbols) == 0 {
		return fmt.Errorf("the program calls nothing of Windows")
	}
	known := []string{"kernel32.dll", "ntdll.dll", "msvcrt.dll", "ucrtbase.dll", "advapi32.dll", "ws2_32.dll", "api-ms-win-crt-*.dll"}
	for _, s := range symbols {
		_, library, _ := strings.Cut(s, ":")
		ours := func(pattern string) bool {
			ok, err := path.Match(pattern, strings.ToLower(library))
			return ok && err == nil
		}
		if !slices.ContainsFunc(known, ours) {
			return fmt.Errorf("the program needs %s, which does not come with Windows", library)
		}
	}
	return nil
}
