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

// preface is the length of what a client sends first: RFC 9113, 3.4.
const preface = 24

// frames finds the frames in the bytes that pass in one direction.
type frames struct {
	header [9]byte
	have   int // bytes of the header
	left   int // bytes of the payload that are still to come
}

func (f *frames) length() int { return int(binary.BigEndian.Uint32(f.header[:4]) >> 8) }
func (f *frames) kind() byte  { return f.header[3] }
func (f *frames) flags() byte { return f.header[4] }

// stream is 0 where the frame is of the connection.
func (f *frames) stream() uint32 { return binary.BigEndian.Uint32(f.header[5:]) &^ (1 << 31) }

// pass reads from the beginning of p, at most to the end of a frame. It returns the piece of payload that is
// there, what follows in p, and whether the frame ends with it.
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

// prefix is what begins each message of gRPC: whether it is packed, and its length.
const prefix = 5

// A stream is a call, of which the messages of the client are followed.
type stream struct {
	prefix [prefix]byte
	have   int   // bytes of the prefix; 0: between messages
	left   int64 // bytes of the message that are still to come

	done bool  // a message has ended in the frame that comes
	size int64 // of that message, without the prefix; the first, if there are several

	held    int64 // memory of the frames of the message that is not whole
	counted int64 // of that: all, or none where it is little
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

// cost is the memory that the transport takes for a frame of n bytes of payload: from a pool of slices of two
// sizes, but for small ones, and what it notes of each.
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
