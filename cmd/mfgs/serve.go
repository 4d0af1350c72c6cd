package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/mfgs/mfgs/wrap/bench"
	"github.com/mfgs/mfgs/wrap/serve"
	"github.com/urfave/cli/v2"
)

// Headings of serve's help.
const (
	addressFlags = "addresses"
	loadFlags    = "load and limits"
	safetyFlags  = "security"
)

func (p *program) serve() *cli.Command {
	var config serve.Config
	return &cli.Command{
		Name:      "serve",
		Usage:     "serve predictions over HTTP and gRPC",
		UsageText: "mfgs serve --bundle [NAME=]DIR... [--http HOST:PORT] [--grpc HOST:PORT]",
		Description: `Serves bundles over HTTP and gRPC with the Open Inference Protocol, which clients of Triton and KServe
use. There is a web page at /, and POST /v1/predict takes an image or a JSON object of the model's inputs.
NAME is the model's name for clients; the default is the name of the bundle's folder.

Requests that arrive during an inference run together in the next batch; a lone request runs immediately.
SIGHUP reloads the bundles that have changed, and a load request reloads one. The old bundle answers until the
new one has passed a test on its stored validation inputs. SIGTERM stops the server when all open requests are answered, or after --drain.

By default the server listens on this machine only. The log goes to standard error, one JSON object per
line, and never contains inputs.`,
		Flags:  slices.Concat(serveFlags(&config), inferenceFlags("1 or all CPUs, measured when a bundle is loaded")),
		Action: func(c *cli.Context) error { return p.runServe(c, config) },
	}
}

// serveFlags returns the flags of serve. Most write to config, whose zero values are the defaults; serveConfig
// reads the others.
func serveFlags(to *serve.Config) []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "bundle", Category: dataFlags, Usage: "`[NAME=]DIR` bundle to serve; may be repeated"},
		&cli.StringFlag{Name: "model", Category: dataFlags, Usage: "`FILE` the network, if the bundle does not contain it; only with a single --bundle"},
		addressFlag("http", "`HOST:PORT` address for HTTP, or none", "127.0.0.1:8000", &to.HTTP),
		addressFlag("grpc", "`HOST:PORT` address for gRPC, or none", "127.0.0.1:8001", &to.GRPC),
		addressFlag("admin", "`HOST:PORT` separate address for health checks and metrics, without TLS or a token; none turns it off", "none", &to.Admin),
		textFlag("tls-cert", safetyFlags, "`FILE` TLS certificate in PEM; reloaded when it changes", &to.TLS.CertFile),
		textFlag("tls-key", safetyFlags, "`FILE` key of the TLS certificate", &to.TLS.KeyFile),
		textFlag("client-ca", safetyFlags, "`FILE` CA certificates; clients must have a certificate from one of them", &to.TLS.ClientCA),
		&cli.StringFlag{Name: "token-file", Category: safetyFlags, Usage: "`FILE` file with the bearer token that requests must send [or set the token itself in $" + tokenVariable + "]"},
		limitFlag("max-queue", "`N` at most N waiting examples per bundle; more are refused", serve.DefaultMaxQueue, &to.MaxQueue, 1),
		timeFlag("delay", loadFlags, "`TIME` longest wait for more requests to fill a batch, only under load; 0: none", serve.DefaultDelay, &to.Delay, -1),
		timeFlag("timeout", loadFlags, "`TIME` time limit for a request", serve.DefaultTimeout, &to.Timeout, refused),
		limitFlag("max-body", "`MIB` largest request in MiB, uncompressed", serve.DefaultMaxBody>>20, &to.MaxBody, 1<<20),
		limitFlag("max-per-client", "`N` at most N connections per client address, for HTTP and for gRPC each", serve.DefaultMaxPerClient, &to.MaxPerClient, 1),
		timeFlag("drain", loadFlags, "`TIME` longest wait for open requests at shutdown; 0: none", serve.DefaultDrain, &to.Drain, -1),
		timeFlag("notice", loadFlags, "`TIME` time at shutdown, before --drain, to accept requests while reporting not ready", 0, &to.Notice, 0),
		textFlag("traces", loadFlags, "`URL` endpoint for OpenTelemetry traces [$OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, or $OTEL_EXPORTER_OTLP_ENDPOINT]", &to.Traces),
		timeFlag("watch", dataFlags, "`TIME` check this often whether bundles have changed; 0: never", 0, &to.Watch, 0),
	}
}

// textFlag is a flag with a string.
func textFlag(name, category, usage string, to *string) cli.Flag {
	return &cli.StringFlag{Name: name, Category: category, Usage: usage, Destination: to}
}

// addressFlag is a flag with a listen address; none is "".
func addressFlag(name, usage, standard string, to *string) cli.Flag {
	if standard != "none" {
		*to = standard
	}
	return &cli.StringFlag{Name: name, Category: addressFlags, Usage: usage + " [" + standard + "]",
		Action: func(c *cli.Context, v string) error {
			if *to = v; v == "none" {
				*to = ""
			} else if _, _, err := net.SplitHostPort(v); err != nil {
				return usagef(c.Command.Name, "--%s %s: want HOST:PORT, or none", name, v)
			}
			return nil
		}}
}

// limitFlag is a flag with a positive number of units.
func limitFlag[N int | int64](name, usage string, standard int, to *N, unit N) cli.Flag {
	return &cli.IntFlag{Name: name, Category: loadFlags, Usage: fmt.Sprintf("%s [%d]", usage, standard),
		Action: func(c *cli.Context, v int) error {
			if *to = N(v) * unit; v < 0 {
				return usagef(c.Command.Name, "--%s %d is negative", name, v)
			}
			if v == 0 {
				return usagef(c.Command.Name, "--%s 0: want 1 or more, or leave it out for %d", name, standard)
			}
			return nil
		}}
}

// refused is a zero of timeFlag.
const refused = math.MinInt64

// timeFlag is a flag with a non-negative duration. If zero is refused, 0 is an error.
func timeFlag(name, category, usage string, standard time.Duration, to *time.Duration, zero time.Duration) cli.Flag {
	return &cli.DurationFlag{Name: name, Category: category, Usage: fmt.Sprintf("%s [%v]", usage, standard),
		Action: func(c *cli.Context, v time.Duration) error {
			if *to = v; v < 0 {
				return usagef(c.Command.Name, "--%s %v is negative", name, v)
			}
			if v == 0 && zero == refused {
				return usagef(c.Command.Name, "--%s 0: want a time such as 1m, or leave it out for %v", name, standard)
			}
			if v == 0 {
				*to = zero
			}
			return nil
		}}
}

// tokenVariable is an environment variable, since arguments show in process lists.
const tokenVariable = "MFGS_TOKEN"

func (p *program) runServe(c *cli.Context, config serve.Config) error {
	if err := p.serveConfig(c, &config); err != nil {
		return err
	}
	// The heap of a server is small, as the model is not in it: with the default it would be collected many times
	// a second.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	hangups := make(chan os.Signal, 1) // from now on: a SIGHUP while bundles are loaded must not end the process
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	server, err := serve.New(c.Context, config)
	if name := (*serve.NameError)(nil); errors.As(err, &name) {
		return fmt.Errorf("%w as NAME=DIR", err)
	}
	if err != nil {
		return err
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit(server.InFlight() + server.Sequences()))
	}
	stop := reloadOn(c.Context, hangups, server)
	defer stop()
	writeServing(p.stdout, server)
	return server.Run(c.Context)
}

// memoryLimit returns Go's soft memory limit: that of all requests in flight and open sequences, of the bundles, twice
// while one is reloaded, and of connections.
func memoryLimit(requests int64) int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return requests + 2*int64(m.Sys-m.HeapReleased) + 64<<20
}

// serveConfig completes the config that serveFlags wrote to.
func (p *program) serveConfig(c *cli.Context, config *serve.Config) (err error) {
	fail := func(format string, args ...any) error { return usagef(c.Command.Name, format, args...) }
	if err := noArguments(c); err != nil {
		return err
	}
	bundles := c.StringSlice("bundle")
	if len(bundles) == 0 {
		return fail("missing --bundle")
	}
	if c.String("model") != "" && len(bundles) > 1 {
		return fail("--model needs exactly one bundle, got %d", len(bundles))
	}
	for _, arg := range bundles {
		one := bench.ParseNamedSpec(arg)
		dir := one.Spec
		if dir == arg {
			one.Name = ""
		}
		if err := checkPath(dir, pathKinds["bundle"]); err != nil {
			return fmt.Errorf("--bundle %w", err)
		}
		config.Bundles = append(config.Bundles, serve.Bundle{Name: one.Name, Dir: dir, Model: c.String("model")})
	}
	if err := checkPaths(c, "model"); err != nil {
		return err
	}
	if config.HTTP == "" && config.GRPC == "" {
		return fail("--http and --grpc are both none: there is no address to serve at")
	}
	if (config.TLS.CertFile == "") != (config.TLS.KeyFile == "") || config.TLS.ClientCA != "" && config.TLS.CertFile == "" {
		return fail("--tls-cert and --tls-key need each other, and --client-ca needs both")
	}
	if config.Token, err = readToken(c.String("token-file")); err != nil {
		return err
	}
	config.Log = slog.New(slog.NewJSONHandler(p.stderr, nil))
	bar := p.progress()
	defer bar.done()
	config.Runtime = p.inference(c, bar)
	return nil
}

// readToken reads the token from a file or the environment, "" if there is neither.
func readToken(path string) (string, error) {
	text, from := os.LookupEnv(tokenVariable)
	where := tokenVariable
	if path != "" {
		data, err := readSideFile(path)
		if err != nil {
			return "", fmt.Errorf("--token-file %w", err)
		}
		text, from, where = string(data), true, "--token-file "+path
	}
	token := strings.TrimSpace(text)
	if from && len(strings.Fields(token)) != 1 {
		return "", fmt.Errorf("%s: want a token of one word, got %d words: leave it out if requests need no token", where, len(strings.Fields(token)))
	}
	return token, nil
}

// reloadOn reloads changed bundles on each signal.
func reloadOn(ctx context.Context, hangups <-chan os.Signal, server *serve.Server) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		for {
			select {
			case <-hangups:
				_ = server.Reload(ctx) // which logs errors
			case <-ctx.Done():
				return
			}
		}
	}()
	return cancel
}

// writeServing writes the addresses of the server.
func writeServing(w io.Writer, server *serve.Server) {
	var f facts
	if a := server.HTTPAddr(); a != nil {
		scheme := "http"
		if server.TLS() {
			scheme = "https"
		}
		f.add("page and HTTP", scheme+"://"+a.String())
	}
	if a := server.GRPCAddr(); a != nil {
		f.add("gRPC", a.String())
	}
	if a := server.AdminAddr(); a != nil {
		f.add("probes and metrics", "http://"+a.String())
	}
	f.add("models", strings.Join(server.Models(), ", "))
	_, _ = io.WriteString(w, f.text())
}
