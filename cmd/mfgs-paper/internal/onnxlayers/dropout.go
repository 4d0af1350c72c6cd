package onnxlayers

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/internal/onnx/graph"
	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// Stochastic returns the model with active Dropout nodes, and their number: in each run each
// drops values with probability p and multiplies the others by 1/(1-p).
// p is ratio or, if that is 0, the node's own ratio. Nodes with p = 0 stay unchanged, and so does a model without
// others. ratio must be in [0,1).
//
// Masks use operators of the default domain in the model's own operator set, from 7 on; from 22 on the model gets
// operator set 21, see lastRandom. Each node's seed derives from seed, so that sessions repeat each other, while
// runs of one session differ. The error is an *UnsupportedError for a Dropout that cannot be activated: in a branch
// or loop, or with a mask that is used.
func Stochastic(m *onnx.Model, ratio float64, seed int) (*onnx.Model, int, error) {
	if !(ratio >= 0 && ratio < 1) {
		return nil, 0, fmt.Errorf("dropout ratio %v, want a number in [0,1), or 0 for that of each node", ratio)
	}
	s := &switcher{m: m, in: m.View().Infer(), ratio: ratio, seed: seed}
	s.names.Take(m.Proto().GetGraph())
	var nodes []*onnxpb.Node
	for _, n := range m.Proto().GetGraph().GetNode() {
		on, err := s.switched(n)
		if err != nil {
			return nil, 0, err
		}
		nodes = append(nodes, on...)
	}
	for _, f := range onnxpb.UsedFunctions(nodes, m.Proto().GetFunctions()) {
		if n := firstDropout(f.GetNode()); n != nil {
			return nil, 0, unswitchable("%s is part of the model's function %s", n.Describe(),
				onnxpb.Printable(f.GetName()))
		}
	}
	if s.count == 0 {
		return m, 0, nil
	}
	pb := onnxpb.Shallow(m.Proto())
	pb.Graph = onnxpb.Shallow(pb.Graph)
	pb.Graph.Node = nodes
	if err := s.lowerOpset(pb); err != nil {
		return nil, 0, err
	}
	r, err := m.Derive(pb)
	if err != nil {
		return nil, 0, fmt.Errorf("switching Dropout on: %w", err)
	}
	return r, s.count, nil
}

// Random returns the names of nodes that draw or may draw random numbers, including those in subgraphs and functions.
func Random(m *onnx.Model) []string {
	in := m.View().Infer()
	var names []string
	onnxpb.EachNode(m.Proto().GetGraph().GetNode(), func(n *onnxpb.Node) {
		if random(in, n) {
			names = append(names, n.Label())
		}
	})
	for _, f := range onnxpb.UsedFunctions(m.Proto().GetGraph().GetNode(), m.Proto().GetFunctions()) {
		onnxpb.EachNode(f.GetNode(), func(n *onnxpb.Node) {
			if randomInFunction(in, n) {
				names = append(names, n.Label())
			}
		})
	}
	return names
}

// Seeded returns the model with a new seed on each of its Random nodes, including those in branches and loops. Sessions
// repeat each other run by run, while runs of one session differ. A model without such nodes is returned
// unchanged. Random nodes in unexpanded functions cannot be seeded one by one: the error is an *UnsupportedError.
func Seeded(m *onnx.Model, seed int) (*onnx.Model, error) {
	in := m.View().Infer()
	for _, f := range onnxpb.UsedFunctions(m.Proto().GetGraph().GetNode(), m.Proto().GetFunctions()) {
		var at *onnxpb.Node
		onnxpb.EachNode(f.GetNode(), func(n *onnxpb.Node) {
			if randomInFunction(in, n) {
				at = n
			}
		})
		if at != nil {
			return nil, unsupported("random numbers cannot be seeded: %s is part of the model's function %s; expand functions with onnx.inliner",
				at.Describe(), onnxpb.Printable(f.GetName()))
		}
	}
	s := &seeder{in: in, seed: seed}
	graph := s.graph(m.Proto().GetGraph())
	if s.err != nil {
		return nil, s.err
	}
	if s.count == 0 {
		return m, nil
	}
	pb := onnxpb.Shallow(m.Proto())
	pb.Graph = graph
	r, err := m.Derive(pb)
	if err != nil {
		return nil, fmt.Errorf("seeding random numbers: %w", err)
	}
	return r, nil
}

// A seeder sets the seeds of random nodes.
type seeder struct {
	in    *graph.Interpreter
	seed  int
	count int   // nodes seeded
	err   error // the first invalid distribution
}

// badDistribution describes invalid attributes of a random node, "" if they are valid.
// ONNX Runtime does not check them, and may crash with a standard deviation of 0.
func badDistribution(n *onnxpb.Node) string {
	finite := func(v float64) bool { return v-v == 0 }
	switch n.GetOpType() {
	case "RandomNormal", "RandomNormalLike":
		mean, scale := n.Float("mean", 0), n.Float("scale", 1)
		if !finite(mean) || !(scale > 0) || !finite(scale) {
			return fmt.Sprintf("mean %v and scale %v, want finite numbers and a positive scale", mean, scale)
		}
	case "RandomUniform", "RandomUniformLike":
		low, high := n.Float("low", 0), n.Float("high", 1)
		if !finite(low) || !finite(high) || !(low < high) {
			return fmt.Sprintf("low %v and high %v, want finite numbers, the first the smaller", low, high)
		}
	}
	return ""
}

// graph returns g with seeds, in subgraphs too.
func (s *seeder) graph(g *onnxpb.Graph) *onnxpb.Graph {
	g = onnxpb.Shallow(g)
	g.Node = onnxpb.MapNodes(g.Node, s.graph, func(n *onnxpb.Node) {
		if !random(s.in, n) {
			return
		}
		if bad := badDistribution(n); bad != "" && s.err == nil {
			s.err = unsupported("%s draws from no distribution: it has %s", n.Describe(), bad)
		}
		s.count++
		x := nodeSeed(s.seed, s.count)
		a := onnxpb.FloatAttribute("seed", x)
		if isDropout(n) { // the only one with an integer seed
			a = onnxpb.IntAttribute("seed", int64(x))
		}
		n.Attribute = append(slices.DeleteFunc(n.Attribute,
			func(a *onnxpb.Attribute) bool { return a.GetName() == "seed" }), a)
	})
	return g
}

// random reports whether a node draws or may draw random numbers.
func random(in *graph.Interpreter, n *onnxpb.Node) bool {
	return standard(in, n) && (graph.Draws(n) || in.Drops(n))
}

// randomInFunction is random for a node of a function, whose tensors are unknown.
func randomInFunction(in *graph.Interpreter, n *onnxpb.Node) bool {
	return standard(in, n) && (graph.Draws(n) || isDropout(n) && n.In(2) != "")
}

// standard reports whether a node is an operator of the default domain, not a call of a function of that name.
func standard(in *graph.Interpreter, n *onnxpb.Node) bool {
	return onnxpb.IsDefault(n.GetDomain()) && !in.Functions[n.GetOpType()]
}

// A switcher activates Dropout nodes.
type switcher struct {
	m     *onnx.Model
	in    *graph.Interpreter
	names onnxpb.Namer
	ratio float64
	seed  int
	count int // nodes activated
}

// switched returns the replacement of a node of the main graph: itself unless it is a Dropout.
func (s *switcher) switched(n *onnxpb.Node) ([]*onnxpb.Node, error) {
	for _, a := range n.GetAttribute() {
		for _, g := range onnxpb.Subgraphs(a) {
			if d := firstDropout(g.GetNode()); d != nil {
				return nil, unswitchable("%s is in a branch or loop of %s", d.Describe(), n.Describe())
			}
		}
	}
	if !isDropout(n) || s.in.Functions["Dropout"] {
		return []*onnxpb.Node{n}, nil
	}
	if s.m.Opset() < 7 {
		return nil, unswitchable("operator set %d is older than 7; convert the model with onnx.version_converter",
			s.m.Opset())
	}
	if n.In(0) == "" || len(n.GetOutput()) == 0 || n.GetOutput()[0] == "" {
		return nil, unswitchable("%s has no input or no output", n.Describe())
	}
	p, err := s.probability(n)
	if err != nil || p == 0 {
		return []*onnxpb.Node{n}, err
	}
	for _, mask := range n.GetOutput()[1:] {
		isOutput := func(v *onnxpb.ValueInfo) bool { return v.GetName() == mask }
		if mask != "" && (len(s.m.Graph().Consumers[mask]) > 0 ||
			slices.ContainsFunc(s.m.Proto().GetGraph().GetOutput(), isOutput)) {
			return nil, unswitchable("the mask %q of %s is used", mask, n.Describe())
		}
	}
	s.count++
	return s.masked(n, p), nil
}

// probability returns a Dropout's probability, in [0,1).
func (s *switcher) probability(n *onnxpb.Node) (float64, error) {
	if s.ratio > 0 {
		return s.ratio, nil
	}
	p := n.Float("ratio", 0.5) // an input from operator set 12 on
	if name := n.In(1); name != "" {
		v := s.in.Get(name)
		if len(v.Data) != 1 {
			return 0, unswitchable("the ratio %q of %s is no constant; give one for all", name, n.Describe())
		}
		p = v.Data[0]
	}
	if !(p >= 0 && p < 1) {
		return 0, unswitchable("%s has ratio %v, not one in [0,1)", n.Describe(), p)
	}
	return p, nil
}

// masked returns nodes that compute x · mask/(1-p), where the mask is 1 with probability 1-p, else 0.
func (s *switcher) masked(n *onnxpb.Node, p float64) []*onnxpb.Node {
	var nodes []*onnxpb.Node
	add := func(op, out string, in []string, attributes ...*onnxpb.Attribute) string {
		nodes = append(nodes, &onnxpb.Node{OpType: &op, Name: proto.String(out), Input: in, Output: []string{out},
			Attribute: attributes})
		return out
	}
	fresh := func(what string) string { return s.names.Fresh("mfgs_dropout_" + what) }
	number := func(what string, x float64) string {
		t := &onnxpb.Tensor{DataType: proto.Int32(int32(tensor.Float32)), FloatData: []float32{float32(x)}}
		return add("Constant", fresh(what), nil, &onnxpb.Attribute{Name: proto.String("value"),
			Type: proto.Int32(onnxpb.TypeTensor), T: t})
	}
	x := n.In(0)
	uniform := add("RandomUniformLike", fresh("uniform"), []string{x},
		onnxpb.IntAttribute("dtype", int64(tensor.Float32)), onnxpb.FloatAttribute("seed", nodeSeed(s.seed, s.count)))
	kept := add("Less", fresh("kept"), []string{uniform, number("share", 1-p)})
	mask := add("Cast", fresh("mask"), []string{kept}, onnxpb.IntAttribute("to", int64(tensor.Float32)))
	mask = add("Mul", fresh("scaled"), []string{mask, number("scale", 1/(1-p))})
	// Unknown types are mostly float32; for others the runtime reports an error.
	if typ := s.in.Get(x).Type; typ != tensor.Float32 && typ != tensor.Undefined {
		mask = add("Cast", fresh("cast"), []string{mask}, onnxpb.IntAttribute("to", int64(typ)))
	}
	last := n.GetName()
	add("Mul", n.GetOutput()[0], []string{x, mask})
	nodes[len(nodes)-1].Name = &last
	return nodes
}

// lastRandom is the last operator set for which ONNX Runtime implements random operators: it lacks the versions of
// set 22 (seen in 1.30 and 1.31), except for Dropout in training mode, which seeds consecutive runs with
// consecutive numbers, so that the first value of a mask stays the same for thousands of runs. Up to lastLike,
// later sets only add operators, types and attributes, which an older set refuses; what they share has the same
// meaning.
const (
	lastRandom = 21
	lastLike   = 26
)

// newer lists the operators added between the two.
var newer = map[string]bool{
	"Attention": true, "RMSNormalization": true, "RotaryEmbedding": true, "Swish": true, "TensorScatter": true,
	"BitCast": true, "CumProd": true,
}

// lowerOpset lowers a model's operator set to lastRandom if needed.
func (s *switcher) lowerOpset(pb *onnxpb.Model) error {
	opset := s.m.Opset()
	if opset <= lastRandom {
		return nil
	}
	var unknown *onnxpb.Node
	onnxpb.EachNode(pb.GetGraph().GetNode(), func(n *onnxpb.Node) {
		if onnxpb.IsDefault(n.GetDomain()) && newer[n.GetOpType()] {
			unknown = n
		}
	})
	switch {
	case opset > lastLike:
		return unswitchable("ONNX Runtime has random numbers up to operator set %d, and the model has %d; export it with an older one",
			lastRandom, opset)
	case unknown != nil:
		return unswitchable("ONNX Runtime has random numbers up to operator set %d, and %s is not in that; export the model with an older one",
			lastRandom, unknown.Describe())
	}
	pb.OpsetImport = slices.Clone(pb.OpsetImport)
	for i, o := range pb.OpsetImport {
		if onnxpb.IsDefault(o.GetDomain()) {
			o = onnxpb.Shallow(o)
			o.Version = proto.Int64(lastRandom)
			pb.OpsetImport[i] = o
		}
	}
	return nil
}

// nodeSeed returns the seed of the i-th node: an integer in [1, 2²⁴), exact in float32 and different for each node.
// ONNX Runtime seeds a multiplicative generator with it, so seeds that are close or small multiples of each other would
// give streams that are multiples of each other.
func nodeSeed(seed, i int) float32 {
	const (
		numbers = 1<<24 - 1 // = 3²·5·7·13·17·241, of which step has no factor
		step    = 10368889  // about numbers divided by the golden ratio
	)
	z := uint64(seed) + 0x9e3779b97f4a7c15 // the mixing of SplitMix64 (Steele, Lea and Flood, 2014)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	z ^= z >> 31
	return float32((z%numbers+uint64(i)%numbers*step)%numbers + 1)
}

func isDropout(n *onnxpb.Node) bool {
	return onnxpb.IsDefault(n.GetDomain()) && n.GetOpType() == "Dropout"
}

// firstDropout returns the first Dropout among nodes and their subgraphs, or nil.
func firstDropout(nodes []*onnxpb.Node) (first *onnxpb.Node) {
	onnxpb.EachNode(nodes, func(n *onnxpb.Node) {
		if first == nil && isDropout(n) {
			first = n
		}
	})
	return first
}

func unswitchable(format string, args ...any) error {
	return unsupported("Dropout cannot be switched on: "+format, args...)
}
