#!/usr/bin/env python3
"""Makes what other libraries' preprocessing is compared with: see libraries_test.go.

Run in this folder, with

    pip install torch==2.15.0 torchvision==0.29.2 transformers==5.23.0 timm==1.0.31 pillow==12.2.0 numpy==2.4.6

from PyTorch's packages for the CPU. No weights are loaded: processors and models are those that the
libraries make of nothing. Pillow 13 differs from all before, and from torchvision's tensors, where an image is made
wider and lower: by up to 3 of 255 at sharp edges, under the filters bicubic and lanczos. It writes

    configs/*.json        what transformers' save_pretrained and timm's save_config_for_hf write
    pictures/*            pictures of several sizes and modes
    libraries.bin.gz      what the libraries make of the pictures, at SAMPLES places of each tensor
    ../torchvision.txt    the transforms of torchvision's weights, which the package embeds
    defaults.json         the defaults of transformers' classes

Format of libraries.bin.gz, one record a case, until the end: a line of JSON with config (a file of configs, or
torchvision: and the name of weights), backend, picture and shape; then SAMPLES float32, little-endian: the
elements (i·2654435761 mod 2^32) mod n, i = 0, 1, …, of the tensor's n.

How the pictures are opened is each library's own way: transformers' load_image, which turns them as EXIF
says and drops alpha; timm and torchvision convert("RGB"), which does not turn them.

With --full DIR every tensor is written whole to DIR/NNN.f32 too, NNN the number of the record.
"""
import gzip
import io
import json
import os
import shutil
import sys
import tempfile
import warnings

import numpy as np
import timm
import torch
import torchvision.models
import transformers
from PIL import Image
from timm.models._hub import save_config_for_hf
from transformers.image_utils import load_image

warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()
SAMPLES = 192
FULL = sys.argv[2] if sys.argv[1:2] == ["--full"] else None


# Pictures.

def photo(w, h, seed):
    """Something like a photograph: shades, edges, stripes, a little texture."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:h, 0:w] / max(w, h)
    out = np.zeros((h, w, 3))
    for _ in range(5):
        cx, cy, s = rng.uniform(0, 1, 3)
        out += np.exp(-((x - cx) ** 2 + (y - cy) ** 2) / (0.02 + 0.3 * s))[..., None] * rng.uniform(-90, 170, 3)
    stripes = (np.sin(60 * x * rng.uniform(0.5, 1.5) + 25 * y) > 0) & (y > 0.4)
    out[stripes] = out[stripes] * 0.5 + rng.uniform(0, 200, 3)
    disc = (x - 0.35) ** 2 + (y - 0.3) ** 2 < 0.02
    out[disc] = rng.uniform(0, 255, 3)
    out += (rng.integers(0, 2, (h // 4 + 1, w // 4 + 1, 1)).repeat(4, 0).repeat(4, 1)[:h, :w]) * 9
    return np.clip(out, 0, 255).astype(np.uint8)


def pictures():
    shutil.rmtree("pictures", ignore_errors=True)
    os.mkdir("pictures")

    def png(name, img):
        img.save(f"pictures/{name}.png", optimize=True)

    png("wide", Image.fromarray(photo(301, 200, 1)))
    png("tall", Image.fromarray(photo(185, 260, 2)))
    png("small", Image.fromarray(photo(61, 47, 3)))
    png("large", Image.fromarray(photo(640, 427, 4)).quantize(64).convert("RGB"))
    png("grey", Image.fromarray(photo(230, 171, 5)).convert("L"))
    rgba = Image.fromarray(photo(160, 120, 6)).convert("RGBA")
    rgba.putalpha(Image.fromarray(photo(160, 120, 7)[:, :, 0]))
    png("rgba", rgba)
    png("palette", Image.fromarray(photo(150, 199, 8)).quantize(40))
    exif = Image.Exif()
    exif[274] = 6  # turn it by 90°
    Image.fromarray(photo(240, 160, 9)).save("pictures/turned.png", optimize=True, exif=exif)
    exif[274] = 8
    Image.fromarray(photo(400, 300, 10)).save("pictures/photo.jpg", quality=92, exif=exif)
    return sorted(os.listdir("pictures"))


# Configurations.

P = transformers
CLIPPED = dict(size={"shortest_edge": 336}, crop_size={"height": 336, "width": 336})
IMAGENET = dict(image_mean=[0.485, 0.456, 0.406], image_std=[0.229, 0.224, 0.225])
HUGGING_FACE = {
    "vit": ("ViT", {}),
    "vit-384": ("ViT", dict(size={"height": 384, "width": 384}, image_mean=0.5, image_std=0.5)),
    "vit-bicubic-imagenet": ("ViT", dict(resample=3, **IMAGENET)),  # Swin
    "vit-nearest": ("ViT", dict(resample=0)),
    "vit-oblong": ("ViT", dict(size={"height": 160, "width": 256})),
    "vit-lanczos": ("ViT", dict(resample=1)),
    "vit-hamming": ("ViT", dict(resample=5)),
    "vit-box": ("ViT", dict(resample=4)),
    "vit-pixels": ("ViT", dict(do_rescale=False, do_normalize=False)),
    "vit-127": ("ViT", dict(rescale_factor=1 / 127.5, do_normalize=False)),
    "clip": ("CLIP", {}),
    "clip-336": ("CLIP", CLIPPED),
    "clip-crop-larger": ("CLIP", dict(size={"shortest_edge": 200}, crop_size={"height": 224, "width": 224})),
    "bit": ("Bit", {}),
    "dinov2": ("Bit", dict(size={"shortest_edge": 256}, **IMAGENET)),
    "convnext": ("ConvNext", dict(size={"shortest_edge": 224}, **IMAGENET)),
    "convnext-384": ("ConvNext", dict(**IMAGENET)),
    "resnet": ("ConvNext", dict(size={"shortest_edge": 224}, crop_pct=0.95, **IMAGENET)),
    "regnet": ("ConvNext", dict(size={"shortest_edge": 224}, crop_pct=0.875, resample=2, **IMAGENET)),
    "beit": ("Beit", {}),
    "beit-crop": ("Beit", dict(size={"height": 256, "width": 256}, do_center_crop=True, do_reduce_labels=True)),
    "deit": ("DeiT", dict(**IMAGENET)),
    "mobilenet-v1": ("MobileNetV1", {}),
    "mobilenet-v2": ("MobileNetV2", {}),
    "mobilevit": ("MobileViT", dict(size={"shortest_edge": 288})),
    "efficientnet-b0": ("EfficientNet", dict(size={"height": 224, "width": 224}, resample=0,
                                             image_std=[0.47853944, 0.4732864, 0.47434163], **{"image_mean": [0.485, 0.456, 0.406]})),
    "efficientnet-offset": ("EfficientNet", dict(rescale_factor=1 / 127.5, rescale_offset=True, include_top=False, do_normalize=False)),
    "levit": ("Levit", {}),
    "poolformer": ("PoolFormer", {}),
    "poolformer-s": ("PoolFormer", dict(crop_pct=0.95)),
    "pvt": ("Pvt", {}),
    "segformer": ("Segformer", {}),
    "siglip": ("Siglip", {}),
    "chinese-clip": ("ChineseCLIP", {}),
    "blip": ("Blip", {}),
    "owlvit": ("OwlViT", dict(size={"height": 400, "width": 400})),
    "chameleon": ("Chameleon", dict(size={"shortest_edge": 256}, crop_size={"height": 256, "width": 256})),
    "dinov3": ("DINOv3ViT", {}),
}

TIMM = {
    "timm-resnet50": ("resnet50.a1_in1k", {}),
    "timm-resnet18-tv": ("resnet18.tv_in1k", {}),
    "timm-vit-tiny": ("vit_tiny_patch16_224.augreg_in21k_ft_in1k", {}),
    "timm-mobilenetv3": ("mobilenetv3_small_100.lamb_in1k", {}),
    "timm-efficientnet-b1": ("efficientnet_b1.ft_in1k", {}),
    "timm-tf-efficientnet-b0": ("tf_efficientnet_b0.ns_jft_in1k", {}),
    "timm-inception": ("inception_v3.tf_in1k", {}),
    "timm-swin": ("swin_tiny_patch4_window7_224.ms_in1k", {}),
    "timm-deit3": ("deit3_small_patch16_384.fb_in22k_ft_in1k", {}),
    "timm-cait": ("cait_xxs24_224.fb_dist_in1k", {}),
    "timm-bit": ("resnetv2_50x1_bit.goog_in21k_ft_in1k", {}),
    "timm-siglip": ("vit_base_patch16_siglip_224.webli", {}),
    "timm-squash": ("resnet18.a1_in1k", dict(crop_mode="squash", crop_pct=0.9)),
    "timm-border": ("resnet18.a1_in1k", dict(crop_mode="border", crop_pct=0.95)),
    "timm-oblong": ("resnet18.a1_in1k", dict(input_size=(3, 160, 256))),
    "timm-lanczos": ("resnet18.a1_in1k", dict(interpolation="lanczos", crop_pct=1.0)),
}

TORCHVISION = ["ResNet50_Weights.IMAGENET1K_V1", "ResNet50_Weights.IMAGENET1K_V2", "EfficientNet_B0_Weights.IMAGENET1K_V1",
               "EfficientNet_B3_Weights.IMAGENET1K_V1", "ConvNeXt_Tiny_Weights.IMAGENET1K_V1", "Swin_T_Weights.IMAGENET1K_V1",
               "ViT_B_16_Weights.IMAGENET1K_SWAG_E2E_V1", "Inception_V3_Weights.IMAGENET1K_V1",
               "EfficientNet_V2_L_Weights.IMAGENET1K_V1", "RegNet_Y_400MF_Weights.IMAGENET1K_V2"]


def tensors():
    """Yields configuration, backend, how pictures are opened, and what makes tensors of them."""
    for name, (kind, args) in HUGGING_FACE.items():
        cls = getattr(P, kind + "ImageProcessor")
        with tempfile.TemporaryDirectory() as d:
            cls(**args).save_pretrained(d)
            shutil.copy(f"{d}/preprocessor_config.json", f"configs/{name}.json")
            # torchvision has no box and hamming for tensors, and rounds otherwise where nearest falls between two pixels.
            backends = [("torchvision", cls)] if args.get("resample") not in (0, 4, 5) else []
            if kind != "DINOv3ViT" and name != "clip-crop-larger":  # the two backends pad differently
                backends.append(("pil", getattr(P, kind + "ImageProcessorPil")))
            for backend, c in backends:
                p = c.from_pretrained(d)
                yield name + ".json", backend, load_image, lambda img: np.asarray(p(img, return_tensors="np")["pixel_values"][0])
    for name, (model, overlay) in TIMM.items():
        m = timm.create_model(model, pretrained=False, pretrained_cfg_overlay=overlay)
        save_config_for_hf(m, f"configs/{name}.json")
        with open(f"configs/{name}.json") as f:
            cfg = json.load(f)["pretrained_cfg"]
        t = timm.data.create_transform(**timm.data.resolve_data_config(pretrained_cfg=cfg))
        yield name + ".json", "pil", lambda path: Image.open(path).convert("RGB"), lambda img: t(img).numpy()
    for name in TORCHVISION:
        t = torchvision.models.get_weight(name).transforms()
        yield "torchvision:" + name, "pil", lambda path: Image.open(path).convert("RGB"), lambda img: t(img).numpy()


def torchvision_table():
    lines = []
    for model in torchvision.models.list_models():
        weights = torchvision.models.get_model_weights(model)
        for w in weights:
            t = w.transforms()
            if type(t).__name__ != "ImageClassification":
                continue
            numbers = "" if t.mean == [0.485, 0.456, 0.406] and t.std == [0.229, 0.224, 0.225] else \
                " " + ",".join(map(repr, t.mean)) + " " + ",".join(map(repr, t.std))
            default = model if w == weights.DEFAULT else "-"
            assert t.antialias is True or t.antialias is None
            lines.append(f"{weights.__name__}.{w.name} {default} {t.resize_size[0]} {t.crop_size[0]} {t.interpolation.value}{numbers}\n")
    with open("../torchvision.txt", "w") as f:
        f.writelines(sorted(set(lines)))


def defaults():
    out = {}
    for kind in sorted({k for k, _ in HUGGING_FACE.values()}):
        p = getattr(P, kind + "ImageProcessor")()
        out[kind] = {k: v for k, v in json.loads(p.to_json_string()).items()}
    with open("defaults.json", "w") as f:
        json.dump(out, f, indent=1, sort_keys=True)


def main():
    torch.set_num_threads(1)
    shutil.rmtree("configs", ignore_errors=True)
    os.mkdir("configs")
    paths = pictures()
    torchvision_table()
    defaults()
    n = 0
    raw = io.BytesIO()
    for config, backend, load, make in tensors():
        for picture in paths:
            a = np.ascontiguousarray(make(load("pictures/" + picture)), dtype=np.float32)
            head = {"config": config, "backend": backend, "picture": picture, "shape": list(a.shape)}
            raw.write(json.dumps(head).encode() + b"\n")
            at = [(i * 2654435761 % (1 << 32)) % a.size for i in range(SAMPLES)]
            raw.write(a.reshape(-1)[at].astype("<f4").tobytes())
            if FULL:
                a.astype("<f4").tofile(f"{FULL}/{n:04d}.f32")
            n += 1
        print(config, backend, a.shape, file=sys.stderr)
    with gzip.GzipFile("libraries.bin.gz", "wb", 9, mtime=0) as out:
        out.write(raw.getvalue())


main()
