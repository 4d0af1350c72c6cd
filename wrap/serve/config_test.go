package serve

import (
	"strings"
	"testing"
	"time"
)

// configured returns a minimal Config.
func configured(change func(*Config)) Config {
	c := Config{Bundles: []Bundle{{Name: "a", Dir: "x"}}, HTTP: ":0"}
	change(&c)
	return c
}

func TestZeroFieldsHaveDefaults(t *testing.T) {
	t.Parallel()
	type limits struct {
		MaxQueue              int
		Delay, Timeout, Drain time.Duration
		MaxBody, InFlight     int64
		Notice, Watch         time.Duration
	}
	of := func(c Config) limits {
		return limits{c.MaxQueue, c.Delay, c.Timeout, c.Drain, c.MaxBody, c.InFlight, c.Notice, c.Watch}
	}
	given := limits{7, -1, time.Second, -1, 3 << 20, 5 << 20, time.Minute, time.Hour}
	for name, c := range map[string]struct {
		change func(*Config)
		want   limits
	}{
		"nothing": {func(*Config) {},
			limits{4096, 2 * time.Millisecond, 30 * time.Second, 30 * time.Second, 64 << 20, 512 << 20, 0, 0}},
		"large bodies": {func(c *Config) { c.MaxBody = 1 << 30 },
			limits{4096, 2 * time.Millisecond, 30 * time.Second, 30 * time.Second, 1 << 30, 4 << 30, 0, 0}},
		"all": {func(c *Config) {
			c.MaxQueue, c.Delay, c.Timeout, c.Drain = given.MaxQueue, given.Delay, given.Timeout, given.Drain
			c.MaxBody, c.InFlight, c.Notice, c.Watch = given.MaxBody, given.InFlight, given.Notice, given.Watch
		}, given},
		"no more than one body": {func(c *Config) { c.MaxBody, c.InFlight = 9, 9 },
			limits{4096, 2 * time.Millisecond, 30 * time.Second, 30 * time.Second, 9, 9, 0, 0}},
	} {
		got, err := configured(c.change).complete()
		if err != nil || of(got) != c.want || got.Log == nil {
			t.Errorf("%s: %+v, %v; want %+v", name, of(got), err, c.want)
		}
	}
	got, err := configured(func(c *Config) { c.Bundles[0] = Bundle{Dir: "some/where/"} }).complete()
	if err != nil || got.Bundles[0].Name != "where" {
		t.Errorf("a bundle without a name: %+v, %v", got.Bundles, err)
	}
}

func TestInvalidConfigsAreRefused(t *testing.T) {
	t.Parallel()
	named := func(names ...string) func(*Config) {
		return func(c *Config) {
			c.Bundles = nil
			for _, name := range names {
				c.Bundles = append(c.Bundles, Bundle{Name: name, Dir: "dir of " + name})
			}
		}
	}
	for name, c := range map[string]struct {
		change func(*Config)
		says   string
	}{
		"no bundle":          {named(), "no bundle to serve"},
		"a name with a path": {named("a/b"), `cannot be served as "a/b"`},
		"a name of a file":   {named(".a"), `cannot be served as ".a"`},
		"a long name":        {named(strings.Repeat("x", 129)), "cannot be served as"},
		"names twice":        {named("a", "b", "a"), `would both be served as "a"`},
		"no address":         {func(c *Config) { c.HTTP = "" }, "no address"},
		"a key alone":        {func(c *Config) { c.TLS.KeyFile = "k" }, "a certificate and its key"},
		"a certificate":      {func(c *Config) { c.TLS.CertFile = "c" }, "a certificate and its key"},
		"clients' alone":     {func(c *Config) { c.TLS.ClientCA = "c" }, "a certificate and its key"},
		"a negative queue":   {func(c *Config) { c.MaxQueue = -1 }, "limits"},
		"a negative body":    {func(c *Config) { c.MaxBody = -1 }, "limits"},
		"memory for less":    {func(c *Config) { c.MaxBody, c.InFlight = 9, 8 }, "limits"},
		"a negative time":    {func(c *Config) { c.Timeout = -1 }, "limits"},
		"a negative notice":  {func(c *Config) { c.Notice = -1 }, "limits"},
		"a negative watch":   {func(c *Config) { c.Watch = -1 }, "limits"},
	} {
		if _, err := configured(c.change).complete(); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
	for _, c := range []Config{
		configured(named(strings.Repeat("x", 128), "a.b-c_1", "_")),
		configured(func(c *Config) { c.HTTP, c.GRPC = "", ":0" }),
		configured(func(c *Config) { c.TLS = TLS{CertFile: "c", KeyFile: "k"} }),
	} {
		if _, err := c.complete(); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
