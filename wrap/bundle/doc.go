// Package bundle reads and writes what calibration leaves behind: a folder with
// all that is needed to predict with uncertainty, to understand how it came
// about, and to notice when any of it was damaged.
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
//	scores.safetensors     only with a score of unfamiliarity that is fitted to training data
//	probe.safetensors      optional: a few held-out inputs, and what the network made of them
//	model.onnx             optional: the network
//	model.onnx.data        only beside model.onnx: its weights, where it does not have them
//
// Other files are not looked at, and may lie there.
//
// # bundle.yaml
//
// One YAML document in UTF-8, of at most [MaxManifest] bytes, without anchors
// and aliases. Its last line seals it:
//
//	bytes            content
//	0 … n−1          the document, ending in a newline
//	n … n+9          "# sha256: "
//	n+10 … n+73      SHA-256 of bytes 0 … n−1, 64 hexadecimal digits, lower case
//	n+74             newline, the last byte
//
// The manifest holds the SHA-256 of every other file, so the seal covers them all: a changed byte
// anywhere in a bundle is an error of [Open]. The seal is against damage and oversight, not against
// an adversary, who can renew it. So can you, with [Reseal], after an edit by hand.
//
// The document is a mapping with the fields below, which are those of [Manifest]. Numbers are
// finite; hashes are SHA-256, 64 hexadecimal digits in lower case; NLL and gains are in nats,
// error, ECE, Brier score, accuracy, AUROC, AUPR and FPR95 are fractions. The last column says
// in which format a field must be (1, 2), may be ((1), (2)), or is not known (–).
//
//	field                      content                                             formats
//	format                     1 or 2                                                1   2
//	tool                       what wrote the bundle, such as "mfgs v0.1.0"          1   2
//	model                      the network; left out where features came ready made (1) (2)
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
//	preprocess                 from image to tensor: a Spec of package preprocess    1  (2)
//	  pad                      of it                                                 –  (2)
//	  resize.mode              fit and height, of its values                         –  (2)
//	  exif                     whether image files are turned upright, see below     –  (2)
//	bytes                      true: bytes were turned into numbers, see below       –  (2)
//	settings                   what was asked for: a Settings                        –  (2)
//	  head                     features, logits, output, link and approximation, each
//	                           left out where it was found                            –  (2)
//	  covariance, damping, lambda0, structure (or auto), ood_score, decisions, limit,
//	  max_bad                  as mfgs calibrate takes them                           –  (2)
//	covariance                 hessian, fisher or sandwich                           1   2
//	structure                  full or kron                                          1   2
//	damping                    ε, which was added to every eigenvalue                1   2
//	  rule                     what was asked for: auto, a number or rel:NUMBER      1   2
//	  epsilon                  ε > 0                                                 1   2
//	  rho                      ε over the mean eigenvalue, 0 where that is zero      1   2
//	  candidates               those tried: rho, epsilon, nll, gain and std_err     (1) (2)
//	probabilities              whose are served                                      –   2
//	  method                   mf0, ts or mle, see below                             –   2
//	  ts_gain, ts_needed       what temperature scaling gains, and had to gain       –   2
//	  mf0_gain, mf0_needed     and mf0                                               –   2
//	temperatures               act is T_act in 1e-6 … 1e6, ens is T_ens in 1e-60 … 1e60
//	  nll                      act, ens and tuned_on (nll): of mf0's probabilities   1   2
//	  optimum                  likewise: the pair of the least held-out NLL         (1) (2)
//	  ood                      act, ens and tuned_on (ood or nll): of ood_score      1   2
//	  ts                       T of temperature scaling, in 1e-6 … 1e6               1   2
//	  ts_ood                   its T tuned on telling apart                         (1) (2)
//	mean_field                 constants of the approximation
//	  lambda0                  λ₀, in 1e-6 … 1e6                                     1   2
//	  median_variance          median held-out logit variance at T_ens = 1, > 0      1   2
//	  max_ratio                largest held-out T_max/T_min of an example, ≥ 1       1   2
//	  median_margin            > 0, left out where there is ood_score, see below     –  (2)
//	ood_score                  what ood_score and ood_percentile are made of         –  (2)
//	  name                     the score, one of package score                       –   2
//	  given                    true: it was asked for                                –  (2)
//	  stand_ins                true: it was learned from stand-ins                   –  (2)
//	  auroc                    of it, on the held-out data                           –  (2)
//	  rival, gain, needed      the score weighed against the default one, what it
//	                           gains in AUROC, and had to gain                       –  (2)
//	  median, scale            of the score on held-out data, scale > 0, see below   –   2
//	  quantiles                of ood_score there, 2 to 257 numbers that never fall  –   2
//	decisions                  when not to answer, and prediction sets: a Decisions of
//	                           package conformal, where they were asked for          –  (2)
//	  target_error, target_coverage, false_alarm, confidence, alpha, sets,
//	  class_conditional        what was asked for                                    –  (2)
//	  examples                 that thresholds are set on                            –   2
//	  multi_label              true: of labels told independently of each other      –  (2)
//	  doubt, unfamiliar        threshold in 0 … 1 of what is answered; of examples,
//	                           those it was set on, how many are accepted, and of
//	                           these, where there is a target_error, how many wrong  –  (2)
//	  prediction_set           score, alpha, penalty, free, multi_label, thresholds,
//	                           one or one for each class, and examples              –  (2)
//	  promises                 what they promise, for people: follows from the
//	                           numbers, which must show it                           –   2
//	held_out                   figures on the data used for tuning
//	  before                   of the network                                        1   2
//	  ts                       of temperature scaling                                1   2
//	  mf0                      of mf0                                                –  (2)
//	  after                    of what is served, in format 1 mf0                    1   2
//	  ….in_domain              examples ≥ 1, error, nll, ece, brier                  1   2
//	  ….ood, ….ood_nll         under the pairs ood and nll: examples ≥ 2, accuracy,
//	                           auroc, aupr_in, aupr_out, fpr95                      (1) (2)
//	reference                  how held-out examples are predicted, see below          –  (2)
//	  confidence, entropy,
//	  ood_score                of each a Reference of package drift: examples, 1 to 64
//	                           edges, and below and at_most, as many counts            –   2
//	  classes                  C counts of the classes predicted                       –   2
//	datasets                   a list, with at least one train and one val           1   2
//	  role                     train, val, ood, stand-ins                                   1   2
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
//	                           the score of ood_score learned something              –  (2)
//	sample                     name and sha256 of sample.safetensors                 –  (2)
//	probe                      name and sha256 of probe.safetensors; only with model  –  (2)
//	labels                     the classes' names in their order                    (1) (2)
//	grids                      nll and auroc, each left out or act [m], tau [n] and
//	                           value [m][n], what temperatures were chosen from     (1) (2)
//	x-…                        anything, of others                                   –  (2)
//
// Fields whose names begin with x- belong to whoever writes them: no version of the format will
// define one. Readers look over them, and keep them. Other unknown fields are refused, at every
// level; so are fields that stand there twice.
//
// datasets[].parts has the shards 1/n to n/n of a dataset that was read in n parts, of whole blocks
// of 512 examples (see package part). Its fingerprint is then the SHA-256 of n lines, each a shard,
// a space and that shard's fingerprint.
//
// head.link says how logits a become probabilities: softmax; sigmoid, σ(a) of each
// logit, which with K = 1 tells two classes and with K ≥ 2 K labels independently of
// each other; one-vs-rest, σ(a_k) / Σ_j σ(a_j). There are C = K classes, or two of a single
// logit, the second being the one whose probability grows with it; labels has C names.
//
// head.approximation says what stands between the layer and the logits though it is not
// linear, so that W·φ + b is not quite the logits: "relu", as in SqueezeNet, or absent.
//
// preprocess is left out in format 2 where only ready arrays were calibrated with: how images
// become such arrays is not known then, and a reader refuses them until it is told. Format 1
// always has it, and what is left out of it changes no pixel. bytes is true where a model with
// several inputs, which has no preprocess, was given bytes for some of them.
//
// preprocess.exif says whether an image file is turned and mirrored as its EXIF orientation asks for,
// before anything else. Writers always say it. Bundles without it, and all of format 1, were calibrated
// with images as they are stored: readers take it for false, whatever a Spec without it means elsewhere.
//
// probabilities.method says whose probabilities are served: mf0, under the pair
// temperatures.nll; ts, softmax(a/T) with T = temperatures.ts; or mle, the network's own. In
// format 1 it is always mf0.
//
// ood_score.name is a score of unfamiliarity, of package score. Where that is a familiarity g ≥ 0,
// such as the margins of studentized and mf0, ood_score is median/(median + g); of any other score s
// it is, with z = (s - median)/scale, ½/(1-z) for z ≤ 0 and 1 - ½/(1+z) for others. What is made of
// numbers that are not finite is 1. ood_percentile is the share of held-out examples in distribution
// that score lower: quantile i of n is at i/(n-1), between them it is linear, and of equal ones the
// first counts.
//
// Without ood_score the score is mf0 with median mean_field.median_margin, in format 1 with 1, and
// there is no ood_percentile. The margin of mf0 is, with r = 1 - max p under the pair
// temperatures.ood and r₀ = 1 - 1/C of C classes, log((1-r)/r) - log((1-r₀)/r₀); of several labels r
// is the mean of 1 - max(p_k, 1-p_k), and r₀ is ½.
//
// reference is of so many held-out examples, at most those of val, predicted by what is served:
// confidence is the largest probability, of K labels the mean of max(p_k, 1-p_k); entropy is in nats,
// of K labels the sum of theirs; the class predicted is the most probable one. Edges are values of
// examples, those of rank ⌈k·examples/(edges+1)⌉ for k = 1, 2, …; below and at_most count the examples
// whose value is smaller than each, and not larger.
//
// # posterior.safetensors
//
// Format and byte table are those of package safetensors; no metadata. All
// tensors are F64, row-major and finite. D is head.feature_dim, plus one with a
// bias, whose constant feature comes last; K is head.classes.
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
// # scores.safetensors
//
// What the score of ood_score learned from the training data, F64, row-major and finite: tensors by
// the names and of the shapes that package score has for it. K is head.classes, d
// head.feature_dim, and other dimensions are at most 2^14.
//
// # probe.safetensors
//
// The first held-out examples that could be read, as the model's inputs take them, and the features and
// logits that it gave for them: by these a server can tell whether what it runs is what was calibrated.
// Format and byte table are those of package safetensors; no metadata. There are n = 1 to 4 examples,
// whose tensors take at most 4 MiB, and the file 64 KiB more. All numbers are finite.
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
// The sums over the training data that the posterior was made from, for who adds more to
// them: in format 2 what calibrate.Sums encodes, in format 1 reserved, without content that
// means anything. It is hashed, and otherwise not looked at here; nor is sample.safetensors, which
// calibrate/rows encodes: the examples that scores of unfamiliarity are fitted to.
//
// # Versions
//
// This is format 2; formats 1 and 2 are read. A reader refuses a format newer than its own by
// number, before it looks at anything else in the document. Every later release of this module
// reads both, and gives the same probabilities.
//
// Format 1 is frozen: since unknown fields are refused, a new field makes a new format. Format 2
// is not yet: until this page says that it is, it grows with what is built on it, by optional
// fields, so that what was written before stays readable. A reader that does not know such a field refuses the
// bundle and names it; nothing is served that was only half understood.
//
// # Writing
//
// [Write] builds the folder under a temporary name beside its place, the
// manifest last, syncs every file, and renames the folder. Until then there is
// no bundle, and after an error, a full disk among them, no trace. A process
// that is killed can leave a hidden folder .mfgs-xxxxxxxxxxxxxxxx.tmp beside NAME,
// or in [Reseal] within the bundle, which the next one that writes there removes.
//
// A name that is taken stays so, unless [WriteOptions.Force] is set. Then the old bundle is
// exchanged for the new one, atomically on Linux, elsewhere with an instant in which there is none,
// and the files of the old one are removed, by name. Only a folder that holds a manifest and
// nothing but the files of a bundle, or nothing at all, is replaced. Where the exchange is not
// atomic and a process is killed within it, the next one that writes there puts the old bundle
// back.
package bundle
