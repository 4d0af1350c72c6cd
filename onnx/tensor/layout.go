package tensor

// Layout says what the axes of an array mean, if it is an image.
type Layout string

const (
	NoImage Layout = ""    // not an image, or unknown
	HW      Layout = "HW"  // height, width: one grey channel
	HWC     Layout = "HWC" // channels last
	CHW     Layout = "CHW" // channels first
)
