package main

import (
	"fmt"
	"strings"

	"github.com/mfgs/mfgs/testdata/internal/evidence"
	"github.com/mfgs/mfgs/testdata/internal/trained"
)

const (
	title   = "Selecting the probabilities"
	command = "go run -C testdata -buildvcs=true ./choice -cifar DIR -imagenet DIR"
)

// writePage writes docs/evidence/choice.md.
func writePage(file string, networks []trained.Network, losses map[int][]loss, changes []correction) error {
	return evidence.Write(file, title, command, text(networks, losses, changes))
}

// text is the page below its first lines. Its conclusions are to be checked when tables change.
func text(networks []trained.Network, losses map[int][]loss, changes []correction) string {
	var b strings.Builder
	overall(&b, networks, losses)
	all := b.String()
	b.Reset()
	byNetwork(&b, networks, losses)
	by := b.String()
	b.Reset()
	likelihood(&b, networks, losses)
	nlls := b.String()
	b.Reset()
	var names []string
	for _, n := range networks {
		names = append(names, n.Name)
	}
	corrections(&b, names, changes)
	return fmt.Sprintf(page, draws, all, by, nlls, b.String())
}

const page = `
` + "`mfgs calibrate`" + ` fits temperature scaling, matrix scaling and mf0 to the validation data. It selects one of these or the
network's own softmax. This page shows how much higher the NLL of the selected method is on new data than that of the
best method, for small and large validation sets.

## Method

From the examples that a network was not trained on, %d validation sets of each size were drawn. On each set the models
were fitted, and all candidates were tested on the remaining examples: the softmax, temperature scaling, matrix scaling,
mf0 on the network's logits, and the selected method, which may be mf0 on the logits of matrix scaling. The loss (regret)
is the NLL of the selected method minus that of the best candidate, in nats. No rule has a loss of zero in every draw,
since the best candidate is known only from the test data. A set is tested on at least 300 examples.

Six of the nine networks are in ` + "`models`" + `. The ResNet-20 under shift was trained on the original pixels of CIFAR-10 and
is tested on JPEG files. The two-class networks are the last layers for cats and dogs alone. The validation data of the
MobileNet-V2 have 20 of its 1,000 classes. All posteriors have Kronecker factors, for speed. The folders are the unpacked
` + "`cifar10.tar.gz`" + `, with train and test, and the images of ImageNet in train and val, in folders named by the number of
the class; the command takes half an hour on two cores.

## Loss of the rule

%s
The next table has, for each network, the mean and the largest loss of the draws, then how often the network's softmax,
temperature scaling, matrix scaling and mf0 were selected.

%s
## NLL on new data

%s
Matrix scaling has its gain under shift, and is rarely selected elsewhere. Always selecting it has about the same mean
loss, because its prior leaves temperature scaling where the labels do not say otherwise. Its predictions differ from
those of the network, so ` + "`mfgs calibrate`" + ` says how often. Selecting it only if the validation data support it keeps
the network's classes elsewhere. The tables have no intervals.

## Class frequencies

` + "`--prior`" + ` corrects the probabilities where the classes in use are not as frequent as in the validation data. Here the
validation data are 1,000 examples, or a third of what there is. Half of the rest is unlabelled, the other half is for
testing. Both were thinned to class frequencies drawn uniformly from all possible ones (a Dirichlet distribution with all
parameters 1), of the classes that have validation examples. The table has the mean NLL on the test examples without a
correction, with one for the true frequencies, and with frequencies estimated from 100 and from 1,000 unlabelled
examples; then how much an estimate changes the NLL where the frequencies are in fact those of the validation data. Only
significant estimates are used. A dash stands for too few examples.

%s
## Alternatives

These were measured once, when the rule was developed. The command above does not repeat them. Those about matrix scaling
are from 20 draws of each size on the nine networks, the others from 16 draws on six similar ones (with full covariances
where these are the default, and with another seed for one network).

The table has the mean NLL on new data of temperature scaling · mf0, by the number of wrong predictions that tuning adds
to the validation data:

| validation examples | none | half | one | two |
|---|---|---|---|---|
| 50 | 0.977 · 1.368 | 0.202 · 0.200 | 0.212 · 0.207 | 0.233 · 0.223 |
| 100 | 0.713 · 0.907 | 0.194 · 0.193 | 0.199 · 0.197 | 0.209 · 0.205 |
| 200 | 0.577 · 0.654 | 0.193 · 0.193 | 0.194 · 0.194 | 0.199 · 0.197 |
| 400 | 0.2187 · 0.2187 | 0.2176 · 0.2175 | 0.2180 · 0.2178 | 0.2197 · 0.2190 |
| 1,000 | 0.2171 · 0.2168 | 0.2169 · 0.2166 | 0.2170 · 0.2167 | 0.2174 · 0.2170 |
| 5,000 | 0.2378 · 0.2370 | 0.2378 · 0.2370 | 0.2378 · 0.2371 | 0.2379 · 0.2371 |

Half an error is best or equal at every size. Without it, the NLL is far higher with 200 validation examples or fewer.

- **A normal prior on the log temperature**, with mean 0 and standard deviation 1: with 200 examples mf0 still had a
  loss of 0.17 nats in the worst draw, and the result depends on the scale of the logits.
- **One standard error for every step of the rule**: on MNIST, with two or three errors among 400 examples, the gain of
  T = 5 over T = 1 is often below one standard error. The mean loss on it was 0.013 nats, the worst 0.13.
- **Five-fold cross-validation**: folds without an error select temperatures near zero and reject candidates that the
  whole set supports. The mean loss on MNIST was 0.027 nats, the worst 0.14.
- **Matrix scaling by its evidence alone** has about the same mean loss. The cross-validation is for copies of examples,
  which make the evidence too large: its folds are runs of neighbours of one class. With every fifth example as a fold,
  the worst draw of the MobileNet-V2's 400 examples lost 0.012 instead of 0.026 nats, but copies went undetected.
- **mf0 tuned on the map's own validation data**: of ten draws of 100 examples under shift it was selected in two, and
  one of them lost 0.052 nats. Tuned on logits of the cross-validation, mf0 is selected where it gains on new data.
- **Scales and biases of classes instead of a matrix**: under shift, the gain of 5,000 examples is 0.059 instead of 0.067
  nats; with 400 and fewer it is the same.
- **Beta calibration and a quadratic term for two classes**: see [design](../design.md#matrix-scaling).
`
