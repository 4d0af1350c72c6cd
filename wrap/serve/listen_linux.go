package serve

import (
	"net"

	"golang.org/x/sys/unix"
)

// dropNew makes the kernel drop requests for new connections to a listener. Handshakes under way are finished: only
// segments with SYN and without ACK are dropped.
//
// The alternatives lose connections: shutdown(2) and close(2) reset those that are not accepted yet, and listen(2) with
// a backlog of 0 still completes one at a time.
func dropNew(l *net.TCPListener) error {
	const flags, syn, ack = 13, 0x02, 0x10 // offset of the flags in a TCP header: RFC 9293, 3.1
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: flags},
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: syn | ack},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: syn, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0xffffffff},
	}
	raw, err := l.SyscallConn()
	if err != nil {
		return err
	}
	e := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			&unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
	})
	if e != nil {
		return e
	}
	return err
}
