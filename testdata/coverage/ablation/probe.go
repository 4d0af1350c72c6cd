package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/head"
)

// A finding is the result of Find on a model.
type finding struct {
	Error string `json:",omitempty"`
	Head  *head.Head
	Range string // of the logits
	Gives []float64
	Sum   string // of the weights
	Cut   string // the operators of the cut model's end
	Says  []string
}

// switchOff switches a rule off, if the command is instrumented.
var switchOff = func(rule int) {}

// probe prints the finding for each model as a line with "0", name and finding, and a line with the number of each rule
// whose absence changes it.
func probe(in io.Reader, out io.Writer, numbers string) {
	w := bufio.NewWriter(out)
	defer w.Flush()
	for s := bufio.NewScanner(in); s.Scan(); {
		name := s.Text()
		m, err := onnx.Open(name)
		if err != nil {
			fmt.Fprintf(w, "0\t%s\t%s\n", name, encode(finding{Error: err.Error()}))
			continue
		}
		switchOff(0)
		base := encode(findings(m))
		fmt.Fprintf(w, "0\t%s\t%s\n", name, base)
		if !wrapped(base) || numbers == "" {
			continue
		}
		for number := range strings.SplitSeq(numbers, ",") {
			rule, err := strconv.Atoi(number)
			if err != nil {
				panic(err)
			}
			switchOff(rule)
			now := encode(findings(m))
			if now != base {
				fmt.Fprintf(w, "%d\t%s\t%s\n", rule, name, now)
			}
		}
		m.Close()
	}
}

func encode(f finding) string {
	line, err := json.Marshal(f)
	if err != nil {
		return fmt.Sprintf(`{"Error":%q}`, err)
	}
	return string(line)
}

// findings looks for the head, and again with Relu allowed.
func findings(m *onnx.Model) finding {
	first := look(m, head.Options{})
	if first.Error != "" {
		if other := look(m, head.Options{Approximate: head.IgnoreRelu}); other.Error == "" {
			return other
		}
	}
	return first
}

func wrapped(result string) bool { return !strings.HasPrefix(result, `{"Error"`) }

func look(m *onnx.Model, o head.Options) (f finding) {
	defer func() {
		if r := recover(); r != nil {
			f = finding{Error: fmt.Sprint(r)}
		}
	}()
	m, err := m.Derive(m.Proto()) // with a new view
	if err != nil {
		return finding{Error: err.Error()}
	}
	h, err := head.Find(m, o)
	if err != nil {
		return finding{Error: err.Error()}
	}
	f = finding{Head: h, Range: fmt.Sprint(h.Low, h.High), Says: h.Evidence}
	p := make([]float64, max(2, h.Logits))
	for i := range p {
		p[i] = 2 * float64(i+1) / float64(len(p)*(len(p)+1))
	}
	f.Gives = h.Gives(p)
	for _, x := range f.Gives {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			f.Gives = nil
		}
	}
	if h.Features*h.Logits <= 1<<22 {
		f.Sum = sum(h)
	}
	if cut, err := head.Cut(m, h); err != nil {
		f.Cut = err.Error()
	} else {
		var ops []string
		nodes := cut.Proto().GetGraph().GetNode()
		for _, n := range nodes[max(0, len(nodes)-8):] {
			ops = append(ops, n.GetOpType())
		}
		f.Cut = fmt.Sprint(len(nodes), ops)
	}
	return f
}

func sum(h *head.Head) string {
	w, b, err := h.Weights()
	if err != nil {
		return err.Error()
	}
	s := sha256.New()
	if err := binary.Write(s, binary.LittleEndian, w); err != nil {
		return err.Error()
	}
	if err := binary.Write(s, binary.LittleEndian, b); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%x", s.Sum(nil)[:8])
}
