// Run is mfgs demo alone, for make demo: it compiles in a third of the time of mfgs.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/mfgs/mfgs/internal/demo"
	"github.com/mfgs/mfgs/internal/text"
	"github.com/mfgs/mfgs/wrap"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	stage := ""
	library := wrap.Runtime{Install: true, Installing: func(now string, _, _ int64) {
		if now != stage {
			stage = now
			fmt.Fprintln(os.Stderr, "mfgs:", text.Line(now))
		}
	}}
	if err := demo.Run(ctx, os.Stdout, demo.Options{Runtime: library}); err != nil {
		fmt.Fprintln(os.Stderr, "mfgs:", text.Line(err.Error()))
		os.Exit(1)
	}
}
