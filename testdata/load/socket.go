package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// socketVariable makes this program the process behind a socket. It holds the shape of an example.
const socketVariable = "LOAD_SOCKET"

// A socket is the bare loop in its own process behind a plain TCP connection, without HTTP, queue or allocation.
// Any server has at least its overhead.
type socket struct {
	process *exec.Cmd
	net.Conn
	request, answer []byte
}

// dial starts the process and prepares a request.
func dial(l *loop) (*socket, error) {
	p := exec.Command(os.Args[0], os.Args[1:]...)
	p.Env = append(os.Environ(), socketVariable+"="+strings.Trim(fmt.Sprint(l.shape), "[]"))
	p.Stderr = os.Stderr
	out, err := p.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.Start(); err != nil {
		return nil, err
	}
	s := &socket{process: p}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err == nil {
		s.Conn, err = net.Dial("tcp", line[:len(line)-1])
	}
	if err == nil {
		s.request, err = binary.Append(nil, binary.LittleEndian, numbers(width(l.shape)))
	}
	if err != nil {
		s.stop()
		return nil, err
	}
	s.answer = make([]byte, 8)
	return s, nil
}

func (s *socket) stop() {
	_ = s.process.Process.Kill()
	_ = s.process.Wait()
}

// one sends one request.
func (s *socket) one() error {
	if _, err := s.Write(s.request); err != nil {
		return err
	}
	_, err := io.ReadFull(s, s.answer)
	return err
}

// answerSocket is the other process. It answers each example of a shape with a few bytes.
func answerSocket(shape string) error {
	var dims []int64
	for _, d := range strings.Fields(shape) {
		n, err := strconv.ParseInt(d, 10, 64)
		if err != nil {
			return err
		}
		dims = append(dims, n)
	}
	l, err := newBare(*model, dims)
	if err != nil {
		return err
	}
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(at.Addr())
	c, err := at.Accept()
	if err != nil {
		return err
	}
	in := l.input(1)
	data, ok := in[0].Data.([]float32)
	if !ok {
		return errors.New("no float32")
	}
	buffer := make([]byte, 4*len(data))
	for {
		if _, err := io.ReadFull(c, buffer); err != nil {
			return err
		}
		if _, err := binary.Decode(buffer, binary.LittleEndian, data); err != nil {
			return err
		}
		if _, err := l.session.Run(context.Background(), in); err != nil {
			return err
		}
		if _, err := c.Write(buffer[:8]); err != nil {
			return err
		}
	}
}
