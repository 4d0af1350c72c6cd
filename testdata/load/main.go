// Command load measures the overhead of mfgs serve over ONNX Runtime. It alternates with a bare loop over the same
// model, with the same threads on the same machine, and, for one client, with that loop in its own process behind a
// plain socket.
//
//	go build -o mfgs ./cmd/mfgs
//	mfgs export --bundle BUNDLE --out fused.onnx
//	go run -C testdata ./load -mfgs ../mfgs -bundle BUNDLE -model fused.onnx
//
// The bare loop runs the exported model, which has the same outputs, with the server's batch size. Requests
// have one example each, as bytes, over persistent connections. Client and server share the machine, so the client's
// work counts against the server.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mfgs/mfgs/featurize/ort"
	"github.com/mfgs/mfgs/onnx/tensor"
	"github.com/mfgs/mfgs/wrap"
)

var (
	command = flag.String("mfgs", "mfgs", "`PATH` of the command")
	bundle  = flag.String("bundle", "", "`DIR` to serve")
	model   = flag.String("model", "", "`FILE` exported from it, for the bare loop")
	plain   = flag.String("plain", "", "`FILE` the network alone, for a second bare loop")
	batch   = flag.Int("batch", 16, "examples in a batch of the bare loop and, at most, of the server")
	clients = flag.Int("clients", 0, "clients at saturation [twice the batch]")
	threads = flag.Int("threads", 0, "threads of an inference [all]")
	seconds = flag.Float64("seconds", 5, "of each measurement")
	rounds  = flag.Int("rounds", 3, "turns of bare loop and server")
	most    = flag.Int("queue", 256, "examples that wait at most")
	peer    = flag.String("peer", "", "`URL` of a model, …/v2/models/NAME, that another server serves, to compare with")
)

func main() {
	log.SetFlags(0)
	flag.Parse()
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	if *clients == 0 {
		*clients = 2 * *batch
	}
	if err := (&wrap.Runtime{Install: true}).Load(ctx); err != nil {
		return err
	}
	if shape := os.Getenv(socketVariable); shape != "" {
		return answerSocket(shape)
	}
	s, err := serve(ctx)
	if err != nil {
		return err
	}
	defer s.stop()
	if err := s.learn(); err != nil {
		return err
	}
	bare, err := newBare(*model, s.shape)
	if err != nil {
		return err
	}
	alone := bare
	if *plain != "" {
		if alone, err = newBare(*plain, s.shape); err != nil {
			return err
		}
	}
	fmt.Printf("input %v, batches of %d, %d clients, threads %d (0: all)\n", s.shape, *batch, *clients, *threads)
	if err := compare(s, bare, alone); err != nil {
		return err
	}
	peak := s.peak
	if err := s.openLoop("half load", peak/2); err != nil {
		return err
	}
	return s.openLoop("4 x overload", 4*peak)
}

// compare alternates bare loops and the server: throughput at saturation, and latency of one client.
func compare(s *server, bare, alone *loop) error {
	other, err := s.peer()
	if err != nil {
		return err
	}
	rate := []func() (float64, error){
		func() (float64, error) { return bare.rate(*batch) },
		func() (float64, error) { return alone.rate(*batch) },
		s.saturate,
	}
	plain, err := dial(bare)
	if err != nil {
		return err
	}
	defer plain.stop()
	latency := []func() error{bare.one(), plain.one, s.one()}
	if other != nil {
		rate, latency = append(rate, other.saturate), append(latency, other.one())
	}
	var rates, one [4][]float64
	for range *rounds {
		for i, f := range rate {
			r, err := f()
			if err != nil {
				return err
			}
			rates[i] = append(rates[i], r)
		}
		if err := alternate(latency, &one); err != nil {
			return err
		}
	}
	b, p, v := median(rates[0]), median(rates[1]), median(rates[2])
	fmt.Printf("saturation: bare %.1f/s, plain %.1f/s, server %.1f/s: %.3f of bare, %.3f of plain\n", b, p, v, v/b, v/p)
	lb, ls, lv := 1e3*median(one[0]), 1e3*median(one[1]), 1e3*median(one[2])
	fmt.Printf("one client: bare %.3f ms, behind a socket %.3f ms (%+.3f), server %.3f ms (%+.3f)\n", lb, ls, ls-lb, lv, lv-lb)
	s.peak = v
	if other != nil {
		fmt.Printf("the other server: %.1f/s, %.3f of bare; one client %.3f ms\n", median(rates[3]), median(rates[3])/b, 1e3*median(one[3]))
	}
	return nil
}

// alternate times several calls in short turns, since the machine's other load varies within seconds by more than
// they differ.
func alternate(calls []func() error, times *[4][]float64) error {
	for begun := time.Now(); time.Since(begun).Seconds() < *seconds*float64(len(calls)); {
		for i, f := range calls {
			for range 8 {
				t := time.Now()
				if err := f(); err != nil {
					return err
				}
				times[i] = append(times[i], time.Since(t).Seconds())
			}
		}
	}
	return nil
}

func median(x []float64) float64 { return quantile(x, 0.5) }

func quantile(x []float64, q float64) float64 {
	x = slices.Sorted(slices.Values(x))
	if len(x) == 0 {
		return math.NaN()
	}
	return x[min(len(x)-1, int(q*float64(len(x))))]
}

// A loop is a bare session of ONNX Runtime.
type loop struct {
	session *ort.Session
	name    string
	shape   []int64 // per example
}

func newBare(path string, shape []int64) (*loop, error) {
	graph, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	session, err := ort.NewSession(
		ort.SessionConfig{Graph: graph, Folder: filepath.Dir(path), Threads: *threads, Spin: false})
	if err != nil {
		return nil, err
	}
	return &loop{session, session.Inputs()[0].Name, shape}, nil
}

// rate returns examples per second, in batches of n.
func (l *loop) rate(n int) (float64, error) {
	in := l.input(n)
	begun, done := time.Now(), 0
	for time.Since(begun).Seconds() < *seconds {
		if _, err := l.session.Run(context.Background(), in); err != nil {
			return 0, err
		}
		done += n
	}
	return float64(done) / time.Since(begun).Seconds(), nil
}

// one returns a function that runs one example.
func (l *loop) one() func() error {
	in := l.input(1)
	return func() error {
		_, err := l.session.Run(context.Background(), in)
		return err
	}
}

func (l *loop) input(n int) []tensor.Tensor {
	shape := append([]int64{int64(n)}, l.shape...)
	return []tensor.Tensor{{Name: l.name, Shape: shape, Data: numbers(width(shape))}}
}

func width(shape []int64) int {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	return int(n)
}

func numbers(n int) []float32 {
	r := rand.New(rand.NewPCG(1, 2))
	x := make([]float32, n)
	for i := range x {
		x[i] = r.Float32()
	}
	return x
}

// A server is a process of mfgs serve.
type server struct {
	process *exec.Cmd
	url     string
	address string
	name    string
	input   string
	shape   []int64 // of an example
	body    []byte
	header  string
	peak    float64 // answers per second
}

func serve(ctx context.Context) (*server, error) {
	args := []string{"serve", "--bundle", "m=" + *bundle, "--http", "127.0.0.1:0", "--grpc", "none", "--batch", strconv.Itoa(*batch),
		"--max-queue", strconv.Itoa(*most)}
	if *threads > 0 {
		args = append(args, "--threads", strconv.Itoa(*threads))
	}
	p := exec.CommandContext(ctx, *command, args...)
	p.Stderr = os.Stderr
	p.Env = slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "MFGS_TOKEN=") })
	out, err := p.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.Start(); err != nil {
		return nil, err
	}
	s := &server{process: p, name: "m"}
	lines := bufio.NewScanner(out)
	for s.url == "" && lines.Scan() {
		if i := strings.Index(lines.Text(), "http://"); i >= 0 {
			s.url = strings.TrimSpace(lines.Text()[i:])
			s.address = strings.TrimPrefix(s.url, "http://")
		}
	}
	if s.url == "" {
		return nil, errors.New("the server said no address")
	}
	go io.Copy(io.Discard, out)
	return s, nil
}

func (s *server) stop() {
	_ = s.process.Process.Signal(syscall.SIGTERM)
	if err := s.process.Wait(); err != nil {
		log.Print("server: ", err)
	}
}

// peer is the server of -peer, nil without one. It serves the same model.
func (s *server) peer() (*server, error) {
	if *peer == "" {
		return nil, nil
	}
	u, err := url.Parse(*peer)
	if err != nil {
		return nil, err
	}
	other := *s
	other.address, other.url, other.name = u.Host, "http://"+u.Host, path.Base(u.Path)
	return &other, other.learn()
}

// learn asks for the model's input and builds the request.
func (s *server) learn() error {
	r, err := http.Get(s.url + "/v2/models/" + s.name)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	var m struct {
		Inputs []struct {
			Name, Datatype string
			Shape          []int64
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		return err
	}
	if len(m.Inputs) != 1 || m.Inputs[0].Datatype != "FP32" {
		return fmt.Errorf("inputs %+v, want one of FP32", m.Inputs)
	}
	s.input, s.shape = m.Inputs[0].Name, m.Inputs[0].Shape[1:]
	data, err := binary.Append(nil, binary.LittleEndian, numbers(width(s.shape)))
	if err != nil {
		return err
	}
	head := fmt.Sprintf(`{"id":"1","inputs":[{"name":%q,"shape":%s,"datatype":"FP32","parameters":{"binary_data_size":%d}}],"parameters":{"binary_data_output":true}}`,
		s.input, strings.ReplaceAll(fmt.Sprint(append([]int64{1}, s.shape...)), " ", ","), len(data))
	s.body, s.header = append([]byte(head), data...), strconv.Itoa(len(head))
	c, err := s.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.ask()
	return err
}

// A connection sends requests. It avoids net/http, whose work would be taken from the server.
type connection struct {
	net.Conn
	*bufio.Reader
	request []byte
}

func (s *server) connect() (*connection, error) {
	c, err := net.Dial("tcp", s.address)
	if err != nil {
		return nil, err
	}
	head := fmt.Sprintf("POST /v2/models/%s/infer HTTP/1.1\r\nHost: %s\r\nContent-Type: application/octet-stream\r\nInference-Header-Content-Length: %s\r\nContent-Length: %d\r\n\r\n",
		s.name, s.address, s.header, len(s.body))
	return &connection{c, bufio.NewReaderSize(c, 16<<10), append([]byte(head), s.body...)}, nil
}

// ask sends the request and returns the status, OK or too many requests.
func (c *connection) ask() (int, error) {
	if _, err := c.Write(c.request); err != nil {
		return 0, err
	}
	code, size := 0, 0
	for {
		line, err := c.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		if len(line) <= 2 {
			break
		}
		if code == 0 {
			if code, err = strconv.Atoi(string(line[9:12])); err != nil {
				return 0, err
			}
		} else if name, value, _ := bytes.Cut(line, []byte(":")); bytes.EqualFold(name, []byte("Content-Length")) {
			if size, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return 0, err
			}
		}
	}
	if _, err := c.Discard(size); err != nil {
		return 0, err
	}
	if code != http.StatusOK && code != http.StatusTooManyRequests {
		return code, fmt.Errorf("status %d", code)
	}
	return code, nil
}

// one returns a function that asks once, and reconnects if the server closed the idle connection.
func (s *server) one() func() error {
	var c *connection
	return func() (err error) {
		if c != nil {
			if _, err = c.ask(); err == nil {
				return nil
			}
			c.Close()
		}
		if c, err = s.connect(); err != nil {
			return err
		}
		_, err = c.ask()
		return err
	}
}

// saturate returns answers per second to clients that ask again immediately.
func (s *server) saturate() (float64, error) {
	var done atomic.Int64
	var failed atomic.Pointer[error]
	var all sync.WaitGroup
	ends := time.Now().Add(time.Duration(*seconds * 1e9))
	begun := time.Now()
	for range *clients {
		all.Go(func() {
			c, err := s.connect()
			if err != nil {
				failed.Store(&err)
				return
			}
			defer c.Close()
			for time.Now().Before(ends) {
				if _, err := c.ask(); err != nil {
					failed.Store(&err)
					return
				}
				done.Add(1)
			}
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return float64(done.Load()) / time.Since(begun).Seconds(), nil
}

// maxWaiting bounds the concurrent requests of an open loop. Further ones count as lost, as for a client that ran
// out of connections.
const maxWaiting = 1000

// openLoop sends requests at random times at a rate, regardless of earlier ones. Latency counts from when a request was
// due.
func (s *server) openLoop(what string, rate float64) error {
	var mu sync.Mutex
	var answered, refused []float64
	var failures []string
	lost := 0
	var all sync.WaitGroup
	var free []*connection // most recently used last, since the server closes idle ones
	waiting := 0
	begun := time.Now()
	next, before := begun, s.memory()
	lasts := max(10, 2**seconds)
	for {
		next = next.Add(time.Duration(rand.ExpFloat64() / rate * 1e9))
		if next.Sub(begun).Seconds() > lasts {
			break
		}
		sleep(time.Until(next))
		due := next
		mu.Lock()
		var c *connection
		if n := len(free); n > 0 {
			c, free = free[n-1], free[:n-1]
		}
		if waiting == maxWaiting {
			mu.Unlock()
			lost++
			continue
		}
		waiting++
		mu.Unlock()
		all.Go(func() {
			code, err := 0, error(nil)
			if c == nil {
				c, err = s.connect()
			}
			if err == nil {
				code, err = c.ask()
			}
			took := time.Since(due).Seconds()
			mu.Lock()
			defer mu.Unlock()
			if waiting--; err == nil {
				free = append(free, c)
			}
			switch {
			case err != nil:
				failures = append(failures, err.Error())
			case code == http.StatusOK:
				answered = append(answered, took)
			default:
				refused = append(refused, took)
			}
		})
	}
	all.Wait()
	sent := time.Since(begun).Seconds()
	for _, c := range free {
		c.Close()
	}
	n, ms := len(answered), func(x []float64, q float64) float64 { return 1e3 * quantile(x, q) }
	fmt.Printf("%s, %.0f/s for %.0f s: %d answered (%.1f/s, %.3f of peak), %d refused, %d failed, %d lost\n",
		what, rate, sent, n, float64(n)/sent, float64(n)/sent/s.peak, len(refused), len(failures), lost)
	fmt.Printf("  answered p50 %.2f ms, p99 %.2f ms (%.2f x), longest %.0f ms; refused p50 %.2f ms, longest %.0f ms; resident %d -> %d MiB\n",
		ms(answered, 0.5), ms(answered, 0.99), ms(answered, 0.99)/ms(answered, 0.5), ms(answered, 1),
		ms(refused, 0.5), ms(refused, 1), before, s.memory())
	if len(failures) > 0 {
		fmt.Println("  the first failure:", failures[0])
	}
	return nil
}

// sleep is precise to about 50 µs. time.Sleep rounds up to a millisecond on an idle machine, so that requests would
// come late and in bursts.
func sleep(d time.Duration) {
	if d > 0 {
		t := syscall.NsecToTimespec(d.Nanoseconds())
		_ = syscall.Nanosleep(&t, nil) // harmless if a signal cuts it short
	}
}

// memory is the server's resident memory in MiB.
func (s *server) memory() int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.process.Process.Pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, _ := strconv.Atoi(strings.Fields(rest)[0])
			return kb >> 10
		}
	}
	return 0
}
