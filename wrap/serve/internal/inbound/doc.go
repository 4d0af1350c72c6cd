// Package inbound counts the memory of incomplete messages that a gRPC server has received, as part of the memory of
// all requests, and closes connections that hold too much of it.
//
// The transport of google.golang.org/grpc buffers the frames of a message until it is complete, does not report them,
// and lets each call send a whole message: it reopens its window for a connection as frames arrive, not as they are
// read. Its own limits bound streams times the size of a message: with 256 MiB for messages of 64 MiB, four calls at a
// time. Without a counter, 160 calls of 4 MiB took 463 MiB where the bound was 16 MiB.
//
// So [Counter.Credentials] puts a connection between the transport and its socket, inside TLS if there is TLS. It
// sees the frames of HTTP/2 (RFC 9113) in both directions: which streams exist, where their messages end, and when the
// server or the client ends a stream. All counts are per stream, so that nothing remains of an ended one, however long
// its connection lasts.
//
// A complete message stays counted until its stream ends, or its handler takes it over with [Take].
package inbound
