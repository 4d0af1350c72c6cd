package arrow

import "fmt"

const (
	// maxFooter bounds the bytes of a footer, which takes about ten times as much in memory.
	maxFooter = 64 << 20
	// maxColumns bounds the columns of a file, and the elements of a schema.
	maxColumns = 1 << 16
	// maxNesting bounds the depth of a schema and of a footer's structures.
	maxNesting = 64
	// maxDims bounds the nesting of lists, as in other formats.
	maxDims = 32

	// maxPage bounds the bytes of a page, compressed or not. One page per column is in memory, except long
	// pages of plain values, such as images, which are read piece by piece.
	maxPage = 1 << 30

	// A page may decompress to freePage bytes, or to maxRatio times its size if that is more.
	freePage = 64 << 20
	maxRatio = 1024

	// maxDeltaBlock bounds the values of a block of deltas. Writers use 128 to 2048.
	maxDeltaBlock = 1 << 16
	// maxDeltaTexts bounds the texts of a page whose lengths are deltas, which are decoded at once.
	maxDeltaTexts = 1 << 24

	// maxMetadata bounds the metadata of a message, and all the names and texts in it.
	maxMetadata = 64 << 20
	// maxBody bounds the body of a message, compressed or not, which is in memory as a whole.
	maxBody = 1 << 30
)

// guarded turns a panic into an error: the library's decoders panic on broken data.
func guarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("broken: %v", p)
		}
	}()
	return f()
}
