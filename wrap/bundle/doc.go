// Package bundle reads and writes the results of a calibration: a folder with all that is needed to predict
// with uncertainty, to understand how it was calibrated, and to detect damage.
//
//	b := bundle.Bundle{Manifest: m, Posterior: p}
//	err := bundle.Write(dir, b, bundle.WriteOptions{Model: bundle.Copy("model.onnx")})
//	…
//	got, err := bundle.Open(dir)      // or OpenFS, such as on an embed.FS
//	c := got.Calibration()
//
// # The folder
//
//	bundle.yaml            the manifest, sealed by its last line
//	posterior.safetensors  the Gaussian over the last layer's weights
//	curvature.safetensors  optional: the sums over the training data that it was made from
//	sample.safetensors     only beside these: features of some of the training data
//	scores.safetensors     only with an OOD score that is fitted to training data
//	probe.safetensors      optional: a few validation inputs, with the network's results
//	model.onnx             optional: the network
//	model.onnx.data        only beside model.onnx: its weights, where it does not have them
//
// Other files are ignored.
//
// # bundle.yaml
//
// One YAML document in UTF-8, of at most [MaxManifest] bytes, without anchors and aliases. Its last line seals
// it:
//
//	bytes            content
//	0 … n−1          the document, ending in a newline
//	n … n+9          "# sha256: "
//	n+10 … n+73      SHA-256 of bytes 0 … n−1, 64 hexadecimal digits, lower case
//	n+74             newline, the last byte
//
// The manifest holds the SHA-256 of every other file, so the seal covers them all: a changed byte
// anywhere in a bundle is an error of [Open]. The seal protects against damage and oversight, not against
// an adversary, who can renew it. After an edit by hand, renew it with [Reseal].
//
// The document is a mapping with the fields below, which are those of [Manifest]. Numbers are
// finite; hashes are SHA-256, 64 hexadecimal digits in lower case; NLL and gains are in nats,
// error, ECE, Brier score, accuracy, AUROC, AUPR and FPR95 are fractions. The last column says
// in which format a field must be (1, 2), may be ((1), (2)), or is not known (–).
//
//	field                      content                                             formats
//	format                     1 or 2                                                1   2
//	tool                       what wrote the bundle, such as "mfgs v0.1.0"          1   2
//	model                      the network; left out for precomputed features       (1) (2)
//	  sha256                   of the model that was calibrated, see below           1   2
//	  producer                 what made it, as it says                             (1) (2)
//	  opset                    its operator set                                      1   2
//	  file, data               name and sha256 of model.onnx, model.onnx.data       (1) (2)
//	head                       the last layer                                        1   2
//	  op, node                 operator and node that are linear                    (1) (2)
//	  features, logits         the tensors φ and a = Wᵀφ + b; must be with a model  (1) (2)
//	  feature_dim              d, without the bias, below 2^24                       1   2
//	  classes                  K, the number of logits, below 2^24                   1   2
//	  bias                     whether there is a b                                  1   2
//	  link                     softmax, sigmoid or one-vs-rest, see below            1   2
//	  tail                     operators between the layer and the model's output   (1) (2)
//	  approximation            relu, or left out: see below                         (1) (2)
//	  steps                    the number of axes of steps, 1 to 3, of a head with
//	                           logits for each step of an example, see below         –  (2)
//	  fix                      inputs of the model that were made constants, as in
//	                           "sr=16000,state=0": see Fix of package head            –  (2)
//	  steps                    axes of the steps of an example that each have logits  –  (2)
//	  state                    inputs with the state of a network that runs over
//	                           streams, and outputs with its next value, as in
//	                           "h=hn,c=cn"; steps is 1: see Unroll of package head    –  (2)
//	  missing                  true: features are columns and flags, see below       –  (2)
//	  nonlinear, kind          true, and probabilities, log-probabilities or scores:
//	                           there is no linear layer, see below                   –  (2)
//	  correctness              true, with kind ctc: the classes are whether a text
//	                           is wrong or right, see below                          –  (2)
//	  decoding                 with kind ctc or tags: how steps are read, see below  –  (2)
//	    of                     probabilities, log-probabilities or scores            –   2
//	    steps_first            true: head.logits is [T,N,K], else [N,T,K]            –  (2)
//	    blank                  number of the blank, below K; -1 for tags             –   2
//	    alphabet               K symbols in UTF-8, "" for the blank alone, of at most
//	                           64 bytes; or the names of K tags                      –   2
//	    mask                   of tags: an input that says which steps count         –  (2)
//	    skip_first, skip_last  of tags: steps that do not count, at most 1024        –  (2)
//	preprocess                 from image to tensor: a Spec of package preprocess    1  (2)
//	  pad                      of it                                                 –  (2)
//	  resize.mode              fit and height, of its values                         –  (2)
//	  exif                     whether image files are turned upright, see below     –  (2)
//	bytes                      true: bytes were turned into numbers, see below       –  (2)
//	settings                   of the calibration: see the fields of [Settings]      –  (2)
//	covariance                 hessian, fisher or sandwich                           1   2
//	                           or external                                           –  (2)
//	structure                  full or kron                                          1   2
//	external_posterior         with covariance external, the file it was read from   –  (2)
//	  file, sha256             its path as given, and its hash                       –   2
//	  program                  laplace-torch, vbll or sngp, see package external     –  (2)
//	  form                     diagonal, kron, shared, per-logit or full             –   2
//	  weights                  true: it had the weights of the model's layer         –  (2)
//	damping                    ε, which was added to every eigenvalue; left out
//	                           with external_posterior                               1   2
//	  rule                     the setting: auto, a number or rel:NUMBER             1   2
//	  epsilon                  ε > 0                                                 1   2
//	  rho                      ε over the mean eigenvalue, 0 where that is zero      1   2
//	  candidates               those tried: rho, epsilon, nll, gain and std_err     (1) (2)
//	probabilities              the selected ones                                     –   2
//	  method                   mf0, matrix, ts or mle, see below                     –   2
//	  ts_gain, ts_needed       gain of temperature scaling, and the required gain    –   2
//	  matrix                   true: the bundle has matrix scaling                   –  (2)
//	  matrix_gain,
//	  matrix_needed            of matrix scaling                                     –  (2)
//	  mf0_gain, mf0_needed     and mf0                                               –   2
//	  keep_class               true: only ts and mle were allowed                    –  (2)
//	  no_posterior             true: head.nonlinear is, and mf0 was not compared     –  (2)
//	class_frequencies          of val: C numbers in (0, 1], see below               –  (2)
//	prior_estimate             class frequencies in use, if they were estimated: spec
//	                           and examples of the unlabelled data, frequencies, low and
//	                           high, C numbers each, strength, gain, significant    –  (2)
//	temperatures               act is T_act in 1e-6 … 1e6, ens is T_ens in 1e-60 … 1e60
//	  nll                      act, ens and tuned_on (nll): of mf0's probabilities   1   2
//	  optimum                  likewise: the pair with the least NLL on val         (1) (2)
//	  ood                      act, ens and tuned_on (ood or nll): of ood_score      1   2
//	  ts                       T of temperature scaling, in 1e-6 … 1e6               1   2
//	  ts_ood                   its T tuned for OOD detection                        (1) (2)
//	  smoothing                ε of ts and matrix, in 0 … 1, see below               –  (2)
//	mean_field                 constants of the approximation
//	  lambda0                  λ₀, in 1e-6 … 1e6                                     1   2
//	  median_variance          median logit variance of val at T_ens = 1, > 0        1   2
//	  max_ratio                largest T_max/T_min of an example of val or ood, ≥ 1  1   2
//	  median_margin            > 0, left out where there is ood_score, see below     –  (2)
//	ood_score                  how ood_score, ood_percentile, ood_pvalue are computed –  (2)
//	  name                     the score, one of package score                       –   2
//	  given                    true: it was configured                               –  (2)
//	  synthetic_ood            true: it was fitted to synthetic OOD data             –  (2)
//	  auroc                    its AUROC, val against ood                            –  (2)
//	  base, unfit              the default score, or studentized if that cannot be
//	                           fitted, and why not; studentized if left out          –  (2)
//	  rival, gain, needed      the score compared with base, its gain in AUROC, and
//	                           the required gain                                     –  (2)
//	  median, scale            of the score on val, scale > 0, see below             –   2
//	  examples                 of val, whose scores the quantiles are of; without
//	                           it there are no p-values                              –  (2)
//	  quantiles                of ood_score on val, ascending: of at most 257
//	                           examples all scores (of one it is there twice), of
//	                           more 257 quantiles                                    –   2
//	decisions                  when to abstain, and prediction sets: a Decisions of
//	                           package conformal, if configured                      –  (2)
//	  target_error, target_coverage, false_alarm, confidence, alpha, sets,
//	  class_conditional        the settings                                          –  (2)
//	  examples                 that thresholds are set on                            –   2
//	  multi_label              true: of independent labels                           –  (2)
//	  in_use                   true: the examples have the class frequencies in use  –  (2)
//	  uncertainty, ood         threshold in 0 … 1 of what is answered; the number of
//	                           examples it was set on, of accepted ones and, with a
//	                           target_error, of wrong ones among these               –  (2)
//	  prediction_set           score, alpha, penalty, free, multi_label, thresholds,
//	                           one or one for each class, and examples              –  (2)
//	  guarantees               the guarantees, in words: they must follow from the
//	                           numbers                                               –   2
//	held_out                   figures on the data used for tuning
//	  before                   of the network                                        1   2
//	  ts                       of temperature scaling                                1   2
//	  matrix                   of matrix scaling                                     –  (2)
//	  mf0                      of mf0                                                –  (2)
//	  after                    of the selected method, in format 1 mf0               1   2
//	  ….in_domain              examples ≥ 1, error, nll, ece, brier                  1   2
//	  ….ood, ….ood_nll         under the pairs ood and nll: examples ≥ 2, accuracy,
//	                           auroc, aupr_in, aupr_out, fpr95                      (1) (2)
//	                           and fpr95_ood, left out if it is 0                    –  (2)
//	reference                  distribution of the predictions for val, see below      –  (2)
//	  confidence, entropy,
//	  ood_score                of each a Reference of package drift: examples, 1 to 64
//	                           edges, and below and at_most, as many counts            –   2
//	  classes                  C counts of the classes predicted                       –   2
//	datasets                   a list, with at least one train and one val           1   2
//	  role                     train, val, ood, synthetic_ood                           1   2
//	  spec                     as given on the command line                          1   2
//	  fingerprint              hash of the content                                   1   2
//	  count                    examples used, ≥ 1                                    1   2
//	  ignored, bad             files passed over, examples not readable; 0          (1) (2)
//	  parts                    the shards it was read in, where these were several   –  (2)
//	    shard, fingerprint     "i/n", and the hash of its content                    –   2
//	batch                      examples to an inference, at most [MaxBatch]          1   2
//	warnings                   lines for people                                     (1) (2)
//	posterior                  name and sha256 of posterior.safetensors              1   2
//	curvature                  name and sha256 of curvature.safetensors             (1) (2)
//	scores                     name and sha256 of scores.safetensors: must be where
//	                           the score of ood_score needs fitting                    –  (2)
//	sample                     name and sha256 of sample.safetensors                 –  (2)
//	probe                      name and sha256 of probe.safetensors; only with model  –  (2)
//	labels                     the classes' names in their order                    (1) (2)
//	columns                    the columns of tables, in the order of the input     –  (2)
//	grids                      nll and auroc, each left out or act [m], tau [n] and
//	                           value [m][n], the objectives over temperatures       (1) (2)
//	x-…                        anything, of other programs                           –  (2)
//
// Fields whose names begin with x- are for other programs: no version of the format will
// define one. Readers ignore and keep them. Other unknown fields are refused at every
// level, and so are duplicate fields.
//
// datasets[].parts has the shards 1/n to n/n of a dataset that was read in n parts, of whole blocks
// of 512 examples (see package part). Its fingerprint is then the SHA-256 of n lines, each a shard,
// a space and that shard's fingerprint.
//
// head.link says how logits a become probabilities: softmax; sigmoid, σ(a) of each logit, for two classes if K
// = 1 and for K independent labels if K ≥ 2; one-vs-rest, σ(a_k) / Σ_j σ(a_j). There are C = K classes, or two
// for a single logit, of which the second has the probability that increases with it; labels has C names.
//
// head.nonlinear is true where the logits come from no linear layer. head.kind then says what they are of the tensor
// head.logits: the logarithms of its probabilities, of which none counts as less than 2^-24, or log p/(1-p) for the
// links sigmoid and one-vs-rest; a single number p is that of the second of two classes; with log-probabilities and
// scores, the numbers themselves, of log-probabilities at least -104. head.feature_dim may be 0, without
// head.features; there is a dataset train only with features. covariance, structure, damping, mean_field,
// temperatures.nll and temperatures.ood, and curvature are left out. temperatures.smoothing is ε > 0: log(p + ε), with
// the softmax p of the logits, takes their place in the methods ts and matrix.
//
// head.steps is not 0 for a model whose logits have axes of steps beside those of the examples and classes, such as
// [N,T,K] with one axis. Each step is then classified by itself. One step of each example has part in the
// calibration, and stands for the example everywhere in this document. It is drawn by the example's position, from
// the steps that have a label or, in a set without labels, from those that count: where the model's input
// attention_mask, [N,T], is not 0, or all.
//
// head.kind is ctc for a model that reads text. Its tensor head.logits has K numbers for each of T steps along a line;
// head.decoding says what they are, and how text follows from them: from the most probable symbol of each step (the
// first of several), repetitions are removed, then blanks. K is from 2 to 2^17. There are then two classes,
// head.correctness is true, and the two logits are log(1 - p) and log p, with the probability p of all paths that give
// this text (connectionist temporal classification): of probabilities, none counts as less than 2^-24, nor does 1 - p,
// and log p is at least -104. The predicted class is always 1, the second: "right". Labels are texts, of which those
// count as class 1 that are the text that is read, but for blanks at both ends. Decisions say correctness too, and have
// no prediction_set; ood_score.name is error_odds. Of the probabilities of a bundle's own network and those served the
// second is the confidence in the text.
//
// head.kind is tags for a model that tags the steps of sequences. head.decoding then has the names of the K tags, and
// -1 for the blank. Of each step that counts the tag is the most probable one, and p is the product of their
// probabilities. Steps count where the input decoding.mask of the model, [N,T], is not 0 (all, if it is left out), but
// for the first decoding.skip_first and last decoding.skip_last of these. Labels are lists of tags, of which those
// count as class 1 that have no other tag at any step. Everything else is as for ctc.
//
// head.missing is true where head.features is an input with a table's columns. The features are then these columns,
// with 0 in the place of NaN, followed by as many numbers that are 1 where there was a NaN, and 0 elsewhere.
//
// head.approximation names a nonlinear operator between the layer and the logits, so that W·φ + b is not
// exactly the logits: "relu", as in SqueezeNet, or absent.
//
// preprocess is left out in format 2 where only ready arrays were calibrated with: how images
// become such arrays is not known then, and a reader refuses them until it is configured. Format 1
// always has it, and what is left out of it changes no pixel. bytes is true where a model with
// several inputs, which has no preprocess, was given bytes for some of them.
//
// preprocess.exif says whether an image file is turned and mirrored as its EXIF orientation asks for,
// before anything else. Writers always say it. Bundles without it, and all of format 1, were calibrated
// with images as they are stored: readers take it for false, whatever a Spec without it means elsewhere.
//
// probabilities.method says which probabilities are used: mf0, under the pair
// temperatures.nll; matrix, softmax(Ma+b) of the tensors matrix_…; ts, softmax(a/T) with T = temperatures.ts;
// or mle, the network's own. In format 1 it is always mf0.
//
// Where prior_estimate or settings.prior has class frequencies π, the probabilities of the methods mf0, matrix and ts
// are multiplied by π/f and normalised, f being class_frequencies. settings.prior has the frequencies of some classes,
// by name or by index; the others share the rest in proportion to f. None counts as less than 1e-9.
//
// ood_score.name is an OOD score of package score. For a score g ≥ 0 that is larger in distribution,
// such as the margins of studentized and mf0, ood_score is median/(median + g); for any other score s
// it is, with z = (s - median)/scale, ½/(1-z) for z ≤ 0 and 1 - ½/(1+z) otherwise. If the
// numbers are not finite, it is 1. ood_percentile is the fraction of validation examples
// with a lower score: quantile i of n is at i/(n-1), linear between them, and of equal ones the
// first counts. ood_pvalue is (1 + a)/(1 + n) of n examples, where a bounds the number of those whose
// score is at least the example's: with j of m quantiles below the example's score, a is n if j = 0, else
// n - 1 - ⌊(j-1)(n-1)/(m-1)⌋.
//
// Without ood_score the score is mf0 with median mean_field.median_margin, in format 1 with 1, and
// there is no ood_percentile and no ood_pvalue. The margin of mf0 is, with r = 1 - max p under the pair
// temperatures.ood and r₀ = 1 - 1/C of C classes, log((1-r)/r) - log((1-r₀)/r₀); of several labels r
// is the mean of 1 - max(p_k, 1-p_k), and r₀ is ½.
//
// reference describes the predictions for examples of val, or some of them: confidence is the largest
// probability, of K labels the mean of max(p_k, 1-p_k); entropy is in nats, of K labels the sum of theirs; the
// predicted class is the most probable one. Edges are the values of rank ⌈k·examples/(edges+1)⌉ for k = 1, 2,
// …; below and at_most count the examples whose value is smaller than each edge, and at most that.
//
// # posterior.safetensors
//
// Format and byte table are those of package safetensors; no metadata. All tensors are F64, row-major and
// finite. D is head.feature_dim, plus one with a bias, whose constant feature comes last; K is head.classes.
//
//	structure  tensor    shape    content
//	full       blocks    [K,D,D]  diagonal blocks Σ_kk of the covariance at T_ens = 1; of
//	                              the links sigmoid and one-vs-rest it has no others
//	full       leverage  [D,D]    (A + δI)⁻¹
//	kron       Q_A       [D,D]    eigenvectors of A, in columns
//	kron       lambda_A  [D]      its eigenvalues, ≥ 0
//	kron       Q_B       [K,K]    eigenvectors of B, in columns; left out where B is diagonal,
//	                              as with the links sigmoid and one-vs-rest
//	kron       lambda_B  [K]      its eigenvalues, ≥ 0
//	kron       V         [D,K]    variance of logit k for each (Q_Aᵀφ)²_i, ≥ 0
//	kron       leverage  [D]      1/(λ_A + δ), ≥ 0
//
// With covariance external and structure kron, the columns of Q_A are any orthonormal directions; lambda_A, Q_B and
// lambda_B are left out; and leverage is [D,D], as with structure full. The role train of datasets then has the data
// whose features A is of, which may be those of val.
//
// Without a linear layer there are none of these. With matrix scaling, covariances and variances are those of the
// mapped logits, Ma+b with M = diag(scale) + left right, and there are also, with R = min(K, 32) for softmax
// heads of at most 2,048 logits and otherwise 0,
//
//	matrix_scale   [K]    the diagonal
//	matrix_offset  [K]    b
//	matrix_left    [K,R]  left; not with R = 0
//	matrix_right   [R,K]  right; not with R = 0
//
// # scores.safetensors
//
// The tensors that the score of ood_score was fitted with on the training data: F64, row-major and finite, with the
// names and shapes of package score. K is head.classes, d head.feature_dim, and other dimensions are at most
// 2^14.
//
// # probe.safetensors
//
// The first readable validation examples, as inputs of the model, with their features and logits: with these a
// server can check that it runs what was calibrated. Format and byte table are those of package safetensors; no
// metadata. There are n = 1 to 4 examples, whose tensors take at most 4 MiB, and the file 64 KiB more. All
// numbers are finite, but for NaN in inputs.
//
//	tensor      type  shape    content
//	features    F32   [n,d]    φ, d being head.feature_dim
//	logits      F32   [n,K]    a, K being head.classes
//	input.NAME  any   [n, …]   for each of the model's inputs, by its name, of its type
//
// # model.onnx and model.onnx.data
//
// model.onnx is the ONNX model whose last layer head describes. Where it would take more than 2
// GiB, which no protobuf can, it has weights as ONNX external data, at the location model.onnx.data
// and nowhere else. model.file and model.data have the hashes of the two; without model.data,
// model.onnx is complete. Links may stand for them, if what they lead to is in one folder.
//
// model.sha256 identifies the model that was calibrated: the SHA-256 of its file or, where
// it kept weights in others, of the binary SHA-256 of that file and of each of the others
// in the order of first use.
//
// # curvature.safetensors
//
// The sums over the training data from which the posterior was computed, so that more data can be
// added: in format 2 the encoding of calibrate.Sums, in format 1 reserved and without
// meaning. This package only checks its hash; likewise that of sample.safetensors, the
// encoding of rows.Sample: the examples that OOD scores are fitted to.
//
// # Versions
//
// This is format 2; formats 1 and 2 are read. A reader refuses a format newer than its own by
// number, before it looks at anything else in the document. Every later release of this module
// reads both, and gives the same probabilities.
//
// Format 1 is frozen: since unknown fields are refused, a new field makes a new format. Format 2 is not yet:
// until this page says that it is, it may gain optional fields, so that earlier bundles stay readable. A reader
// that does not know such a field refuses the bundle and names the field.
//
// # Writing
//
// [Write] builds the folder under a temporary name beside its place, the manifest last, syncs every file, and
// renames the folder. Until then there is no bundle, and after an error, a full disk among them, no trace. A
// process that is killed can leave a hidden folder .mfgs-xxxxxxxxxxxxxxxx.tmp beside NAME, or in [Reseal]
// within the bundle, which the next one that writes there removes.
//
// An existing folder is kept, unless [WriteOptions.Force] is set. Then the old bundle is exchanged for the new
// one, atomically on Linux, elsewhere with an instant in which there is none, and the files of the old one are
// removed, by name. Only an empty folder, or one with a manifest and no files but those of a bundle, is
// replaced. If the exchange is not atomic and a process is killed within it, the next one that writes there
// restores the old bundle.
package bundle
