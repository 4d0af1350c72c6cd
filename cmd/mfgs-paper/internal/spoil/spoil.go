// Package spoil writes images spoiled in every way that package corrupt has, as files in the IDX format.
package spoil

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/corrupt"
	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/gallery"
	"github.com/mfgs/mfgs/internal/files"
)

// A Way is a way to spoil images; severity 0 is none.
type Way struct {
	Kind     string
	Severity int
}

func (w Way) String() string {
	if w.Severity == 0 {
		return "as they are"
	}
	return fmt.Sprintf("%s %d", w.Kind, w.Severity)
}

func (w Way) fileName() string { return strings.ToLower(strings.ReplaceAll(w.String(), " ", "-")) }

// Ways are none, and then every kind in all severities.
func Ways() []Way {
	all := []Way{{}}
	for _, kind := range corrupt.Kinds() {
		for severity := 1; severity <= corrupt.Severities; severity++ {
			all = append(all, Way{kind, severity})
		}
	}
	return all
}

// spoiled returns the pixels of the first n images, each spoiled with its position as the seed.
func spoiled(g *gallery.Gallery, w Way, n int) ([]byte, error) {
	var all []byte
	for i := range min(n, g.Len()) {
		im := corrupt.Image{Width: g.Width, Height: g.Height, Channels: g.Channels, Pixels: g.Image(i)}
		if w.Severity > 0 {
			var err error
			if im, err = corrupt.Apply(w.Kind, w.Severity, im, uint64(i)); err != nil {
				return nil, err
			}
		}
		all = append(all, im.Pixels...)
	}
	return all, nil
}

// writeSpoiled writes a gallery spoiled, with its labels, and returns the SPEC. A file that is there is
// kept if it begins as it would be written.
func writeSpoiled(g *gallery.Gallery, dir string, w Way) (string, error) {
	name := filepath.Join(dir, w.fileName()+"-")
	begins, err := spoiled(g, w, 3)
	if err != nil {
		return "", err
	}
	images, shape := g.Place(name)
	head := 4 + 4*len(shape)
	if there, err := files.Read(images, int64(head+len(g.Pixels))); err == nil &&
		len(there) == head+len(g.Pixels) && bytes.HasPrefix(there[head:], begins) {
		return images, nil
	}
	all := *g
	if all.Pixels, err = spoiled(g, w, g.Len()); err != nil {
		return "", err
	}
	return all.Write(name)
}

// Write writes a gallery spoiled in all Ways to dir, and returns their SPECs.
func Write(ctx context.Context, g *gallery.Gallery, dir string) ([]string, error) {
	ways := Ways()
	specs, errs := make([]string, len(ways)), make([]error, len(ways))
	var wg sync.WaitGroup
	free := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i, w := range ways {
		free <- struct{}{}
		wg.Go(func() {
			defer func() { <-free }()
			if errs[i] = context.Cause(ctx); errs[i] == nil {
				specs[i], errs[i] = writeSpoiled(g, dir, w)
			}
		})
	}
	wg.Wait()
	return specs, errors.Join(errs...)
}
