package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/images"
	"github.com/mfgs/mfgs/internal/files"
)

// A keptPart is a saved section, with the places of its rows, which are unexported there.
type keptPart struct {
	Section *section
	Places  [][3]string
}

// maxKept bounds the size of a saved part.
const maxKept = 1 << 30

func (l *lab) keptPath(part string) string {
	return filepath.Join(l.scratch, "parts", l.fingerprint, part+".json")
}

// keep saves a part.
func (l *lab) keep(s *section) error {
	kept := keptPart{Section: s}
	for _, r := range s.Rows {
		kept.Places = append(kept.Places, [3]string{r.table, r.data, r.row})
	}
	data, err := json.Marshal(kept)
	if err != nil {
		return err
	}
	return images.WriteFile(l.keptPath(s.Name), data)
}

// kept loads a saved part, nil if there is none.
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
		return nil, fmt.Errorf("%s: not a saved part: %w: remove it", l.keptPath(part), err)
	}
	if kept.Section == nil || kept.Section.Name != part || len(kept.Places) != len(kept.Section.Rows) {
		return nil, fmt.Errorf("%s: not a saved part: remove it", l.keptPath(part))
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
