package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/archive"
	"github.com/mfgs/mfgs/internal/files"
)

// A keptPart is a section as it is kept: with the places of its rows, which JSON does not have.
type keptPart struct {
	Section *section
	Places  [][3]string
}

// maxKept bounds the file of a part.
const maxKept = 1 << 30

func (l *lab) keptPath(part string) string {
	return filepath.Join(l.scratch, "parts", l.stamped, part+".json")
}

// keep writes a part that is made.
func (l *lab) keep(s *section) error {
	kept := keptPart{Section: s}
	for _, r := range s.Rows {
		kept.Places = append(kept.Places, [3]string{r.table, r.data, r.row})
	}
	data, err := json.Marshal(kept)
	if err != nil {
		return err
	}
	path := l.keptPath(s.Name)
	if err := os.MkdirAll(filepath.Dir(path), files.FolderMode); err != nil {
		return err
	}
	return archive.WriteFile(path, data)
}

// kept returns a part that was made before, nil where it was not.
func (l *lab) kept(part string) (*section, error) {
	data, err := files.Read(l.keptPath(part), maxKept)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var kept keptPart
	if err := json.Unmarshal(data, &kept); err != nil {
		return nil, fmt.Errorf("%s is no part that mfgs-paper keeps: %w: remove it", l.keptPath(part), err)
	}
	if kept.Section == nil || kept.Section.Name != part || len(kept.Places) != len(kept.Section.Rows) {
		return nil, fmt.Errorf("%s is no part that mfgs-paper keeps: remove it", l.keptPath(part))
	}
	for i, p := range kept.Places {
		r := &kept.Section.Rows[i]
		r.place = place{p[0], p[1], p[2]}
		for j, m := range r.Runs {
			if v, ok := m.Seed.(float64); ok {
				r.Runs[j].Seed = int(v)
			}
		}
	}
	return kept.Section, nil
}
