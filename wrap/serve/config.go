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
	// DefaultMaxPerClient is a quarter of the connections that a listener has: more than proxies open to one
	// server by their own defaults, such as Envoy's 1,024.
	DefaultMaxPerClient = maxConnections / 4
)

const (
	unlimited = math.MaxUint64
	// reserved files are for Config.Admin, the files of bundles, the runtime and what else is open.
	reserved = maxAdminConnections + 256
)

// connectionsWithin returns how many connections HTTP and gRPC may have each, in all and of one client's address,
// where a process may have so many files open: beyond that nothing could be accepted, at Config.Admin neither.
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

// Config says what is served, where and within what limits. Zero is the default of what has one.
type Config struct {
	Bundles []Bundle
	// Runtime has the threads of one inference, where 0 chooses between one and all by the time that an example
	// takes, and in Batch the most examples in one.
	Runtime wrap.Runtime

	HTTP, GRPC string // addresses to listen at, HOST:PORT; "": not at all
	// Admin is an address for probes and Prometheus alone, with connections of its own: without TLS and without
	// a token it answers /v2/health/live, /v2/health/ready and /metrics. "": not at all.
	Admin string

	MaxQueue int           // examples of a bundle that wait at most: others are refused
	Delay    time.Duration // that an inference waits at most for others to join it, and only under load; negative: none
	Timeout  time.Duration // of a request, from its first byte to the last of its answer
	MaxBody  int64         // bytes of a request at most, decompressed
	InFlight int64         // bytes of all requests at a time: others are refused
	// MaxPerClient is how many connections a client's address may have to each of HTTP and GRPC; those beyond
	// are closed at once. Of IPv6 it is 64 bits of the address.
	MaxPerClient int
	Drain        time.Duration // for requests to be answered, once the server is to end; negative: none
	// Notice is for how long requests are taken after the server has begun to say that it is not ready, so
	// that who routes them hears of it.
	Notice time.Duration
	Watch  time.Duration // how often to look whether bundles have changed; 0: only when asked to

	TLS   TLS
	Token string // that requests must have as bearer token; "": none

	Log    *slog.Logger // nil: none
	Traces string       // URL that traces are sent to, as telemetry.TracingConfig has it
}

// TLS are files in PEM. Without CertFile there is no TLS.
type TLS struct {
	CertFile, KeyFile string
	ClientCA          string // whose certificates clients must have; "": they need none
}

// A NameError says that a bundle cannot be served under a name.
type NameError struct {
	Name, Dir string
	Other     string // the folder of the bundle that has the name already; "": the name itself is refused
}

func (e *NameError) Error() string {
	if e.Other != "" {
		return fmt.Sprintf("%s and %s would both be served as %q: give one another name", e.Other, e.Dir, e.Name)
	}
	return fmt.Sprintf("%s: a bundle cannot be served as %q: give a name of letters, digits, and . _ -", e.Dir, e.Name)
}

var nameFormat = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)

// complete fills in the defaults, and refuses what cannot be meant.
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
		return c, errors.New("no address to listen at")
	}
	if c.TLS.CertFile == "" && (c.TLS.KeyFile != "" || c.TLS.ClientCA != "") || c.TLS.CertFile != "" && c.TLS.KeyFile == "" {
		return c, errors.New("TLS takes a certificate and its key")
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
		return c, errors.New("limits are negative, or all requests together may have fewer bytes than one")
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// loopback reports whether an address is reached from this machine alone.
func loopback(address net.Addr) bool {
	a, ok := address.(*net.TCPAddr)
	return ok && a.IP.IsLoopback()
}
