package main

import (
	"fmt"
	"io"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bench"
	"github.com/urfave/cli/v2"
)

// decisionFlags ask for decisions with guarantees.
func decisionFlags() []cli.Flag {
	const decisions = "decisions, for which half of the held-out data is set aside"
	return []cli.Flag{
		&cli.Float64Flag{Name: "target-error", Category: decisions, Usage: "`E` abstain from so many predictions that at most this part of the others is wrong"},
		&cli.Float64Flag{Name: "target-coverage", Category: decisions, Usage: "`C` or from so few that at least this part is answered"},
		&cli.Float64Flag{Name: "false-alarm", Category: decisions, Usage: "`F` abstain from what is unfamiliar, which at most this part of familiar data is held to be"},
		&cli.Float64Flag{Name: "confidence", Category: decisions, Value: conformal.DefaultConfidence,
			Usage: "`P` how sure the three above are [0.95]"},
		&cli.Float64Flag{Name: "alpha", Category: decisions, Usage: "`A` give prediction sets, of which at most this part lacks the label"},
		&cli.StringFlag{Name: "sets", Category: decisions, Value: string(conformal.LAC),
			Usage: "`NAME` " + alternatives(conformal.Scores) + " [lac: the smallest sets]"},
		&cli.BoolFlag{Name: "class-conditional", Category: decisions, Usage: "prediction sets that keep alpha for each class"},
	}
}

// readFinish returns how a calibration is finished, once its data are read.
func readFinish(c *cli.Context) (d calibrate.Damping, plan conformal.Plan, err error) {
	if d, err = calibrate.ParseDamping(c.String("damping")); err != nil {
		return d, plan, usagef(c.Command.Name, "--%v", err)
	}
	plan, err = readDecisions(c)
	return d, plan, err
}

// readDecisions returns the decisions that are asked for.
func readDecisions(c *cli.Context) (plan conformal.Plan, err error) {
	for name, v := range map[string]*float64{
		"target-error": &plan.TargetError, "target-coverage": &plan.TargetCoverage, "false-alarm": &plan.FalseAlarm,
		"confidence": &plan.Confidence, "alpha": &plan.Alpha,
	} {
		if !c.IsSet(name) {
			continue
		}
		if *v = c.Float64(name); *v == 0 {
			return plan, usagef(c.Command.Name, "--%s is 0, want a number between 0 and 1", name)
		}
	}
	if c.IsSet("sets") {
		plan.Sets = conformal.Score(c.String("sets"))
	}
	plan.ClassConditional = c.Bool("class-conditional")
	if err := plan.Validate(); err != nil {
		return plan, usagef(c.Command.Name, "--%v", err)
	}
	return plan, nil
}

// writeDecisions says which thresholds were set, and what they promise.
func writeDecisions(w io.Writer, d *conformal.Decisions) {
	if d == nil {
		return
	}
	fmt.Fprintf(w, "\ndecisions, whose thresholds are set on %s held-out examples, one of each two neighbours\n", count(d.Examples))
	for _, r := range []struct {
		what string
		rule *conformal.Rule
	}{{"doubt", d.Doubt}, {"ood_score", d.Unfamiliar}} {
		if r.rule != nil {
			fmt.Fprintf(w, "  answered where %s is at most %s: %s of %s\n", r.what, number(r.rule.Threshold),
				count(r.rule.Accepted), count(r.rule.Examples))
		}
	}
	for _, promise := range d.Promises {
		fmt.Fprintf(w, "  %s\n", promise)
	}
}

// decisionColumns are those of predictions of a bundle with decisions.
func decisionColumns(d *conformal.Decisions) (columns []string) {
	if d != nil && d.Abstains() {
		columns = append(columns, "abstain", "abstain_reason")
	}
	if d != nil && d.Set != nil {
		columns = append(columns, "prediction_set", "prediction_set_names")
	}
	return columns
}

// abstains tells whether a prediction is better not given: "" where no rule says so.
func abstains(p *wrap.Prediction) string {
	if p.Abstain == nil {
		return ""
	}
	return fmt.Sprint(*p.Abstain)
}

// writeRealised says what decisions came to, beside what they promise.
func writeRealised(w io.Writer, d *conformal.Decisions, results []bench.DecisionResult) {
	if len(results) == 0 {
		return
	}
	t := table{align: "lrrrrrr"}
	t.row("decisions", "examples", "answered", "error of them", "unfamiliar", "set has label", "set size")
	promised := func(mark string, v float64) string {
		if v == 0 {
			return ""
		}
		return mark + percent(v)
	}
	covered := ""
	if d.Alpha > 0 {
		covered = promised("≥ ", 1-d.Alpha)
	}
	t.row("promised", "", promised("≥ ", d.TargetCoverage), promised("≤ ", d.TargetError), promised("≤ ", d.FalseAlarm), covered, "")
	part := func(v *float64, format func(float64) string) string {
		if v == nil {
			return "-"
		}
		return format(*v)
	}
	for _, r := range results {
		t.row(r.Set, count(r.N), part(r.Answered, percent), part(r.Error, percent), part(r.Unfamiliar, percent),
			part(r.Covered, percent), part(r.SetSize, number))
	}
	fmt.Fprintln(w)
	_ = t.write(w)
}
