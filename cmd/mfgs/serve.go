package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
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
		Flags: slices.Concat([]cli.Flag{
			&cli.StringSliceFlag{Name: "bundle", Category: dataFlags, Usage: "`[NAME=]DIR` a folder that calibrate wrote; may be repeated"},
			&cli.StringFlag{Name: "model", Category: dataFlags, Usage: "`FILE` the network, where the only bundle holds none"},
			&cli.StringFlag{Name: "http", Value: "127.0.0.1:8000", Category: addressFlags, Usage: "`HOST:PORT` for HTTP, or none [127.0.0.1:8000]"},
			&cli.StringFlag{Name: "grpc", Value: "127.0.0.1:8001", Category: addressFlags, Usage: "`HOST:PORT` for gRPC, or none [127.0.0.1:8001]"},
			&cli.StringFlag{Name: "admin", Value: "none", Category: addressFlags,
				Usage: "`HOST:PORT` for probes and metrics alone, without TLS or a token, or none [none]"},
			&cli.StringFlag{Name: "tls-cert", Category: safetyFlags, Usage: "`FILE` certificate for TLS, in PEM; a renewed one is taken up"},
			&cli.StringFlag{Name: "tls-key", Category: safetyFlags, Usage: "`FILE` its key"},
			&cli.StringFlag{Name: "client-ca", Category: safetyFlags, Usage: "`FILE` whose certificates clients must have"},
			&cli.StringFlag{Name: "token-file", Category: safetyFlags, Usage: "`FILE` holds the bearer token that requests must have [$" + tokenVariable + "]"},
			&cli.IntFlag{Name: "max-queue", Value: serve.DefaultMaxQueue, Category: loadFlags,
				Usage: fmt.Sprintf("`N` examples of a bundle that wait at most: others are refused [%d]", serve.DefaultMaxQueue)},
			&cli.DurationFlag{Name: "delay", Value: serve.DefaultDelay, Category: loadFlags,
				Usage: fmt.Sprintf("`TIME` that an inference waits at most for others to join it, and only under load; 0 for none [%v]", serve.DefaultDelay)},
			&cli.DurationFlag{Name: "timeout", Value: serve.DefaultTimeout, Category: loadFlags,
				Usage: fmt.Sprintf("`TIME` for a request [%v]", serve.DefaultTimeout)},
			&cli.IntFlag{Name: "max-body", Value: serve.DefaultMaxBody >> 20, Category: loadFlags,
				Usage: fmt.Sprintf("`MIB` of a request at most, unpacked [%d]", serve.DefaultMaxBody>>20)},
			&cli.IntFlag{Name: "max-per-client", Value: serve.DefaultMaxPerClient, Category: loadFlags,
				Usage: fmt.Sprintf("`N` connections that a client's address may have for HTTP, and as many for gRPC [%d]", serve.DefaultMaxPerClient)},
			&cli.DurationFlag{Name: "drain", Value: serve.DefaultDrain, Category: loadFlags,
				Usage: fmt.Sprintf("`TIME` for requests under way once the server is to end; 0 for none [%v]", serve.DefaultDrain)},
			&cli.DurationFlag{Name: "notice", Category: loadFlags, Usage: "`TIME` before that, in which it takes requests and says that it is not ready [0s]"},
			&cli.StringFlag{Name: "traces", Category: loadFlags, Usage: "`URL` that OpenTelemetry traces are sent to [$OTEL_EXPORTER_OTLP_ENDPOINT]"},
			&cli.DurationFlag{Name: "watch", Category: dataFlags, Usage: "`TIME` how often to look whether bundles have changed [never]"},
		}, inferenceFlags()),
		Action: p.runServe,
	}
}

// tokenVariable is an environment variable: a token in an argument would show in lists of processes.
const tokenVariable = "MFGS_TOKEN"

func (p *program) runServe(c *cli.Context) error {
	config, err := p.serveConfig(c)
	if err != nil {
		return err
	}
	// The heap of a server is small beside the model, which is none of it: by Go's own measure it would be
	// collected many times a second.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	hangups := make(chan os.Signal, 1) // from here on: while bundles are loaded it would end the process
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	server, err := serve.New(c.Context, config)
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

// memoryLimit is how much memory Go's heap may take before garbage is collected whatever it costs: all that
// requests may, bundles as they are, twice while one is exchanged, and connections.
func memoryLimit(requests int64) int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return requests + 2*int64(m.Sys-m.HeapReleased) + 64<<20
}

// serveConfig reads the flags.
func (p *program) serveConfig(c *cli.Context) (serve.Config, error) {
	var config serve.Config
	fail := func(format string, args ...any) (serve.Config, error) {
		return config, usagef(c.Command.Name, format, args...)
	}
	if err := noArguments(c); err != nil {
		return config, err
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
		if err := leads(dir, wanted["bundle"]); err != nil {
			return config, fmt.Errorf("--bundle %w", err)
		}
		config.Bundles = append(config.Bundles, serve.Bundle{Name: one.Name, Dir: dir, Model: c.String("model")})
	}
	if err := found(c, "model"); err != nil {
		return config, err
	}
	for name, to := range map[string]*string{"http": &config.HTTP, "grpc": &config.GRPC, "admin": &config.Admin} {
		if *to = c.String(name); *to == "none" {
			*to = ""
		} else if _, _, err := net.SplitHostPort(*to); err != nil {
			return fail("--%s %s: want HOST:PORT, or none", name, *to)
		}
	}
	if config.HTTP == "" && config.GRPC == "" {
		return fail("neither --http nor --grpc: there is nothing to serve at")
	}
	if err := notNegative(c, "max-queue", "max-body", "max-per-client"); err != nil {
		return config, err
	}
	for name, otherwise := range map[string]int{
		"max-queue": serve.DefaultMaxQueue, "max-body": serve.DefaultMaxBody >> 20, "max-per-client": serve.DefaultMaxPerClient,
	} {
		if c.Int(name) == 0 {
			return fail("--%s 0: nothing would be answered: want 1 or more, or leave it out for %d", name, otherwise)
		}
	}
	for _, name := range []string{"delay", "timeout", "drain", "notice", "watch"} {
		if c.Duration(name) < 0 {
			return fail("--%s %v: want no negative time", name, c.Duration(name))
		}
	}
	if c.Duration("timeout") == 0 {
		return fail("--timeout 0: nothing would be answered: want a time such as 1m, or leave it out for %v", serve.DefaultTimeout)
	}
	config.MaxPerClient = c.Int("max-per-client")
	config.MaxQueue, config.MaxBody = c.Int("max-queue"), int64(c.Int("max-body"))<<20
	config.Delay, config.Timeout, config.Drain = c.Duration("delay"), c.Duration("timeout"), c.Duration("drain")
	config.Notice, config.Watch, config.Traces = c.Duration("notice"), c.Duration("watch"), c.String("traces")
	for _, none := range []*time.Duration{&config.Delay, &config.Drain} {
		if *none == 0 {
			*none = -1
		}
	}
	config.TLS = serve.TLS{CertFile: c.String("tls-cert"), KeyFile: c.String("tls-key"), ClientCA: c.String("client-ca")}
	if (config.TLS.CertFile == "") != (config.TLS.KeyFile == "") || config.TLS.ClientCA != "" && config.TLS.CertFile == "" {
		return fail("--tls-cert and --tls-key go together, and --client-ca with them")
	}
	var err error
	if config.Token, err = readToken(c.String("token-file")); err != nil {
		return config, err
	}
	config.Log = slog.New(slog.NewJSONHandler(p.stderr, nil))
	bar := p.progress()
	defer bar.done()
	config.Runtime, err = p.inference(c, bar)
	return config, err
}

// readToken reads the token from a file, or the environment; it is "" where there is neither.
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

// reloadOn has the server look at its bundles when a signal comes.
func reloadOn(ctx context.Context, hangups <-chan os.Signal, server *serve.Server) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		for {
			select {
			case <-hangups:
				_ = server.Reload(ctx) // which logs what goes wrong
			case <-ctx.Done():
				return
			}
		}
	}()
	return cancel
}

// writeServing says where the server listens.
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
