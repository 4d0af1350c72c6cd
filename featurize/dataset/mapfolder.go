package dataset

import (
	"path/filepath"
	"slices"
	"strings"
)

// A mapFolder says where the label maps of a folder of images are: in a parallel folder, at the same path but for the
// end of the name.
type mapFolder struct {
	root             string // of the label maps, "" if there are none
	imageEnd, mapEnd string // of names without extension
}

// mapLayouts are the names of parallel folders of images and label maps: the usual ones, such as those of ADE20K, and
// those of Pascal VOC and Cityscapes.
var mapLayouts = []struct {
	images           string
	labels           []string
	imageEnd, mapEnd string
}{
	{images: "images", labels: []string{"labels", "masks", "annotations"}},
	{images: "JPEGImages", labels: []string{"SegmentationClass"}},
	{images: "leftImg8bit", labels: []string{"gtFine"}, imageEnd: "_leftImg8bit", mapEnd: "_gtFine_labelTrainIds"},
}

// findMaps returns the folder of the images, and where the label maps are; nil for a folder of images like any other.
// Either the folder that was named contains both, or it is one of images, or lies in one, whose name stands in the
// path: beside data/images/val is data/labels/val.
func findMaps(root string, labelled bool) (images string, m *mapFolder) {
	absolute, err := filepath.Abs(root)
	if err != nil {
		absolute = root
	}
	parts := strings.Split(filepath.ToSlash(absolute), "/")
	for _, l := range mapLayouts {
		images := filepath.Join(root, l.images)
		place := func(name string) string { return filepath.Join(absolute, name) }
		if !isDir(images) {
			at := len(parts) - 1
			for at >= 0 && parts[at] != l.images {
				at--
			}
			if at < 0 {
				continue
			}
			images = root
			place = func(name string) string {
				other := slices.Clone(parts)
				other[at] = name
				return filepath.FromSlash(strings.Join(other, "/"))
			}
		}
		m := &mapFolder{imageEnd: l.imageEnd, mapEnd: l.mapEnd}
		for _, name := range l.labels {
			if folder := place(name); m.root == "" && labelled && isDir(folder) {
				m.root = folder
			}
		}
		if images != root || m.root != "" {
			return images, m
		}
	}
	return root, nil
}

// of returns the path of the label map of an image, both from their roots.
func (m *mapFolder) of(image string) string {
	return strings.TrimSuffix(strings.TrimSuffix(image, filepath.Ext(image)), m.imageEnd) + m.mapEnd + ".png"
}

// lacks reports whether an image should have a label map, and has none.
func (m *mapFolder) lacks(image string) bool {
	return m != nil && m.root != "" && !exists(filepath.Join(m.root, m.of(image)))
}
