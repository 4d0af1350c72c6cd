package serve

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"path/filepath"
	"regexp"
	"time"

	"github.com/mfgs/mfgs/wrap"
)

// Defaults of a Config.
const (
	DefaultMaxQueue = 4096 // examples
	DefaultDelay    = 2 * time.Millisecond
	DefaultTimeout  = 30 * time.Second
	DefaultDrain    = 30 * time.Second
	DefaultMaxBody  = 64 << 20  // bytes
	DefaultInFlight = 512 << 20 // bytes
	// DefaultMaxPerClient is a quarter of the connections of a listener: more than proxies open to one server by
	// default, such as Envoy's 1,024.
	DefaultMaxPerClient = maxConnections / 4
)

const (
	unlimited = math.MaxUint64
	// reserved files are for Config.Admin, the files of bundles, the runtime and anything else.
	reserved = maxAdminConnections + 256
)

// connectionsWithin returns how many connections HTTP and gRPC may have each, in all and per client address, if the
// process may open so many files. With more, nothing could be accepted, not even at Config.Admin.
func connectionsWithin(files uint64, perClient int) (most, each int) {
	room := min(files, 2*maxConnections+reserved)
	room -= min(room/2, reserved)
	most = max(1, int(room/2))
	return most, max(1, min(perClient, perClient*most/maxConnections))
}

// A Bundle is served under a name, which the protocol calls a model.
type Bundle struct {
	Name  string
	Dir   string
	Model string // path of the model file, for a bundle that holds none
}

// Config says what is served, where, and within what limits. Zero values stand for the defaults.
type Config struct {
	Bundles []Bundle
	// Runtime holds the threads of one inference, where 0 chooses between one and all by the latency of an
	// example, and in Batch the largest number of examples in one.
	Runtime wrap.Runtime

	HTTP, GRPC string // addresses to listen on, HOST:PORT; "": none
	// Admin is an address for probes and Prometheus, with its own connections: without TLS and without a token
	// it answers /v2/health/live, /v2/health/ready and /metrics. "": none.
	Admin string

	MaxQueue int           // most examples of a bundle that wait; more are refused
	Delay    time.Duration // longest wait of an inference for others to join it, under load only; negative: none
	Timeout  time.Duration // of a request, from its first byte to the last of its answer
	MaxBody  int64         // most bytes of a request, decompressed
	InFlight int64         // most bytes of all requests at a time; more are refused
	// MaxPerClient is the most connections of a client address to each of HTTP and GRPC; more are closed at once.
	// An IPv6 client is the first 64 bits of the address.
	MaxPerClient int
	Drain        time.Duration // longest wait for requests under way at shutdown; negative: none
	// Notice is how long requests are accepted after the server has begun to report that it is not ready, so that
	// load balancers notice.
	Notice time.Duration
	Watch  time.Duration // how often to check whether bundles have changed; 0: never

	TLS   TLS
	Token string // bearer token that requests must have; "": none

	Log    *slog.Logger // nil: none
	Traces string       // URL to send traces to, as telemetry.TracingConfig.Endpoint
}

// TLS names PEM files. Without CertFile there is no TLS.
type TLS struct {
	CertFile, KeyFile string
	ClientCA          string // CA that must have signed client certificates; "": clients need none
}

// A NameError says that a bundle cannot be served under a name.
type NameError struct {
	Name, Dir string
	Other     string // folder of the bundle that already has the name; "": the name itself is invalid
}

func (e *NameError) Error() string {
	if e.Other != "" {
		return fmt.Sprintf("%s and %s would both be served as %q: name one of them", e.Other, e.Dir, e.Name)
	}
	return fmt.Sprintf("%s: a bundle cannot be served as %q: give a name of letters, digits, and . _ -", e.Dir, e.Name)
}

var nameFormat = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)

// complete fills in the defaults and refuses invalid values.
func (c Config) complete() (Config, error) {
	if len(c.Bundles) == 0 {
		return c, errors.New("no bundle to serve")
	}
	names := map[string]string{}
	for i := range c.Bundles {
		b := &c.Bundles[i]
		if b.Name == "" {
			abs, err := filepath.Abs(b.Dir)
			if err != nil {
				return c, err
			}
			b.Name = filepath.Base(abs)
		}
		if !nameFormat.MatchString(b.Name) {
			return c, &NameError{Name: b.Name, Dir: b.Dir}
		}
		if other, dup := names[b.Name]; dup {
			return c, &NameError{Name: b.Name, Dir: b.Dir, Other: other}
		}
		names[b.Name] = b.Dir
	}
	if c.HTTP == "" && c.GRPC == "" {
		return c, errors.New("no address to listen on")
	}
	if c.TLS.CertFile == "" && (c.TLS.KeyFile != "" || c.TLS.ClientCA != "") || c.TLS.CertFile != "" && c.TLS.KeyFile == "" {
		return c, errors.New("TLS needs a certificate and its key")
	}
	for _, d := range []struct {
		v         *time.Duration
		otherwise time.Duration
	}{{&c.Delay, DefaultDelay}, {&c.Timeout, DefaultTimeout}, {&c.Drain, DefaultDrain}} {
		if *d.v == 0 {
			*d.v = d.otherwise
		}
	}
	if c.MaxQueue == 0 {
		c.MaxQueue = DefaultMaxQueue
	}
	if c.MaxBody == 0 {
		c.MaxBody = DefaultMaxBody
	}
	if c.InFlight == 0 {
		c.InFlight = max(DefaultInFlight, 4*c.MaxBody)
	}
	if c.MaxPerClient == 0 {
		c.MaxPerClient = DefaultMaxPerClient
	}
	if c.MaxQueue < 0 || c.MaxPerClient < 0 || c.MaxBody < 0 || c.InFlight < c.MaxBody ||
		c.Timeout < 0 || c.Notice < 0 || c.Watch < 0 {
		return c, errors.New("limits are negative, or the limit for all requests is below that for one")
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// loopback reports whether an address can only be reached from this machine.
func loopback(address net.Addr) bool {
	a, ok := address.(*net.TCPAddr)
	return ok && a.IP.IsLoopback()
}
