package corrupt

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/images"
	"github.com/mfgs/mfgs/internal/files"
)

// A Corruption is a kind at a severity. Severity 0 leaves images unchanged.
type Corruption struct {
	Kind     string
	Severity int
}

func (c Corruption) String() string {
	if c.Severity == 0 {
		return "uncorrupted"
	}
	return fmt.Sprintf("%s %d", c.Kind, c.Severity)
}

func (c Corruption) fileName() string {
	return strings.ToLower(strings.ReplaceAll(c.String(), " ", "-"))
}

// Corruptions returns severity 0, then each kind at each severity.
func Corruptions() []Corruption {
	all := []Corruption{{}}
	for _, kind := range Kinds() {
		for severity := 1; severity <= Severities; severity++ {
			all = append(all, Corruption{kind, severity})
		}
	}
	return all
}

// corrupted returns the pixels of the first n images, corrupted. Each image's index is its seed.
func corrupted(g *images.Images, c Corruption, n int) ([]byte, error) {
	var all []byte
	for i := range min(n, g.Len()) {
		im := Image{Width: g.Width, Height: g.Height, Channels: g.Channels, Pixels: g.Image(i)}
		if c.Severity > 0 {
			var err error
			if im, err = Apply(c.Kind, c.Severity, im, uint64(i)); err != nil {
				return nil, err
			}
		}
		all = append(all, im.Pixels...)
	}
	return all, nil
}

// writeCorrupted writes corrupted images with their labels, and returns the SPEC. An existing file of the right size
// whose first images are right is kept.
func writeCorrupted(g *images.Images, dir string, c Corruption) (string, error) {
	name := filepath.Join(dir, c.fileName()+"-")
	first, err := corrupted(g, c, 3)
	if err != nil {
		return "", err
	}
	file, shape := g.FileAndShape(name)
	header := 4 + 4*len(shape)
	if old, err := files.Read(file, int64(header+len(g.Pixels))); err == nil &&
		len(old) == header+len(g.Pixels) && bytes.HasPrefix(old[header:], first) {
		return file, nil
	}
	all := *g
	if all.Pixels, err = corrupted(g, c, g.Len()); err != nil {
		return "", err
	}
	return all.Write(name)
}

// WriteAll writes the images to dir under each of [Corruptions], as IDX files, and returns their SPECs.
func WriteAll(ctx context.Context, g *images.Images, dir string) ([]string, error) {
	all := Corruptions()
	specs := make([]string, len(all))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, c := range all {
		group.Go(func() (err error) {
			if err = context.Cause(ctx); err == nil {
				specs[i], err = writeCorrupted(g, dir, c)
			}
			return err
		})
	}
	return specs, group.Wait()
}
