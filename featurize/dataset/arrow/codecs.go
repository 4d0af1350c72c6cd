package arrow

import (
	"fmt"
	"io"
	"sync"

	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
)

// The library's codecs of Snappy and Zstandard decode whatever the data contain, regardless of the page's
// header. These replace them, and decode no more than the page may have.

// maxZstdWindow bounds the window of Zstandard's decoder, as the command zstd does.
const maxZstdWindow = 128 << 20

func init() {
	compress.RegisterCodec(compress.Codecs.Snappy, boundedSnappy{original(compress.Codecs.Snappy)})
	compress.RegisterCodec(compress.Codecs.Zstd, boundedZstd{original(compress.Codecs.Zstd)})
}

// A streamingCodec is a codec of the library that can stream.
type streamingCodec interface {
	compress.Codec
	compress.StreamingCodec
}

func original(c compress.Compression) streamingCodec {
	codec, err := compress.GetCodec(c)
	if err != nil {
		panic(err) // these codecs always exist
	}
	return codec.(streamingCodec)
}

type boundedSnappy struct{ streamingCodec }

// DecodeWithError decodes a block into dst, which has the expected size.
func (c boundedSnappy) DecodeWithError(dst, src []byte) ([]byte, error) {
	if n, err := snappy.DecodedLen(src); err != nil || n > len(dst) {
		return nil, fmt.Errorf("snappy: %d bytes for a page of %d", n, len(dst))
	}
	return snappy.Decode(dst, src)
}

type boundedZstd struct{ streamingCodec }

var zstdBlocks = sync.OnceValue(func() *zstd.Decoder {
	return newZstd(zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderConcurrency(0))
})

func newZstd(o ...zstd.DOption) *zstd.Decoder {
	d, err := zstd.NewReader(nil, append(o, zstd.WithDecoderMaxWindow(maxZstdWindow))...)
	if err != nil {
		panic(err) // of options only
	}
	return d
}

// DecodeWithError decodes a block into dst, which has the expected size.
func (c boundedZstd) DecodeWithError(dst, src []byte) ([]byte, error) {
	return zstdBlocks().DecodeAll(src, dst[:0:len(dst)])
}

var zstdStreams = sync.Pool{New: func() any { return newZstd(zstd.WithDecoderConcurrency(1)) }}

// NewReader decodes as much as is read.
func (c boundedZstd) NewReader(r io.Reader) io.ReadCloser {
	d := zstdStreams.Get().(*zstd.Decoder)
	if err := d.Reset(r); err != nil {
		panic(err)
	}
	return &pooledZstd{d}
}

type pooledZstd struct{ *zstd.Decoder }

// Close returns the decoder to the pool.
func (p *pooledZstd) Close() error {
	if p.Decoder != nil {
		_ = p.Reset(nil)
		zstdStreams.Put(p.Decoder)
		p.Decoder = nil
	}
	return nil
}
