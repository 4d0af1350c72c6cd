package install

import (
	"bytes"
	"debug/elf"
	"debug/macho"
	"debug/pe"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/internal/files"
)

// probe examines the shared library at path without loading it. It returns the version, "" if the file does not
// contain it, or an error if the file is not a complete ONNX Runtime for the given machine.
func probe(path, goos, goarch string) (version string, err error) {
	f, err := files.Open(path)
	if err != nil {
		return "", bare(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return "", bare(err)
	}
	if version, err = inspect(f, st.Size(), goos, goarch); err == nil && version == "" {
		version = versionInName.FindString(filepath.Base(path))
	}
	return version, err
}

// inspect is probe on the contents of the file.
func inspect(f io.ReaderAt, size int64, goos, goarch string) (version string, err error) {
	var magic [4]byte
	if _, err := f.ReadAt(magic[:], 0); err != nil {
		return "", errors.New("not a shared library")
	}
	var system, machine string
	switch {
	case string(magic[:]) == elf.ELFMAG:
		system = "linux"
		machine, version, err = inspectELF(f, size)
	case string(magic[:2]) == "MZ":
		system = "windows"
		machine, version, err = inspectPE(f, size)
	case binary.LittleEndian.Uint32(magic[:]) == macho.Magic64, binary.BigEndian.Uint32(magic[:]) == macho.MagicFat:
		system = "darwin"
		machine, version, err = inspectMachO(f, size, goarch)
	default:
		return "", errors.New("not a shared library")
	}
	if err != nil {
		return "", err
	}
	// Other systems than Linux use ELF too; the header does not distinguish them.
	if goos != "windows" && goos != "darwin" && system == "linux" {
		system = goos
	}
	if system != goos || machine != goarch {
		return "", fmt.Errorf("built for %s/%s", system, machine)
	}
	return version, nil
}

// versionInName finds the version in libonnxruntime.so.1.24.3 and the like.
var versionInName = regexp.MustCompile(`\d+\.\d+\.\d+`)

const entryPoint = "OrtGetApiBase"

var (
	errNoEntry   = errors.New("not an ONNX Runtime: it has no " + entryPoint)
	errTruncated = errors.New("the file is truncated")
)

// broken describes an error of the debug packages, which does not say much.
func broken(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errTruncated
	}
	return fmt.Errorf("the file is broken: %w", err)
}

// inspectELF reads the version from the symbol version VERS_x.y.z of ONNX Runtime's exported functions.
func inspectELF(f io.ReaderAt, size int64) (machine, version string, err error) {
	e, err := elf.NewFile(f)
	if err != nil {
		return "", "", broken(err)
	}
	for _, p := range e.Progs {
		if p.Type == elf.PT_LOAD && (p.Filesz > uint64(size) || p.Off > uint64(size)-p.Filesz) {
			return "", "", errTruncated
		}
	}
	switch e.Machine {
	case elf.EM_X86_64:
		machine = "amd64"
	case elf.EM_AARCH64:
		machine = "arm64"
	default:
		machine = strings.ToLower(strings.TrimPrefix(e.Machine.String(), "EM_"))
	}
	symbols, err := e.DynamicSymbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return "", "", broken(err)
	}
	if !slices.ContainsFunc(symbols,
		func(s elf.Symbol) bool { return s.Name == entryPoint && s.Section != elf.SHN_UNDEF }) {
		return "", "", errNoEntry
	}
	if e.SectionByType(elf.SHT_GNU_VERDEF) == nil {
		return machine, "", nil
	}
	versions, err := e.DynamicVersions()
	if err != nil {
		return "", "", broken(err)
	}
	for _, v := range versions {
		if s, ok := strings.CutPrefix(v.Name, "VERS_"); ok {
			version = s
		}
	}
	return machine, version, nil
}

// inspectMachO reads the version from LC_ID_DYLIB.
func inspectMachO(f io.ReaderAt, size int64, goarch string) (machine, version string, err error) {
	machines := map[macho.Cpu]string{macho.CpuAmd64: "amd64", macho.CpuArm64: "arm64"}
	var m *macho.File
	var offset uint64
	if fat, err := macho.NewFatFile(f); err == nil {
		for _, arch := range fat.Arches {
			if m == nil || machines[arch.Cpu] == goarch {
				m, offset = arch.File, uint64(arch.Offset)
			}
		}
	} else if m, err = macho.NewFile(f); err != nil {
		return "", "", broken(err)
	}
	if m == nil {
		return "", "", errTruncated
	}
	machine = machines[m.Cpu]
	for _, l := range m.Loads {
		if s, ok := l.(*macho.Segment); ok && (s.Filesz > uint64(size) || offset+s.Offset > uint64(size)-s.Filesz) {
			return "", "", errTruncated
		}
		const idDylib, headerSize = 0xd, 24
		if raw := l.Raw(); len(raw) >= headerSize && m.ByteOrder.Uint32(raw) == idDylib {
			if v := m.ByteOrder.Uint32(raw[16:]); v != 0 {
				version = fmt.Sprintf("%d.%d.%d", v>>16, v>>8&0xff, v&0xff)
			}
		}
	}
	if m.Symtab != nil && !slices.ContainsFunc(m.Symtab.Syms,
		func(s macho.Symbol) bool { return s.Name == "_"+entryPoint }) {
		return "", "", errNoEntry
	}
	return machine, version, nil
}

// inspectPE reads the version from VS_FIXEDFILEINFO in the resources.
func inspectPE(f io.ReaderAt, size int64) (machine, version string, err error) {
	p, err := pe.NewFile(f)
	if err != nil {
		return "", "", broken(err)
	}
	defer p.Close()
	switch p.Machine {
	case pe.IMAGE_FILE_MACHINE_AMD64:
		machine = "amd64"
	case pe.IMAGE_FILE_MACHINE_ARM64:
		machine = "arm64"
	default:
		machine = fmt.Sprintf("machine %#x", p.Machine)
	}
	exported := false
	for _, s := range p.Sections {
		if int64(s.Offset)+int64(s.Size) > size {
			return "", "", errTruncated
		}
		if s.Name != ".rsrc" && s.Name != ".rdata" {
			continue
		}
		data, err := s.Data()
		if err != nil {
			return "", "", broken(err)
		}
		exported = exported || s.Name == ".rdata" && bytes.Contains(data, []byte(entryPoint+"\x00"))
		// The structure: signature, its own version, then the file's version as
		// minor, major, build, revision in 16 bits each.
		signature := binary.LittleEndian.AppendUint64(nil, 0x00010000_feef04bd)
		if i := bytes.Index(data, signature); i >= 0 && len(data) >= i+16 {
			v := data[i+8:]
			version = fmt.Sprintf("%d.%d.%d", binary.LittleEndian.Uint16(v[2:]), binary.LittleEndian.Uint16(v),
				binary.LittleEndian.Uint16(v[6:]))
		}
	}
	if !exported {
		return "", "", errNoEntry
	}
	return machine, version, nil
}

// bare drops the operation and path from an error of package os.
func bare(err error) error {
	var e *os.PathError
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}
