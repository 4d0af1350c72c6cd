// Package inbound counts what a gRPC server has received of messages that are not whole, towards the memory of
// all requests, and closes connections that hold too much of it.
//
// The transport of google.golang.org/grpc keeps the frames of a message until all of it is there, reports them to
// nobody, and lets each call send a whole message: its window for a connection is reopened as frames come, and not
// as they are read. Its own limits bound streams times the size of a message: for 256 MiB of 64 MiB each, four
// calls at a time. Without a counter, 160 calls of 4 MiB took 463 MiB where 16 MiB were the bound.
//
// So [Counter.Credentials] puts a connection of ours between the transport and its socket, behind TLS where there is
// TLS. It sees the frames of HTTP/2 (RFC 9113) pass both ways: which streams there are, where their messages end, and
// when the server or the client is done with a stream. All counts are of streams, so that nothing is left of one
// that has ended, however long its connection lasts.
//
// A message that is whole stays counted until its stream ends, or its handler has taken it over with [Take].
package inbound
