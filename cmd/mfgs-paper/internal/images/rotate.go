package images

import (
	"fmt"
	"math"
	"path/filepath"
)

// rotate rotates an image [height,width] counter-clockwise about its centre, with bilinear
// interpolation and black outside.
func rotate(in []byte, width, height int, degrees float64) []byte {
	sin, cos := math.Sincos(degrees * math.Pi / 180)
	cx, cy := float64(width-1)/2, float64(height-1)/2
	at := func(x, y int) float64 {
		if x < 0 || y < 0 || x >= width || y >= height {
			return 0
		}
		return float64(in[y*width+x])
	}
	out := make([]byte, len(in))
	for y := range height {
		for x := range width {
			// The y axis points down.
			dx, dy := float64(x)-cx, float64(y)-cy
			fx, fy := cx+cos*dx-sin*dy, cy+sin*dx+cos*dy
			x0, y0 := math.Floor(fx), math.Floor(fy)
			u, v := fx-x0, fy-y0
			i, j := int(x0), int(y0)
			value := (1-v)*((1-u)*at(i, j)+u*at(i+1, j)) + v*((1-u)*at(i, j+1)+u*at(i+1, j+1))
			out[y*width+x] = byte(value + .5)
		}
	}
	return out
}

// WriteRotated writes grey images rotated by an angle in degrees, with their labels, and returns their SPEC.
func (g *Images) WriteRotated(dir string, degrees int) (string, error) {
	if g.Channels != 1 {
		return "", fmt.Errorf("images of %d channels: want grey images", g.Channels)
	}
	rotated := *g
	rotated.Pixels = make([]byte, 0, len(g.Pixels))
	for i := range g.Len() {
		rotated.Pixels = append(rotated.Pixels, rotate(g.Image(i), g.Width, g.Height, float64(degrees))...)
	}
	return rotated.Write(filepath.Join(dir, fmt.Sprintf("rotated-%03d-", degrees)))
}
