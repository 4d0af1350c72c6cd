package dataset

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

// labelLines calls each for every line of a label file: a member's path, its label and perhaps more,
// separated by tabs or, in a line without tabs, blanks.
func labelLines(r io.Reader, each func(number int, name, label string, tabs bool) error) error {
	lines, number := bufio.NewScanner(r), 0
	lines.Split(scanLine)
	for lines.Scan() {
		number++
		line := strings.TrimSpace(strings.TrimPrefix(lines.Text(), "\ufeff"))
		if line == "" {
			continue
		}
		fields := strings.Split(line, "\t")
		tabs := len(fields) > 1
		if !tabs {
			fields = strings.Fields(line)
		}
		if len(fields) < 2 {
			return fmt.Errorf("line %d is %q; want a path in the archive and its label", number, line[:min(len(line), 20)])
		}
		if err := each(number, unpackedPath(fields[0]), strings.TrimSpace(fields[1]), tabs); err != nil {
			return err
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return fmt.Errorf("line %d is longer than %d bytes: is it a label file?", number+1, bufio.MaxScanTokenSize)
	} else if err != nil {
		return fmt.Errorf("line %d: %w", number+1, err)
	}
	return nil
}

// scanLine splits at the ends of lines that Unix, Windows and old Macs write: LF, CR LF and CR.
func scanLine(data []byte, atEOF bool) (advance int, token []byte, err error) {
	i := bytes.IndexAny(data, "\r\n")
	switch {
	case i < 0 && atEOF && len(data) > 0:
		return len(data), data, nil
	case i < 0, data[i] == '\r' && i+1 == len(data) && !atEOF: // an LF may follow
		return 0, nil, nil
	case data[i] == '\r' && i+1 < len(data) && data[i+1] == '\n':
		return i + 2, data[:i], nil
	}
	return i + 1, data[:i], nil
}
