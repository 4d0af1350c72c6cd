"""Trains a small U-Net on the scenes, and exports it to ONNX: [N,3,64,64] to logits [N,5,64,64]."""
import argparse
import pathlib
import time

import numpy as np
import torch
from PIL import Image
from torch import nn

from draw import CLASSES, SIZE, SIZES

EPOCHS, BATCH, WIDTH, FEATURES = 12, 20, 8, 64


def block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(),
                         nn.Conv2d(o, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        w = WIDTH
        self.down = nn.ModuleList([block(3, w), block(w, 2 * w), block(2 * w, 4 * w)])
        self.bottom = block(4 * w, 4 * w)
        self.up = nn.ModuleList([nn.ConvTranspose2d(4 * w, 4 * w, 2, 2), nn.ConvTranspose2d(4 * w, 2 * w, 2, 2),
                                 nn.ConvTranspose2d(2 * w, w, 2, 2)])
        self.join = nn.ModuleList([block(8 * w, 4 * w), block(4 * w, 2 * w), block(2 * w, w)])
        self.features = nn.Sequential(nn.Conv2d(w, FEATURES, 1), nn.ReLU())
        self.last = nn.Conv2d(FEATURES, len(CLASSES), 1)

    def forward(self, x):
        kept = []
        for down in self.down:
            x = down(x)
            kept.append(x)
            x = nn.functional.max_pool2d(x, 2)
        x = self.bottom(x)
        for up, join in zip(self.up, self.join):
            x = join(torch.cat([up(x), kept.pop()], 1))
        return self.last(self.features(x))


def load(work, part):
    def read(kind):
        return np.stack([np.asarray(Image.open(work / part / kind / f"{i:04}.png")) for i in range(SIZES[part])])
    x = torch.from_numpy(read("images").transpose(0, 3, 1, 2).astype(np.float32) / 255)
    return x, torch.from_numpy(read("labels").astype(np.int64))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--work", type=pathlib.Path, required=True)
    work = p.parse_args().work
    if (work / "unet.onnx").exists():
        return
    torch.manual_seed(1)
    x, y = load(work, "train")
    net, begin = UNet(), time.time()
    steps = EPOCHS * -(-len(x) // BATCH)
    optimiser = torch.optim.AdamW(net.parameters(), 3e-3, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 1e-2, total_steps=steps)
    for epoch in range(EPOCHS):
        total = 0.0
        for at in torch.randperm(len(x)).split(BATCH):
            flipped = [a for a in (2, 3) if torch.rand(()) < 0.5]  # of [N,3,H,W], and less 1 of [N,H,W]
            loss = nn.functional.cross_entropy(net(x[at].flip(flipped)), y[at].flip([a - 1 for a in flipped]))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            total += float(loss) * len(at) / len(x)
        print(f"epoch {epoch}: loss {total:.3f}, {time.time() - begin:.0f} s", flush=True)
    net.eval()
    torch.onnx.export(net, torch.zeros(1, 3, SIZE, SIZE), work / "unet.onnx.new", opset_version=13,
                      input_names=["image"], output_names=["logits"],
                      dynamic_axes={"image": {0: "n"}, "logits": {0: "n"}})
    (work / "unet.onnx.new").rename(work / "unet.onnx")


if __name__ == "__main__":
    main()
