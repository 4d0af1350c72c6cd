package main

import (
	"context"
	"path/filepath"

	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/images"
	"github.com/mfgs/mfgs/wrap/bench"
)

// deduplicated is the test part of notMNIST without copies of tuning images or of earlier test images.
const deduplicated = "notmnist without duplicates"

func duplicatesTrials() []trial {
	return []trial{
		{row: "MLE", method: "mle", maxNetworks: someNetworks},
		{row: "mf0", method: "mf0", maxNetworks: someNetworks},
		{row: "leverage", method: "leverage", maxNetworks: someNetworks},
		{row: "studentized", method: "studentized", maxNetworks: someNetworks},
	}
}

func measureDuplicates(ctx context.Context, l *lab, s *section) error {
	set := *l.mnist()
	heldOut, err := images.Read(ctx, set.valOOD)
	if err != nil {
		return err
	}
	tested, err := images.Read(ctx, set.ood[0].Spec)
	if err != nil {
		return err
	}
	seen, held := map[string]bool{}, map[string]bool{}
	for i := range heldOut.Len() {
		held[string(heldOut.Image(i))] = true
	}
	kept := &images.Images{Width: tested.Width, Height: tested.Height, Channels: tested.Channels}
	var asHeld, asEarlier float64
	for i := range tested.Len() {
		image := string(tested.Image(i))
		switch {
		case held[image]:
			asHeld++
		case seen[image]:
			asEarlier++
		default:
			kept.Pixels, kept.Labels = append(kept.Pixels, image...), append(kept.Labels, tested.Labels[i])
		}
		seen[image] = true
	}
	path := filepath.Join(l.scratch, "notmnist-apart-images-idx3-ubyte")
	if err := images.WriteIDX(path, kept.Pixels, kept.Len(), kept.Height, kept.Width); err != nil {
		return err
	}
	s.Facts = map[string]float64{"as a validation image": asHeld, "as an earlier one": asEarlier, "left": float64(kept.Len())}
	set.ood = []bench.NamedSpec{set.ood[0], {Name: deduplicated, Spec: path}}
	set.name = mnistName
	rows, err := l.measure(ctx, "duplicates", &set, duplicatesTrials())
	s.add(rows...)
	return err
}

func writeDuplicates(s *section) {
	all := s.Facts["as a validation image"] + s.Facts["as an earlier one"] + s.Facts["left"]
	s.write("Of the %.0f test images of notMNIST, %.0f are byte-identical to a validation image and %.0f more to an earlier test image; %.0f are left. "+
		"Temperatures are tuned on all validation images.", all, s.Facts["as a validation image"], s.Facts["as an earlier one"], s.Facts["left"])
	s.write("%s", render(s.of("duplicates", mnistName, duplicatesTrials()),
		detectionColumns(notMNIST, false)[1].named("AUROC, all"), detectionColumns(deduplicated, false)[1].named("AUROC, no duplicates"),
		detectionColumns(notMNIST, true)[1].named("AUROC (NLL), all"), detectionColumns(deduplicated, true)[1].named("AUROC (NLL), no duplicates")))
	s.write("Other tables include the duplicates, as the paper does. Some of Tiny-ImageNet's two hundred classes are also in CIFAR-10 (cars, vans, cats, dogs, frogs, birds and boats). " +
		"Its test images have no labels, so these cannot be removed: the set is partly in-distribution.")
}
