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
//	curvature.safetensors  optional, reserved: the sums the posterior was made from
//	model.onnx             optional: the network
//	model.onnx.data        only beside model.onnx: its weights, where it does not have them
//
// Other files are not looked at, and may lie there.
//
// # bundle.yaml
//
// One YAML document in UTF-8, of at most [MaxManifest] bytes, without anchors
// and aliases. Its fields are those of [Manifest]; unknown ones are refused.
// Its last line seals it:
//
//	bytes            content
//	0 … n−1          the document, ending in a newline
//	n … n+9          "# sha256: "
//	n+10 … n+73      SHA-256 of bytes 0 … n−1, 64 hexadecimal digits, lower case
//	n+74             newline, the last byte
//
// The manifest holds the SHA-256 of every other file, so the seal covers them
// all: a changed byte anywhere in a bundle is an error of [Open]. The seal is
// against damage and oversight, not against an adversary, who can renew it.
// So can you, with [Reseal], after an edit by hand.
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
// head.link says how logits a become probabilities: softmax; sigmoid, σ(a) of each
// logit, which with K = 1 tells two classes and with K ≥ 2 K labels independently of
// each other; one-vs-rest, σ(a_k) / Σ_j σ(a_j).
//
// preprocess is how images become the model's input, and absent (format 2) where only ready
// arrays were calibrated with: images are then refused. bytes (format 2) is true where a
// model with several inputs, which has no preprocess, was given bytes for some of them.
//
// probabilities.method (format 2) says whose probabilities are served: mf0, under
// the pair temperatures.nll; ts, softmax(a/T) with T = temperatures.ts; or mle, the
// network's own. In format 1 it is always mf0.
//
// preprocess says how images become the model's input, as a Spec of package preprocess;
// its pad, and the modes fit and height of its resize, are of format 2. In format 2 it is
// left out where only ready arrays were calibrated with: how images become such arrays is
// not known then, and a reader refuses them until it is told. Format 1 always has it, and
// what is left out of it changes no pixel.
//
// mean_field.median_margin (format 2) is the unit of ood_score, a margin: the score of a
// margin g is median_margin/(median_margin + g). With r = 1 - max p under the pair
// temperatures.ood and r₀ = 1 - 1/C of C classes, g is log((1-r)/r) - log((1-r₀)/r₀); of
// several labels r is the mean of 1 - max(p_k, 1-p_k), and r₀ is ½. In format 1 it is
// always 1.
//
// held_out has the figures of the network (before), of temperature scaling (ts), of mf0 (mf0,
// format 2), and of what is served (after, which in format 1 are mf0's).
//
// head.approximation says what stands between the layer and the logits though it is not
// linear, so that W·φ + b is not quite the logits: "relu", as in SqueezeNet, or absent.
//
// # model.onnx and model.onnx.data
//
// model.onnx is the ONNX model whose last layer head describes. Where it would take more
// than 2 GiB, which no protobuf can, it has weights as ONNX external data, at the location
// model.onnx.data and nowhere else. model.file and model.data have the hashes of the two;
// without model.data, model.onnx is complete. Links may stand for them, if what they lead
// to is in one folder.
//
// model.sha256 identifies the model that was calibrated: the SHA-256 of its file or, where
// it kept weights in others, of the binary SHA-256 of that file and of each of the others
// in the order of first use.
//
// # curvature.safetensors
//
// Reserved for a later update of the posterior. A bundle may carry it; it is
// hashed, and otherwise not looked at.
//
// # Versions
//
// This is format 2. Format 1, which is read too, lacks the fields that are said
// above to be of format 2, and must not have them. Since unknown fields are
// refused, a new field makes a new format; a reader refuses formats newer than its
// own by number, before it looks at anything else in the document. Every later
// release of this module reads both formats, and gives the same probabilities.
//
// # Writing
//
// [Write] builds the folder under a temporary name beside its place, the
// manifest last, syncs every file, and renames the folder. Until then there is
// no bundle, and after an error, a full disk among them, no trace. A process
// that is killed can leave a hidden folder .mfgs-xxxxxxxxxxxxxxxx.tmp beside NAME,
// or in [Reseal] within the bundle, which the next one that writes there removes.
//
// A name that is taken stays so, unless [WriteOptions.Force] is set. Then the
// old bundle is exchanged for the new one, atomically on Linux, elsewhere with an
// instant in which there is none, and the files of the old one are removed, by
// name. Only a folder that holds a manifest and nothing but the files of a
// bundle, or nothing at all, is replaced. Where the exchange is not atomic and a
// process is killed within it, the next one that writes there puts the old bundle
// back.
package bundle
