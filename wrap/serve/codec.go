package serve

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/internal/oip"
	"github.com/mfgs/mfgs/internal/oip/inference"
	"github.com/mfgs/mfgs/wrap/serve/internal/inbound"
)

// gRPC decompresses and parses a message before the handler sees the call, so that 64 KiB can become GiB of memory.
// Here an inference request arrives at its handler as it was sent, and its memory is reserved before it is
// decompressed, and again before it is parsed.

// packedMark begins a compressed message. No other message begins so, as no field has the number 0.
const packedMark = 0

// keepPacked leaves messages compressed.
type keepPacked struct{}

func (keepPacked) Type() string { return "gzip" }

func (keepPacked) Do(r io.Reader) ([]byte, error) {
	b := bytes.NewBuffer([]byte{packedMark})
	_, err := b.ReadFrom(r) // r is in memory
	return b.Bytes(), err
}

// codec parses messages if they are small. It leaves inference requests unparsed: all their bytes are unknown fields.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(protocodec.Name)} }

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if m, ok := v.(*inference.ModelInferRequest); ok {
		m.ProtoReflect().SetUnknown(data.Materialize())
		return nil
	}
	m, ok := v.(proto.Message)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	if err := c.small(data, m); err != nil {
		unread(m, err)
	}
	return nil
}

// small parses a message if it is small.
func (c codec) small(data mem.BufferSlice, m proto.Message) error {
	limit := documentLimits.Bytes
	if int64(data.Len()) > limit {
		return fmt.Errorf("a message of %d bytes, want at most %d", data.Len(), limit)
	}
	raw := data.Materialize()
	if len(raw) > 0 && raw[0] == packedMark {
		z, err := gzip.NewReader(bytes.NewReader(raw[1:]))
		if err != nil {
			return packedError(context.Background(), err)
		}
		if raw, err = io.ReadAll(io.LimitReader(z, limit+1)); err != nil {
			return packedError(context.Background(), err)
		}
		if int64(len(raw)) > limit {
			return fmt.Errorf("a message that decompresses to more than %d bytes", limit)
		}
	}
	if err := c.CodecV2.Unmarshal(mem.BufferSlice{mem.SliceBuffer(raw)}, m); err != nil {
		return fmt.Errorf("not a protobuf message: %w", err)
	}
	return nil
}

// unread stores in a message why it could not be parsed. gRPC would report an error of the codec as one of the server.
func unread(m proto.Message, err error) {
	m.ProtoReflect().SetUnknown(append([]byte{packedMark}, err.Error()...))
}

// unreadOf returns the error that unread stored, or nil.
func unreadOf(message any) error {
	m, ok := message.(proto.Message)
	if !ok {
		return nil
	}
	if _, ok := m.(*inference.ModelInferRequest); ok {
		return nil // its handler parses it
	}
	if raw := m.ProtoReflect().GetUnknown(); len(raw) > 0 && raw[0] == packedMark {
		return invalid("%s", raw[1:])
	}
	return nil
}

// packing returns the options of a server whose handlers decompress and parse inference requests themselves.
func packing() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ForceServerCodecV2(newCodec()),
		//lint:ignore SA1019 What is not deprecated is of the whole process, and of its clients too.
		grpc.RPCDecompressor(keepPacked{}),
	}
}

// read decompresses and parses a message that the codec left as it was, and reserves its memory.
func (s *Server) read(ctx context.Context, unread *inference.ModelInferRequest, memory *reservation) (
	*inference.ModelInferRequest, error) {
	raw := []byte(unread.ProtoReflect().GetUnknown())
	packed := len(raw) > 0 && raw[0] == packedMark
	sent := int64(len(raw))
	if packed {
		sent--
	}
	memory.held += inbound.Take(ctx, sent)
	if err := memory.add(max(0, int64(len(raw))-memory.held)); err != nil {
		return nil, err
	}
	if packed {
		z, err := gzip.NewReader(bytes.NewReader(raw[1:]))
		if err != nil {
			return nil, packedError(ctx, err)
		}
		fail := func(err error) error { return packedError(ctx, err) }
		if raw, err = readAll(z, 0, 0, s.config.MaxBody, s.bodyTooLarge("message"), memory, fail); err != nil {
			return nil, err
		}
	}
	size, err := oip.MessageSize(raw, s.limits)
	if err != nil {
		return nil, err
	}
	if err := memory.add(size); err != nil {
		return nil, err
	}
	m := &inference.ModelInferRequest{}
	if err := proto.Unmarshal(raw, m); err != nil {
		return nil, invalid("not a protobuf message: %v", err)
	}
	return m, nil
}

func packedError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return invalid("the message does not match its grpc-encoding, or ends early: %v", err)
}
