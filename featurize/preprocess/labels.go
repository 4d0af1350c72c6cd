package preprocess

import (
	"errors"
	"fmt"
)

// ErrOriented reports a label map for an image with an EXIF orientation.
var ErrOriented = errors.New("the image has an EXIF orientation, and a label map does not say whether it is turned as well: " +
	"store the image upright, without the orientation")

// Labels gives a label map the geometry that Apply gives its image: it is cropped and padded alike, and resized to the
// nearest pixel, as Pillow does with Image.NEAREST. Pixels that are padding get -1. A map that does not have the
// image's size is returned as it is, and so is one of an example that is no image.
func (p *Pipeline) Labels(m Image, labels []int32, h, w int) (out []int32, outH, outW int, err error) {
	v, isImage, err := viewOf(m)
	if err != nil || !isImage || p.noAxes != nil || v.h != h || v.w != w {
		return labels, h, w, err
	}
	if *p.spec.Exif && m.Orientation > 1 {
		return nil, 0, 0, ErrOriented
	}
	g, err := p.geometry(v)
	if err != nil {
		return nil, 0, 0, err
	}
	if g.outW == w && g.outH == h && g.w == w && g.h == h {
		return labels, h, w, nil
	}
	out = make([]int32, g.outH*g.outW)
	for i := range out {
		out[i] = -1
	}
	columns := positions(nil, w, g.w)[g.x:][:g.cw]
	for i, y := range positions(nil, h, g.h)[g.y:][:g.ch] {
		to := out[(g.top+i)*g.outW+g.left:]
		for j, x := range columns {
			to[j] = labels[y*w+x]
		}
	}
	return out, g.outH, g.outW, nil
}

// LabelMapError is the error about a label map of another size than that of the map that the model gives.
func LabelMapError(labelled, given []int64) error {
	return fmt.Errorf("a label map of %s pixels after preprocessing, and the model answers for %s: "+
		"export the model with a resize in front of its last layer, or give label maps of %[2]s", Sides(labelled), Sides(given))
}

// Sides formats the sides of a map as "64×48".
func Sides(shape []int64) string {
	if len(shape) != 2 {
		return fmt.Sprint(shape)
	}
	return fmt.Sprintf("%d×%d", shape[0], shape[1])
}
