package serve

import (
	"io"
	"net"
	"testing"
)

func TestConnectionsBeyondTheLimitAreClosedAtOnce(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &limited{Listener: inner}
	defer l.Close()
	accepted := make(chan net.Conn, 2)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				close(accepted)
				return
			}
			accepted <- c
		}
	}()
	dial := func() net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	l.open.Store(maxConnections - 1)
	first := dial()
	defer first.Close()
	last := <-accepted
	refused := dial()
	defer refused.Close()
	if _, err := refused.Read(make([]byte, 1)); err != io.EOF {
		t.Fatalf("a connection beyond the limit reads %v, want the end", err)
	}
	// One that ends makes room for another, however often it is closed.
	last.Close()
	last.Close()
	next := dial()
	defer next.Close()
	(<-accepted).Close()
	if got := l.open.Load(); got != maxConnections-1 {
		t.Errorf("%d connections are counted, want %d", got, maxConnections-1)
	}
}
