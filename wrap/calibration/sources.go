package calibration

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/mfgs/mfgs/calibrate/external"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/featurize/ort"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/internal/attach"
	"github.com/mfgs/mfgs/internal/option"
	"github.com/mfgs/mfgs/internal/parallel"
	"github.com/mfgs/mfgs/internal/source"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/internal/folder"
	"github.com/mfgs/mfgs/wrap/internal/part"
)

// sources are the model and the data of a calibration, opened.
type sources struct {
	cut        *attach.Cut // the network; nil for precomputed features
	file       *onnx.Model // as it was given, before inputs were fixed
	head       layer.Head
	opener     *source.Opener
	product    *featurize.Product    // the runtime's matrix product; nil without a runtime
	external   *external.Posterior   // of another program; nil: it is computed
	recorded   *bundle.External      // describes it
	classes    []string              // class names; nil if there are none
	preprocess *bundle.Preprocessing // nil for precomputed features
	train, val *source.Set           // nil if this calibration or part has none
	ood        *source.Set           // likewise
	synthetic  *source.Set           // OOD images made from those of val, likewise
}

func (in *sources) close() {
	for _, s := range in.sets() {
		s.Close()
	}
	if in.product != nil {
		in.product.Close()
	}
	if in.cut != nil {
		in.cut.Close()
	}
}

// sets lists the sets that are open.
func (in *sources) sets() (list []*source.Set) {
	for _, s := range []*source.Set{in.train, in.val, in.ood, in.synthetic} {
		if s != nil {
			list = append(list, s)
		}
	}
	return list
}

// matrixProduct returns the runtime's product, or nil, which selects calibrate's own. A nil *featurize.Product
// must not become a non-nil interface.
func (in *sources) matrixProduct() parallel.Product {
	if in.product == nil {
		return nil
	}
	return in.product
}

// openSources opens the model and all sets, so that a mistake in any of them shows before
// hours are spent on another.
func openSources(ctx context.Context, cfg *Config, log *journal) (in *sources, err error) {
	in = &sources{classes: cfg.Classes}
	defer func() {
		if err != nil {
			in.close()
		}
	}()
	in.opener = &source.Opener{
		MaxBad: cfg.MaxBad, Cache: cfg.Cache, Shard: cfg.Shard, Fingerprint: true, Notes: &log.Notes,
	}
	if cfg.PrecomputedFeatures {
		err = in.openProduct(ctx, cfg)
		in.opener.MultiLabel = (cfg.Head.Link == "" || cfg.Head.Link == layer.Sigmoid) &&
			source.HasTargets(cmp.Or(cfg.Val, cfg.Train))
	} else {
		err = in.openNetwork(ctx, cfg)
	}
	if err != nil {
		return in, err
	}
	if cfg.Posterior != "" {
		if err := in.openPosterior(ctx, cfg, log); err != nil {
			return in, err
		}
	}
	if err := in.openTrain(ctx, cfg, log); err != nil {
		return in, err
	}
	if err := in.openTuning(ctx, cfg); err != nil {
		return in, err
	}
	if err := in.resolveKind(ctx, cfg, log); err != nil {
		return in, err
	}
	if err := in.checkSteps(ctx, log); err != nil {
		return in, err
	}
	if in.cut != nil {
		in.preprocess, err = in.findPreprocessing(ctx, cfg)
	}
	return in, err
}

// openNetwork opens the model and cuts it at its head.
func (in *sources) openNetwork(ctx context.Context, cfg *Config) error {
	model, err := onnx.OpenCopyContext(ctx, cfg.Model)
	if err != nil {
		return err
	}
	in.file = model
	defer func() {
		if in.cut == nil {
			in.file.Close()
		}
	}()
	if err := cfg.Expect.checkModel(cfg.Model, model.SHA256()); err != nil {
		return err
	}
	if model, err = head.Fix(model, cfg.Head.Fix); err != nil {
		return fmt.Errorf("%s: %w", cfg.Model, err)
	}
	h, err := head.Find(model, cfg.Head)
	if errors.As(err, new(*head.UnsupportedError)) && cfg.Head.Kind == head.Linear && cfg.Head.State == "" {
		if steps := head.MayDecode(model, cfg.Head.Output); steps != nil {
			what := map[head.Kind]string{head.CTC: "the text that it reads by CTC", head.Tags: "the tags of its steps as a whole"}
			err = fmt.Errorf("%w; or calibrate %s, with %s %s", err, what[steps.Kind], option.Kind, steps.Kind)
		}
		return fmt.Errorf("%w; or calibrate its probabilities or scores, without a posterior, with %s %s; or give precomputed features and logits with %s",
			err, option.Kind, head.None, option.PrecomputedFeatures)
	}
	if err != nil {
		return err
	}
	if model, h, err = head.Unroll(model, h, cfg.Head.State); err != nil {
		return fmt.Errorf("%s: %w", cfg.Model, err)
	}
	in.head = h.Head
	if err := in.head.Validate(); err != nil {
		return err
	}
	switch {
	case h.Kind == head.Tags:
		in.classes = nil // they are the names of the tags
	case h.Kind == head.CTC && in.classes != nil:
		return fmt.Errorf("class names are for classes, and %s %s reads text: give its symbols with %s", option.Kind, head.CTC, option.Alphabet)
	case in.classes == nil:
		in.classes = h.Labels
	}
	if h.Steps > 0 && in.head.MultiLabel() {
		return fmt.Errorf("%q has %d logits with a sigmoid each for each step, which is not supported: with one class per step give %s %s",
			h.LogitsTensor, h.Logits, option.Link, layer.OneVsRest)
	}
	if h.Kind.Decodes() && cfg.Decisions.Alpha > 0 {
		return fmt.Errorf("%s is for prediction sets, and an answer that is right or wrong, as with %s %s, has none: leave it out",
			option.Alpha, option.Kind, h.Kind)
	}
	if h.Kind != head.CTC && cfg.Alphabet != nil {
		return fmt.Errorf("%s is for %s %s: leave it out", option.Alphabet, option.Kind, head.CTC)
	}
	if err := cfg.Runtime.Load(ctx); err != nil {
		return err
	}
	run := attach.RunConfig(cfg.Runtime.Provider, cfg.Runtime.Threads, cfg.Runtime.Batch)
	run.Preprocess = cfg.Preprocess
	if in.cut, err = attach.OpenCut(model, h, run); err != nil {
		return err
	}
	in.opener.Network = in.cut.Network
	in.opener.MultiLabel, in.opener.Kind = in.head.MultiLabel(), h.Kind
	in.product, err = featurize.NewProduct(cfg.Runtime.Threads)
	return err
}

// openProduct opens the runtime's matrix product for precomputed features, which need no runtime: if
// none is found, calibrate's own product is used.
func (in *sources) openProduct(ctx context.Context, cfg *Config) error {
	r := cfg.Runtime
	r.Install = false
	err := r.Load(ctx)
	if err == nil {
		in.product, err = featurize.NewProduct(cfg.Runtime.Threads)
	}
	if err != nil && r.Library != "" {
		return err
	}
	return nil
}

// openTrain opens the training set. It gives the dimensions of the head of precomputed features, and class names
// if nothing else has given them.
func (in *sources) openTrain(ctx context.Context, cfg *Config, log *journal) error {
	in.opener.Classes, in.opener.Limit = in.classes, cfg.Limit
	if cfg.untrained() {
		if cfg.Train != "" {
			log.notice("train: %s is not read: without a linear layer there is no posterior that it is for", cfg.Train)
		}
		return nil
	}
	var err error
	if in.train, err = in.open(ctx, cfg, in.opener, bundle.Train, cfg.Train); err != nil || in.train == nil {
		return err
	}
	if cfg.Covariance.NeedsFisher() && !in.train.Labelled() {
		return fmt.Errorf("train: %s has no labels: the %s covariance needs labels, hessian does not", cfg.Train, cfg.Covariance)
	}
	k := in.head.Classes()
	if d := in.train.Data; in.classes == nil && d != nil && len(d.Classes()) == k && !integers(d.Classes()) {
		in.classes = d.Classes() // folder names, in the order of the labels
	}
	in.opener.Classes = in.classes
	return nil
}

// open opens the set of a role, nil for an empty SPEC. The first set gives the head of precomputed features.
func (in *sources) open(
	ctx context.Context, cfg *Config, opener *source.Opener, role bundle.Role, spec string,
) (*source.Set, error) {
	if spec == "" {
		return nil, nil
	}
	classes := 0 // unknown
	if in.head != (layer.Head{}) {
		classes = in.head.Classes()
	}
	s, err := opener.Open(ctx, string(role), spec, classes, role == bundle.Train || role == bundle.Val)
	if err == nil && cfg.Out != "" && folder.Inside(cfg.Out, s.Path()) {
		err = fmt.Errorf("%s: %s would be inside %s, among the data: choose another folder for %s",
			role, cfg.Out, s.Path(), option.Out)
	}
	if err == nil && s.Data != nil && opener.Columns == nil {
		opener.Columns = s.Data.Columns()
	}
	if err == nil && classes == 0 {
		in.head, err = in.precomputedHead(cfg, s)
	}
	if k := in.head.Classes(); err == nil && in.classes != nil && len(in.classes) != k {
		err = fmt.Errorf("%d class names for a model of %d classes", len(in.classes), k)
	}
	return s, err
}

// precomputedHead returns the head of precomputed features.
func (in *sources) precomputedHead(cfg *Config, s *source.Set) (layer.Head, error) {
	d, k := s.Widths()
	multiLabel := in.opener.MultiLabel
	h := layer.Head{Logits: k, Features: d, Bias: true, Link: layer.Softmax}
	if k == 1 || multiLabel {
		h.Link = layer.Sigmoid
	}
	if cfg.Head.Link != "" {
		h.Link = cfg.Head.Link
	}
	if err := h.Validate(); err != nil {
		return h, err
	}
	if h.MultiLabel() && !multiLabel && cfg.Val != "" {
		return h, fmt.Errorf("val: %s has one class per example, and %d logits with link sigmoid need %d labels of 0 or 1 per example", cfg.Val, k, k)
	}
	return h, nil
}

// integers reports whether all names are numbers: labels, not names.
func integers(names []string) bool {
	for _, n := range names {
		for _, r := range n {
			if r < '0' || r > '9' {
				return false
			}
		}
	}
	return true
}

// openTuning opens the validation data and the OOD data.
func (in *sources) openTuning(ctx context.Context, cfg *Config) (err error) {
	in.opener.Limit = source.MaxTuning
	if in.val, err = in.open(ctx, cfg, in.opener, bundle.Val, cfg.Val); err != nil {
		return err
	}
	if in.val != nil && !in.val.Labelled() {
		return fmt.Errorf("val: %s has no labels: validation data needs labels", cfg.Val)
	}
	if in.val != nil && in.val.Size() >= 0 {
		from, to := in.val.Slice()
		if err := cfg.Decisions.Reachable(thresholdExamples(min(to-from, source.MaxTuning))); err != nil {
			return decisionError(err)
		}
	}
	if cfg.OOD == wrap.SyntheticOOD {
		err = in.openSynthetic(ctx, cfg)
	} else {
		in.ood, err = in.open(ctx, cfg, in.opener, bundle.OOD, cfg.OOD)
	}
	if err != nil {
		return err
	}
	for _, s := range in.sets() {
		if err := s.Fits(in.head, "the training set"); err != nil {
			return err
		}
	}
	return nil
}

// openSynthetic opens the set of synthetic OOD images made from the validation images.
func (in *sources) openSynthetic(ctx context.Context, cfg *Config) (err error) {
	if in.val == nil {
		return errors.New("ood: auto makes synthetic OOD images from validation images, and there is no validation data: give both, or neither")
	}
	opener := *in.opener
	opener.Synthetic = true
	if in.synthetic, err = in.open(ctx, cfg, &opener, bundle.SyntheticOOD, cfg.Val); err == nil {
		err = in.synthetic.CheckSynthetic(ctx)
	}
	return err
}

// findPreprocessing returns how images become the model's input: as configured, else by the default
// if the data are images. For ready arrays it is unknown.
func (in *sources) findPreprocessing(ctx context.Context, cfg *Config) (*bundle.Preprocessing, error) {
	spec := in.cut.Preprocess()
	if cfg.Preprocess != nil {
		return &bundle.Preprocessing{Source: bundle.Given, Spec: spec}, nil
	}
	var images, arrays *source.Set
	for _, s := range in.sets() {
		pixels, err := s.Pixels(ctx)
		if err != nil {
			return nil, err
		}
		if pixels && images == nil {
			images = s
		}
		if !pixels && arrays == nil {
			arrays = s
		}
	}
	switch {
	case images != nil && arrays != nil && spec == nil:
		return nil, fmt.Errorf("%s: %s has bytes, and %s: %s other numbers, and how they relate is not known: give arrays of one type", images.Name, images.Spec, arrays.Name, arrays.Spec)
	case images != nil && arrays != nil:
		return nil, fmt.Errorf("%s: %s has images, and %s: %s preprocessed arrays: %w: give %s, as a YAML file or a preset such as imagenet, or only preprocessed arrays",
			images.Name, images.Spec, arrays.Name, arrays.Spec, preprocess.ErrUnknown, option.Preprocess)
	case images != nil:
		return &bundle.Preprocessing{Source: bundle.Assumed, Spec: spec}, nil
	}
	return &bundle.Preprocessing{Source: bundle.Unknown}, nil
}

// recipe returns what all parts of a calibration share.
func (in *sources) recipe(cfg *Config) (*part.Recipe, error) {
	if _, err := cfg.Structure.Resolve(in.head); err != nil {
		return nil, err
	}
	if err := cfg.CheckPrior(in.head, in.classes); err != nil {
		return nil, err
	}
	r := &part.Recipe{
		Head: bundle.Head{Head: in.head}, Preprocess: in.preprocess, Settings: cfg.Settings, Classes: in.classes,
		Columns: in.opener.Columns, External: in.recorded,
	}
	if in.cut != nil {
		r.Head = attach.Describe(in.cut.Head)
		r.Head.Fix, r.Head.State = in.cut.Model.Metadata()[head.FixedKey], in.cut.Model.Metadata()[head.StateKey]
		m := in.cut.Model.Info()
		r.Model = &bundle.Model{SHA256: m.SHA256, Producer: m.Producer, Opset: m.Opset}
		r.Gathered = !in.cut.Model.SelfContained()
		r.Batch, r.Provider = in.cut.Batch(), cmp.Or(cfg.Runtime.Provider, ort.CPU)
	}
	return r, nil
}
