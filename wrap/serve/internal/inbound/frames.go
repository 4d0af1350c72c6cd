package inbound

import "encoding/binary"

// Types of frames, and their flags: RFC 9113, 6.
const (
	typeData    = 0
	typeHeaders = 1
	typeReset   = 3

	flagEnd    = 0x1
	flagPadded = 0x8
)

// preface is the length of the connection preface of a client: RFC 9113, 3.4.
const preface = 24

// frames finds the frames in the bytes of one direction.
type frames struct {
	header [9]byte
	have   int // bytes of the header
	left   int // bytes of the payload still to come
}

func (f *frames) length() int { return int(binary.BigEndian.Uint32(f.header[:4]) >> 8) }
func (f *frames) kind() byte  { return f.header[3] }
func (f *frames) flags() byte { return f.header[4] }

// stream returns 0 for a frame of the connection.
func (f *frames) stream() uint32 { return binary.BigEndian.Uint32(f.header[5:]) &^ (1 << 31) }

// pass reads from the beginning of p, at most to the end of a frame. It returns the piece of payload found, the
// rest of p, and whether the frame ends with the piece.
func (f *frames) pass(p []byte) (piece, rest []byte, whole bool) {
	if f.have < len(f.header) {
		n := copy(f.header[f.have:], p)
		f.have += n
		p = p[n:]
		if f.have < len(f.header) {
			return nil, nil, false
		}
		f.left = f.length()
	}
	n := min(f.left, len(p))
	f.left -= n
	if whole = f.left == 0; whole {
		f.have = 0
	}
	return p[:n], p[n:], whole
}

// prefix is the length of the prefix of a gRPC message: a byte for compression, and the message's length.
const prefix = 5

// A stream tracks the messages that the client sends in one call.
type stream struct {
	prefix [prefix]byte
	have   int   // bytes of the prefix; 0: between messages
	left   int64 // bytes of the message still to come

	done bool  // a message has ended in the current frame
	size int64 // of that message, without the prefix; the first, if there are several

	held    int64 // memory of the frames of the incomplete message
	counted int64 // of that: all, or none if it is little
}

// read follows the messages through a piece of a frame.
func (s *stream) read(p []byte) {
	for len(p) > 0 {
		if s.have < prefix {
			n := copy(s.prefix[s.have:], p)
			s.have += n
			p = p[n:]
			if s.have < prefix {
				return
			}
			s.left = s.length()
		}
		n := min(s.left, int64(len(p)))
		s.left -= n
		p = p[n:]
		if s.left == 0 {
			if !s.done {
				s.done, s.size = true, s.length()
			}
			s.have = 0
		}
	}
}

func (s *stream) length() int64 { return int64(binary.BigEndian.Uint32(s.prefix[1:])) }

// cost estimates the memory that the transport allocates for a frame of n bytes of payload: a slice, which for all
// but small frames is from a pool of two sizes, and bookkeeping.
func cost(n int) int64 {
	const note = 128
	switch {
	case n == 0:
		return 0
	case n <= 1<<10:
		return int64(n) + note
	case n <= 1<<12:
		return 1<<12 + note
	}
	return int64(max(n, 1<<14)) + note
}
