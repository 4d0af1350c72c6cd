package serve

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/wrap/serve/oip"
	"github.com/mfgs/mfgs/wrap/serve/oip/inference"
)

// By itself gRPC unpacks and reads a message before anything of ours sees the call, and 64 KiB can
// become GiB of memory so. Here a request for an inference comes to its handler as it was sent, and takes
// its part of the memory of all requests before it is unpacked, and again before it is read.

// packedMark begins a message that is packed: no other does, as no field has the number 0.
const packedMark = 0

// keepPacked leaves messages packed.
type keepPacked struct{}

func (keepPacked) Type() string { return "gzip" }

func (keepPacked) Do(r io.Reader) ([]byte, error) {
	b := bytes.NewBuffer([]byte{packedMark})
	_, err := b.ReadFrom(r) // which is in memory
	return b.Bytes(), err
}

// codec reads messages: requests for inferences not at all, so that they have all their bytes as unknown
// fields, and others if they are small.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(protocodec.Name)} }

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if m, ok := v.(*inference.ModelInferRequest); ok {
		m.ProtoReflect().SetUnknown(data.Materialize())
		return nil
	}
	if int64(data.Len()) > documentLimits.Bytes {
		return tooLarge("a message of %d bytes, want at most %d", data.Len(), documentLimits.Bytes)
	}
	raw := data.Materialize()
	if len(raw) > 0 && raw[0] == packedMark {
		z, err := gzip.NewReader(bytes.NewReader(raw[1:]))
		if err != nil {
			return err
		}
		if raw, err = io.ReadAll(io.LimitReader(z, documentLimits.Bytes)); err != nil {
			return err
		}
	}
	return c.CodecV2.Unmarshal(mem.BufferSlice{mem.SliceBuffer(raw)}, v)
}

// packing are the options of a server whose handlers unpack and read requests for inferences themselves.
func packing() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ForceServerCodecV2(newCodec()),
		//lint:ignore SA1019 What is not deprecated is of the whole process, and of its clients too.
		grpc.RPCDecompressor(keepPacked{}),
	}
}

// read reads a message as the codec leaves it. What it takes is of memory.
func (s *Server) read(ctx context.Context, unread *inference.ModelInferRequest, memory *reservation) (
	*inference.ModelInferRequest, error) {
	raw := []byte(unread.ProtoReflect().GetUnknown())
	if err := memory.add(int64(len(raw))); err != nil {
		return nil, err
	}
	if len(raw) > 0 && raw[0] == packedMark {
		z, err := gzip.NewReader(bytes.NewReader(raw[1:]))
		if err != nil {
			return nil, packedError(ctx, err)
		}
		fail := func(err error) error { return packedError(ctx, err) }
		if raw, err = readAll(z, 0, s.config.MaxBody, memory, "message", fail); err != nil {
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
		return nil, invalid("no message of protobuf: %v", err)
	}
	return m, nil
}

func packedError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return invalid("the message is not what its grpc-encoding says, or ends early: %v", err)
}
