package tensor

// Layout says what the axes of an array that may be an image mean.
type Layout string

const (
	NoImage Layout = ""    // not an image, or not known
	HW      Layout = "HW"  // height, width: one grey channel
	HWC     Layout = "HWC" // channels last
	CHW     Layout = "CHW" // channels first
)
