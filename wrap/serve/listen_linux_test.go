package serve

import (
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// dialFrom connects from an address of this machine.
func dialFrom(t *testing.T, from, to string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.Dial("tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	return c
}

func TestConnectionsBeyondTheLimitsAreClosedAtOnce(t *testing.T) {
	t.Parallel()
	const most, each = 5, 3
	var log strings.Builder
	l, err := listen("127.0.0.1:0", most, each, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan net.Conn, 2*most)
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
	address := l.Addr().String()
	refused := func(from string) {
		t.Helper()
		if _, err := dialFrom(t, from, address).Read(make([]byte, 1)); err != io.EOF {
			t.Fatalf("a connection beyond the limit reads %v, want the end", err)
		}
	}
	var last net.Conn
	for range each {
		dialFrom(t, "127.0.0.1", address)
		last = <-accepted
	}
	refused("127.0.0.1")
	// Another client has its own connections, up to the bound of the listener.
	for range most - each {
		dialFrom(t, "127.0.0.2", address)
		<-accepted
	}
	refused("127.0.0.2")
	// A closed connection makes room for one other, however often it is closed.
	last.Close()
	last.Close()
	dialFrom(t, "127.0.0.1", address)
	<-accepted
	refused("127.0.0.1")
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.conns) != most || len(l.of) != 2 {
		t.Errorf("%d connections of %v are counted, want %d", len(l.conns), l.of, most)
	}
	first, more, _ := strings.Cut(log.String(), "\n")
	if !strings.Contains(first, "client=127.0.0.1/32 of_client=3 limit_of_client=3 open=3 limit=5") || more != "" {
		t.Errorf("the log says %s", log.String())
	}
}

// A server may be late to accept: it pauses for up to a second after some errors.
func TestStoppedListenersAcceptCompletedConnections(t *testing.T) {
	t.Parallel()
	l, err := listen("127.0.0.1:0", 5, 5, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialFrom(t, "127.0.0.1", l.Addr().String())
	l.stop(t.Context())
	time.Sleep(settle + 100*time.Millisecond)
	if _, err := l.Accept(); err != nil {
		t.Errorf("a connection that was made before: %v", err)
	}
	if _, err := l.Accept(); err != errStopped {
		t.Errorf("behind it: %v, want %v", err, errStopped)
	}
}

// If the system cannot drop new connections, clients that keep connecting do not delay shutdown.
func TestStoppedListenersEndWhileClientsConnect(t *testing.T) {
	t.Parallel()
	l, err := listen("127.0.0.1:0", 5, 5, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	var dialing sync.WaitGroup
	defer dialing.Wait()
	defer l.Close()
	for range 8 {
		dialing.Go(func() {
			for {
				c, err := net.Dial("tcp", l.Addr().String())
				if err != nil {
					return
				}
				c.Close()
			}
		})
	}
	l.stopping.Store(true) // as stop does without a filter
	_ = l.SetDeadline(time.Now())
	for deadline := time.Now().Add(5 * time.Second); ; {
		c, err := l.Accept()
		if err == errStopped {
			return
		}
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("%v, want %v after %v", err, errStopped, settle)
		}
		c.Close()
	}
}

func TestClientsAreCountedByAddress(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"10.1.2.3": "10.1.2.3/32", "::ffff:10.1.2.3": "10.1.2.3/32",
		"2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64", "fe80::1": "fe80::/64",
	} {
		if got := clientOf(from{ip: net.ParseIP(address)}).String(); got != want {
			t.Errorf("%s counts as %s, want %s", address, got, want)
		}
	}
}

// from returns a connection from an address.
type from struct {
	net.Conn
	ip net.IP
}

func (f from) RemoteAddr() net.Addr { return &net.TCPAddr{IP: f.ip, Zone: "eth0"} }
