package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	columnar "github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/internal/text"
	"github.com/mfgs/mfgs/wrap"
)

// predictArrow answers each record with a row of an Arrow stream, in order. More than mostBad unreadable records end
// it; -1 is no limit.
func (p *program) predictArrow(ctx context.Context, predictor *wrap.Predictor, inputs []string, mostBad int) error {
	out := newArrowPredictions(p.stdout)
	bar := p.progress()
	defer bar.done()
	total, bad := 0, 0
	for _, input := range inputs {
		done, folder := 0, ""
		if len(inputs) > 1 { // records of different inputs may have the same name
			folder = folderOf(input)
		}
		var report wrap.DatasetReport
		for prediction, err := range predictor.PredictDataset(ctx, input, &report) {
			record, failed := (*wrap.RecordError)(nil), ""
			switch {
			case errors.As(err, &record):
				prediction.Input, failed = record.Input, oneLine(record.Err.Error())
				bad++
			case errors.Is(err, wrap.ErrNoExamples) && (done > 0 || dataset.IsStream(input)):
				continue // each record has its row; of an empty stream there are none
			case err != nil:
				return err // and the stream has no end
			}
			total++
			done++
			bar.work(wrap.Progress{Stage: "predicting", Done: done, Total: report.Total, Unit: "examples"})
			prediction.Input = filepath.Join(folder, prediction.Input)
			if record != nil && mostBad >= 0 && bad > mostBad {
				return fmt.Errorf("%s: %s: %s could not be read, --max-bad allows %d", prediction.Input, failed,
					text.Plural(bad, "record"), mostBad)
			}
			if err := out.write(&prediction, failed); err != nil {
				return err
			}
		}
		bar.done()
		p.warn(report.Warnings...)
		p.warnRecords(nil, report.Ignored)
	}
	if bad > 0 {
		p.warn(fmt.Sprintf("%s of %s could not be read", text.Count(bad), text.Plural(total, "record")))
	}
	return out.close()
}

// arrowFields are the columns, the same for every bundle: the JSON fields of wrap.Prediction, and error.
var arrowFields = []columnar.Field{
	{Name: "input", Type: columnar.BinaryTypes.String},
	{Name: "error", Type: columnar.BinaryTypes.String}, // null if there is a prediction, else all others are null
	{Name: "label", Type: columnar.PrimitiveTypes.Int64},
	{Name: "class", Type: columnar.PrimitiveTypes.Int64},
	{Name: "class_name", Type: columnar.BinaryTypes.String},
	{Name: "confidence", Type: columnar.PrimitiveTypes.Float64},
	{Name: "labels", Type: columnar.ListOf(columnar.PrimitiveTypes.Int64)},
	{Name: "label_names", Type: columnar.ListOf(columnar.BinaryTypes.String)},
	{Name: "targets", Type: columnar.ListOf(columnar.PrimitiveTypes.Int64)},
	{Name: "probabilities", Type: columnar.ListOf(columnar.PrimitiveTypes.Float64)},
	{Name: "logits", Type: columnar.ListOf(columnar.PrimitiveTypes.Float32)},
	{Name: "logit_variance", Type: columnar.ListOf(columnar.PrimitiveTypes.Float64)},
	{Name: "entropy", Type: columnar.PrimitiveTypes.Float64},
	{Name: "abstain", Type: columnar.FixedWidthTypes.Boolean},
	{Name: "abstain_reason", Type: columnar.BinaryTypes.String},
	{Name: "prediction_set", Type: columnar.ListOf(columnar.PrimitiveTypes.Int64)},
	{Name: "prediction_set_names", Type: columnar.ListOf(columnar.BinaryTypes.String)},
	{Name: "ood_score", Type: columnar.PrimitiveTypes.Float64},
	{Name: "ood_percentile", Type: columnar.PrimitiveTypes.Float64},
	{Name: "ood_pvalue", Type: columnar.PrimitiveTypes.Float64},
	{Name: "leverage", Type: columnar.PrimitiveTypes.Float64},
	{Name: "text", Type: columnar.BinaryTypes.String},
	{Name: "characters", Type: columnar.ListOf(columnar.BinaryTypes.String)},
	{Name: "character_probabilities", Type: columnar.ListOf(columnar.PrimitiveTypes.Float64)},
	{Name: "tags", Type: columnar.ListOf(columnar.BinaryTypes.String)},
	{Name: "tag_probabilities", Type: columnar.ListOf(columnar.PrimitiveTypes.Float64)},
	{Name: "step", Type: columnar.PrimitiveTypes.Int64},
}

func arrowSchema() *columnar.Schema {
	var fields []columnar.Field
	for _, f := range arrowFields {
		f.Nullable = f.Name != "input"
		fields = append(fields, f)
	}
	return columnar.NewSchema(fields, nil)
}

const (
	// A record batch is written after this many rows, or this many numbers in lists.
	arrowRows    = 1024
	arrowNumbers = 1 << 17
)

// arrowPredictions writes predictions as an Arrow stream.
type arrowPredictions struct {
	w       *ipc.Writer
	rows    *array.RecordBuilder
	n       int
	numbers int
}

func newArrowPredictions(w io.Writer) *arrowPredictions {
	schema := arrowSchema()
	return &arrowPredictions{w: ipc.NewWriter(w, ipc.WithSchema(schema)),
		rows: array.NewRecordBuilder(memory.DefaultAllocator, schema)}
}

// write writes a row: a prediction, or the name of its record and the error failed.
func (a *arrowPredictions) write(p *wrap.Prediction, failed string) error {
	for i, f := range a.rows.Schema().Fields() {
		appendTo(a.rows.Field(i), arrowValue(f.Name, p, failed))
	}
	a.n++
	if a.numbers += 3 * len(p.Logits); a.n < arrowRows && a.numbers < arrowNumbers {
		return nil
	}
	return a.flush()
}

// orNull returns a number, or nil.
func orNull(n *int) any {
	if n == nil {
		return nil
	}
	return *n
}

// arrowValue returns the value of a column, nil for null.
func arrowValue(column string, p *wrap.Prediction, failed string) any {
	switch {
	case column == "input":
		return p.Input
	case failed != "" && column == "error":
		return failed
	case failed != "":
		return nil
	}
	switch column {
	case "label":
		return orNull(p.Label)
	case "step":
		return orNull(p.Step)
	case "class":
		return p.Class
	case "class_name":
		if p.ClassName != "" {
			return p.ClassName
		}
	case "confidence":
		return p.Confidence
	case "text":
		if p.Text != nil {
			return *p.Text
		}
	case "characters":
		return charactersOf(p, func(c wrap.Character) string { return c.Text })
	case "character_probabilities":
		return charactersOf(p, func(c wrap.Character) float64 { return c.Probability })
	case "tags":
		return tagsOf(p, func(t wrap.Tag) any { return t.Tag }, nil)
	case "tag_probabilities":
		return tagsOf(p, func(t wrap.Tag) any { return t.Probability }, nil)
	case "labels":
		return p.Labels
	case "label_names":
		return p.LabelNames
	case "targets":
		return p.Targets
	case "probabilities":
		return p.Probabilities
	case "logits":
		return p.Logits
	case "logit_variance":
		return p.LogitVariance
	case "entropy":
		return p.Entropy
	case "abstain":
		if p.Abstain != nil {
			return *p.Abstain
		}
	case "abstain_reason":
		if p.AbstainReason != "" {
			return p.AbstainReason
		}
	case "prediction_set":
		return p.PredictionSet
	case "prediction_set_names":
		return p.PredictionSetNames
	case "ood_score":
		return p.OODScore
	case "ood_percentile":
		if p.OODPercentile != nil {
			return *p.OODPercentile
		}
	case "ood_pvalue":
		if p.OODPValue != nil {
			return *p.OODPValue
		}
	case "leverage":
		if p.LogitVariance != nil {
			return p.Leverage
		}
	}
	return nil
}

// appendTo appends a value of the column's type, or null.
func appendTo(b array.Builder, v any) {
	switch v := v.(type) {
	case string:
		b.(*array.StringBuilder).Append(v)
	case bool:
		b.(*array.BooleanBuilder).Append(v)
	case int:
		b.(*array.Int64Builder).Append(int64(v))
	case float64:
		b.(*array.Float64Builder).Append(v)
	case float32:
		b.(*array.Float32Builder).Append(v)
	case []int:
		appendList(b, v)
	case []string:
		appendList(b, v)
	case []float32:
		appendList(b, v)
	case []float64:
		appendList(b, v)
	case []any: // with nulls
		appendList(b, v)
	default:
		b.AppendNull()
	}
}

func appendList[T any](b array.Builder, list []T) {
	if list == nil {
		b.AppendNull()
		return
	}
	l := b.(*array.ListBuilder)
	l.Append(true)
	for _, v := range list {
		appendTo(l.ValueBuilder(), v)
	}
}

func (a *arrowPredictions) flush() error {
	batch := a.rows.NewRecordBatch()
	defer batch.Release()
	a.n, a.numbers = 0, 0
	return a.w.Write(batch)
}

// close writes the remaining rows and the end marker.
func (a *arrowPredictions) close() error {
	if a.n > 0 {
		if err := a.flush(); err != nil {
			return err
		}
	}
	return a.w.Close()
}
