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
	loadFlags    = "load"
	safetyFlags  = "who may ask"
)

func (p *program) serve() *cli.Command {
	var config serve.Config
	return &cli.Command{
		Name:      "serve",
		Usage:     "answer requests over HTTP and gRPC",
		UsageText: "mfgs serve --bundle [NAME=]DIR... [--http HOST:PORT] [--grpc HOST:PORT]",
		Description: `Serves bundles by the Open Inference Protocol, which clients of Triton and KServe speak, over
HTTP and gRPC. For people there is a page at /, and POST /v1/predict takes an image or a JSON object of
the model's inputs. A bundle's NAME is that of its folder, if none is given.

Requests that come together are run together, and one that comes alone is run at once. SIGHUP, or a
load request, has bundles read anew: the old one serves until the new one has answered the held-out
examples that it holds. SIGTERM ends the server when all requests are answered.

Addresses are of this machine alone unless others are given. The log goes to standard error, one JSON
object a line; it never has inputs.`,
		Flags:  slices.Concat(serveFlags(&config), inferenceFlags()),
		Action: func(c *cli.Context) error { return p.runServe(c, config) },
	}
}

// serveFlags returns the flags of serve. Most write to config, whose zero values are the defaults; serveConfig
// reads the others.
func serveFlags(to *serve.Config) []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "bundle", Category: dataFlags, Usage: "`[NAME=]DIR` a folder that calibrate wrote; may be repeated"},
		&cli.StringFlag{Name: "model", Category: dataFlags, Usage: "`FILE` the network, where the only bundle holds none"},
		addressFlag("http", "`HOST:PORT` for HTTP, or none", "127.0.0.1:8000", &to.HTTP),
		addressFlag("grpc", "`HOST:PORT` for gRPC, or none", "127.0.0.1:8001", &to.GRPC),
		addressFlag("admin", "`HOST:PORT` for probes and metrics alone, without TLS or a token, or none", "none", &to.Admin),
		textFlag("tls-cert", safetyFlags, "`FILE` certificate for TLS, in PEM; a renewed one is taken up", &to.TLS.CertFile),
		textFlag("tls-key", safetyFlags, "`FILE` its key", &to.TLS.KeyFile),
		textFlag("client-ca", safetyFlags, "`FILE` whose certificates clients must have", &to.TLS.ClientCA),
		&cli.StringFlag{Name: "token-file", Category: safetyFlags, Usage: "`FILE` holds the bearer token that requests must have [$" + tokenVariable + "]"},
		limitFlag("max-queue", "`N` examples of a bundle that wait at most: others are refused", serve.DefaultMaxQueue, &to.MaxQueue, 1),
		timeFlag("delay", loadFlags, "`TIME` that an inference waits at most for others to join it, and only under load; 0 for none", serve.DefaultDelay, &to.Delay, -1),
		timeFlag("timeout", loadFlags, "`TIME` for a request", serve.DefaultTimeout, &to.Timeout, refused),
		limitFlag("max-body", "`MIB` of a request at most, unpacked", serve.DefaultMaxBody>>20, &to.MaxBody, 1<<20),
		limitFlag("max-per-client", "`N` connections that a client's address may have for HTTP, and as many for gRPC", serve.DefaultMaxPerClient, &to.MaxPerClient, 1),
		timeFlag("drain", loadFlags, "`TIME` for requests under way once the server is to end; 0 for none", serve.DefaultDrain, &to.Drain, -1),
		timeFlag("notice", loadFlags, "`TIME` before that, in which it takes requests and says that it is not ready", 0, &to.Notice, 0),
		textFlag("traces", loadFlags, "`URL` that OpenTelemetry traces are sent to [$OTEL_EXPORTER_OTLP_ENDPOINT]", &to.Traces),
		timeFlag("watch", dataFlags, "`TIME` how often to look whether bundles have changed; 0 for never", 0, &to.Watch, 0),
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
				return usagef(c.Command.Name, "--%s 0: nothing would be answered: want 1 or more, or leave it out for %d", name, standard)
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
				return usagef(c.Command.Name, "--%s %v: want no negative time", name, v)
			}
			if v == 0 && zero == refused {
				return usagef(c.Command.Name, "--%s 0: nothing would be answered: want a time such as 1m, or leave it out for %v", name, standard)
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
		debug.SetMemoryLimit(memoryLimit(server.InFlight()))
	}
	stop := reloadOn(c.Context, hangups, server)
	defer stop()
	writeServing(p.stdout, server)
	return server.Run(c.Context)
}

// memoryLimit returns Go's soft memory limit: that of all requests in flight, of the bundles, twice while one is
// reloaded, and of connections.
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
		return fail("--model is for one bundle, and %d are given", len(bundles))
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
		return fail("neither --http nor --grpc: there is nothing to serve at")
	}
	if (config.TLS.CertFile == "") != (config.TLS.KeyFile == "") || config.TLS.ClientCA != "" && config.TLS.CertFile == "" {
		return fail("--tls-cert and --tls-key go together, and --client-ca with them")
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
		return "", fmt.Errorf("%s: want one word, got %d: give none if requests need no token", where, len(strings.Fields(token)))
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
