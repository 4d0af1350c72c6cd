"""Exports torchvision, timm and transformers classifiers with PyTorch's two ONNX exporters.

Weights are random. Batch normalisation takes its statistics from one batch of noise, so that deep
networks keep the scale of their activations. The classifier gets new weights: several
libraries initialise it to zero, for which any head would be right.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import re
import tempfile
import warnings
from importlib.metadata import version

import onnxruntime
import onnxscript  # noqa: F401 (loaded once, before the cases fork)
import timm
import torch
import torchvision
import transformers

from common import Case, arguments, image, mask, notes, numbers, run, tokens
import odd_heads
import torch_heads
import torch_more
import torch_steps
import transformers_cases
import transformers_more

torch.set_num_threads(1)
torch.backends.mha.set_fastpath_enabled(False)  # the fused operator has no ONNX translation
warnings.filterwarnings("ignore")

VERSIONS = {p: version(p) for p in ("torch", "torchvision", "timm", "transformers", "onnx", "onnxscript")}
LINEAR = (torch.nn.Linear, torch.nn.Conv2d, torch.nn.Conv1d)


def width(layer):
    return layer.in_features if hasattr(layer, "in_features") else layer.in_channels


def linears(head):
    return [m for m in head.modules() if isinstance(m, LINEAR)]


def widths(model, heads, batch):
    """The features of each classifier layer, counted once where several layers read the same tensor."""
    read = []

    def note(layer, x):
        if all(x[0] is not y for y in read):
            read.append(x[0])

    hooks = [m.register_forward_pre_hook(note) for m in heads]
    with torch.no_grad():
        model(*batch)
    for hook in hooks:
        hook.remove()
    return [x.shape[1] if x.dim() == 4 else x.shape[-1] for x in read]


def prepare(model, heads, batch):
    """Sets the statistics of batch normalisation from a batch, and draws the classifier's weights."""
    torch.manual_seed(1)
    with torch.no_grad():
        for m in heads:
            torch.nn.init.normal_(m.weight, std=width(m) ** -0.5)
            if m.bias is not None:
                torch.nn.init.normal_(m.bias, std=0.3)
        # A scale of 1e-5 before each block, from which training begins, would hide the inputs.
        for name, p in model.named_parameters():
            if "gamma" in name and p.abs().max() < 0.1:
                p.fill_(0.3)
        model.eval()
        norms = [m for m in model.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
        for m in norms:
            m.momentum = None
            m.train()
        if norms:
            model(*batch)
        model.eval()
        out = model(*batch)
        if not torch.isfinite(out).all():
            raise ValueError("the network's own logits are not finite")
        # No trained network is sure of everything to a hundred digits.
        for m in heads if out.double().std() > 10 else []:
            m.weight *= 5 / out.std()


def export(model, args, names, path, exporter, opset=None, dynamic=(0,), output="logits"):
    """dynamic: the axes of every input that are left open, of batch and sequence."""
    axis = {0: "batch", 1: "sequence"}
    with torch.no_grad():
        if exporter == "dynamo":
            shapes = tuple({i: torch.export.Dim.AUTO for i in dynamic} for _ in names)
            if hasattr(model, "wrapped"):
                shapes = (shapes,)
            torch.onnx.export(model, args, str(path), dynamo=True, input_names=names, output_names=[output],
                              dynamic_shapes=shapes if dynamic else None, opset_version=opset, verbose=False)
        else:
            axes = {n: {i: axis[i] for i in dynamic} for n in names}
            axes[output] = {0: "batch"}
            torch.onnx.export(model, args, str(path), dynamo=False, input_names=names, output_names=[output],
                              dynamic_axes=axes if dynamic else None, opset_version=opset or 17)
    # Both exporters now and then write what no runtime takes.
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


class Logits(torch.nn.Module):
    """A transformers model as a function of its input tensors alone, yielding its logits alone."""

    def __init__(self, model, names):
        super().__init__()
        self.wrapped, self.names = model, names

    def forward(self, *tensors):
        return self.wrapped(**dict(zip(self.names, tensors)), return_dict=True).logits


# torchvision

TORCHVISION = torchvision.models.list_models(torchvision.models)
# Sizes below the library's own where the network allows; VGG and AlexNet pool to a fixed grid.
TORCHVISION_SIZE = {"alexnet": 224, "vgg": 224, "maxvit": 224, "inception": 128, "vit_h": 56, "vit": 64, "squeezenet": 96}
TORCHVISION_DYNAMO = """alexnet convnext_tiny densenet121 efficientnet_b0 efficientnet_b1 efficientnet_v2_s googlenet inception_v3
    maxvit_t mnasnet0_5 mnasnet1_0 mobilenet_v2 mobilenet_v3_large mobilenet_v3_small regnet_x_400mf regnet_x_800mf regnet_y_400mf
    regnet_y_800mf resnet18 resnet34 resnet50 resnext50_32x4d shufflenet_v2_x0_5 shufflenet_v2_x1_0 squeezenet1_1 swin_t swin_v2_t
    vgg11 vit_b_32 wide_resnet50_2""".split()
# As published, with a thousand classes, in the TorchScript export.
TORCHVISION_THOUSAND = """convnext_tiny densenet121 efficientnet_b0 googlenet mnasnet0_5 mobilenet_v2 mobilenet_v3_large mobilenet_v3_small
    regnet_x_400mf regnet_y_400mf resnet18 resnet34 shufflenet_v2_x0_5 shufflenet_v2_x1_0 swin_t vit_b_32""".split()
RELU = "ReLU is between the classifier's convolution and the pooling: the logits are not linear in the features"


def torchvision_case(name, exporter):
    def build(folder):
        torch.manual_seed(0)
        classes = 1000 if exporter == "torchscript" and name in TORCHVISION_THOUSAND else 10
        size = next((s for prefix, s in TORCHVISION_SIZE.items() if name.startswith(prefix)), 96)
        more = {"image_size": size} if name.startswith("vit") else {}
        if name.startswith("maxvit"):
            more = {"input_size": (size, size)}
        if name in ("googlenet", "inception_v3"):
            more = {"init_weights": False}
        model = torchvision.models.get_model(name, weights=None, num_classes=classes, **more)
        head = [m for m in model.modules() if isinstance(m, LINEAR) and classes in
                (getattr(m, "out_features", 0), getattr(m, "out_channels", 0))][-1]
        x = torch.randn(4, 3, size, size)
        prepare(model, [head], (x,))
        export(model, (x[:2],), ["image"], folder / "model.onnx", exporter)
        return notes(f"torchvision, {exporter}", [width(head)], classes, [image("image", (3, size, size))],
                     refuse=RELU if name.startswith("squeezenet") else "")
    return Case(f"torchvision/{name}/{exporter}", build)


# timm: at least one network of every module that has a classifier

TIMM = """beit_base_patch16_224 botnet26t_256 eca_halonext26ts lambda_resnet26t bat_resnext26ts gcresnext26ts gernet_s mobileone_s0 regnetz_b16
    repvgg_a0 resnet50_clip_gap resnet50_mlp resnet51q cait_xxs24_224 coat_lite_tiny convit_tiny convmixer_768_32 convnext_zepto_rms
    convnext_atto convnextv2_atto convnext_tiny_hnf cpubone_nano crossvit_tiny_240 crossvit_9_dagger_240 csatv2 cs3darknet_focus_s
    cspresnet50 darknet17 cspnext_tiny davit_tiny deepseek_vit_412m deit_tiny_patch16_224 deit_tiny_distilled_patch16_224
    deit3_small_patch16_224 densenet121 dla46_c dpn48b edgenext_xx_small efficientformer_l1 efficientformerv2_s0 efficientnet_b0
    efficientnet_cc_b0_4e efficientnet_lite0 mixnet_s mnasnet_small mobilenetv2_035 fbnetc_100 spnasnet_100 tinynet_e tf_efficientnetv2_b0
    efficientvim_m1 efficientvit_b0 efficientvit_l1 efficientvit_m0 eva02_tiny_patch14_224 vit_pe_core_tiny_patch16_384
    vit_small_patch16_rope_224 fasternet_t0 fastvit_t8 fastvit_mci0 focalnet_tiny_srf gcvit_xxtiny gemma4_vit_167m ghostnet_050
    ghostnetv2_100 ghostnetv3_050 hardcorenas_a hgnet_tiny hgnetv2_b0 hiera_tiny_224 hieradet_small hrnet_w18_small iformer_t
    inception_next_atto inception_resnet_v2 inception_v3 inception_v4 lcnetv2_small levit_128s levit_conv_128s lowformer_b0
    mambaout_femto coatnet_pico_rw_224 maxvit_pico_rw_256 caformer_s18 convformer_s18 poolformer_s12 poolformerv2_s12 mixer_s32_224
    gmlp_ti16_224 resmlp_12_224 mobilenetv3_small_050 mobilenetv4_conv_small_035 mobilenetv4_hybrid_medium_075 lcnet_035 fbnetv3_b
    mobilenetv5_base mobilevit_xxs mobilevitv2_050 mvitv2_tiny mvitv2_small_cls naflexvit_base_patch16_gap nest_tiny
    nextvit_small eca_nfnet_l0 nf_regnet_b0 pit_ti_224 pit_ti_distilled_224 pvt_v2_b0 qwen3_vit_88m rdnet_tiny
    regnetx_002 regnety_002 regnetz_005 regnetv_040 repghostnet_050 repvit_m0_9 repvit_m1 res2net50_48w_2s res2next50 resnest14d
    resnet10t resnet50_gn seresnet18 ecaresnet26t resnetblur18 resnetrs50 resnetv2_18 resnetv2_50 resnetv2_50x1_bit rexnet_100 rexnetr_100
    selecsls42 legacy_seresnet18 sequencer2d_s shvit_s1 skresnet18 starnet_s050 swiftformer_xs swin_tiny_patch4_window7_224
    swin_s3_tiny_224 swinv2_tiny_window8_256 swinv2_cr_tiny_224 tiny_vit_5m_224 tnt_s_legacy_patch16_224 tresnet_m
    twins_svt_small twins_pcpvt_small vgg11_bn visformer_tiny vit_tiny_patch16_224 flexivit_small vit_base_patch32_siglip_256
    vit_tiny_r_s16_p8_224 vit_relpos_small_patch16_224 vit_srelpos_small_patch16_224 samvit_base_patch16_224 vitamin_small_224 volo_d1_224
    ese_vovnet19b_slim_dw eca_vovnet39b legacy_xception xception41 xcit_nano_12_p16_224
    nasnetalarge pnasnet5large""".split()
TIMM_THOUSAND = """convnext_atto deit_tiny_patch16_224 efficientnet_b0 ghostnet_050 lcnet_035 levit_128s mixer_s32_224 mobilenetv3_small_050
    mobilevit_xxs pvt_v2_b0 regnetx_002 regnety_002 resnet10t tinynet_e vit_tiny_patch16_224""".split()

# Exported by dynamo; the others, and those of which dynamo makes nothing, by TorchScript.
TIMM_DYNAMO = """bat_resnext26ts botnet26t_256 cait_xxs24_224 convit_tiny convnext_zepto_rms convnextv2_atto cpubone_nano crossvit_9_dagger_240
    cs3darknet_focus_s csatv2 darknet17 davit_tiny deepseek_vit_412m deit3_small_patch16_224 deit_tiny_patch16_224 dla46_c
    eca_halonext26ts edgenext_xx_small efficientformerv2_s0 gcresnext26ts gemma4_vit_167m lambda_resnet26t levit_128s mobileone_s0 qwen3_vit_88m
    repvgg_a0 resnet50_mlp xcit_nano_12_p16_224""".split()

# Small relatives of those above, whose heads, pooling or norms differ. Those of the second list are exported by dynamo.
TIMM_MORE = """test_byobnet mobilevit_xs mobilevitv2_075 mobileone_s1 halonet_h1 regnetz_b16_evos resnext26ts
    lambda_resnet26rpt_256 haloregnetz_b repvgg_b0 coat_tiny coat_mini convnext_zepto_rms_ols convnext_atto_ols
    convnext_atto_rms convnextv2_femto convnext_femto cpubone_t0 cpubone_b0_bfrobust crossvit_9_240 cs3darknet_s
    cs3darknet_focus_m cspnext_s densenetblur121d densenet169 dla46x_c dla34 dpn68 dpn68b edgenext_x_small
    efficientformerv2_s1 test_efficientnet test_efficientnet_evos mobilenetv2_050 semnasnet_050 mnasnet_050
    tinynet_d tf_mixnet_s mobilenet_edgetpu_100 mobilenetv1_100 tf_efficientnet_lite0 efficientnet_blur_b0
    efficientnet_es efficientvim_m1_dist efficientvit_b1 efficientvit_m1 efficientvit_m2 eva02_tiny_patch14_336
    vit_tiny_patch16_dinov3_qkvb fasternet_t1 fastvit_t12 fastvit_s12 ghostnet_100 ghostnetv3_100 hgnetv2_b1
    iformer_s iformer_m_distilled lcnetv2_base levit_128 levit_conv_128 test_mambaout test_coatnet test_maxvit
    lcnet_050 mobilenetv3_small_075 mobilenetv4_conv_small_050 tf_mobilenetv3_small_minimal_100 hardcorenas_b
    mobilenetv4_conv_blur_medium fbnetv3_d test_nfnet nf_regnet_b1 nf_resnet26 pit_xs_224 pit_xs_distilled_224
    regnety_004 regnetx_004_tv repghostnet_058 repvit_m1_0 repvit_m2 test_resnet resnet14t resnet18d
    ecaresnext26t_32x4d resnest26d resnetv2_18d rexnet_130 rexnetr_130 starnet_s100 starnet_s1 swiftformer_s
    test_vit test_vit3 test_vit_relpos ese_vovnet19b_slim xcit_nano_12_p8_224""".split()
TIMM_MORE_DYNAMO = """test_convnext test_convnext2 test_convnext3 convnextv2_pico cs3darknet_m dla60x_c
    efficientvim_m2_dist efficientvit_m3 eva02_small_patch14_224 vit_pe_spatial_tiny_patch16_512
    vit_small_patch16_rope_mixed_224 fastvit_sa12 ghostnet_130 ghostnetv2_130 iformer_m levit_192
    coatnext_nano_rw_224 coatnet_rmlp_nano_rw_224 mobilenetv4_hybrid_medium mobilenetv3_large_075 lcnet_075
    nf_ecaresnet26 pvt_v2_b1 regnety_008_tv repghostnet_080 resnet26t seresnext26d_32x4d rexnet_150 shvit_s2
    starnet_s2 tiny_vit_11m_224 test_vit2 test_vit4 vit_xsmall_patch16_clip_224 vit_dwee_patch16_reg1_gap_256
    vit_small_patch14_reg4_dinov2 xcit_tiny_12_p16_224 gmixer_12_224 test_efficientnet_gn test_efficientnet_ln""".split()

TIMM_REFUSE = {"volo_d1_224": "half the largest auxiliary logit of all patches is added: a maximum is not linear"}


def timm_model(name, classes):
    """The network with pictures as small as it takes, and their size."""
    size = timm.get_pretrained_cfg(name, allow_unregistered=True)
    default = size.input_size[-1] if size else 224
    error = None
    for size in (128, 112, default):
        for more in ({"img_size": size}, {"input_size": (3, size, size)}, {}):
            try:
                model = timm.create_model(name, pretrained=False, num_classes=classes, **more).eval()
                with torch.no_grad():
                    if model(torch.randn(1, 3, size, size)).shape == (1, classes):
                        return model, size
            except Exception as e:
                error = e
    raise error or ValueError("no picture size gives logits")


def timm_case(name, exporter, fallback=None):
    def build(folder):
        torch.manual_seed(0)
        classes = 1000 if name in TIMM_THOUSAND else 10
        timm.layers.set_fused_attn(exporter == "dynamo")  # TorchScript cannot trace its flags in some networks
        model, size = timm_model(name, classes)
        heads = model.get_classifier()
        heads = heads if isinstance(heads, (tuple, list)) else [heads]
        heads = [m for h in heads for m in linears(h)]
        if not heads:
            raise ValueError(f"classifier {model.get_classifier()} has no linear layer")
        x = torch.randn(2, 3, size, size)
        prepare(model, heads, (x,))
        export(model, (x,), ["image"], folder / "model.onnx", exporter)
        d = widths(model, heads, (x,)) if len(heads) > 2 else [width(m) for m in heads]
        return notes(f"timm, {exporter}", sorted({*d, sum(d)}) if len(d) > 1 else d, classes,
                     [image("image", (3, size, size))], heads=len(d), refuse=TIMM_REFUSE.get(name, ""))
    return Case(f"timm/{name}/{exporter}", build, fallback)


# transformers
TRANSFORMERS_DYNAMO = """Beit Bit Data2VecText Deberta Dinov2WithRegisters EfficientNet Esm FNet Falcon FocalNet
    Funnel GPTNeo Gemma Hubert LayoutLM Levit MBart MPNet MegatronBert MobileNetV1 MobileViTV2 OPT PoolFormer Pvt
    Qwen3 RoFormer RobertaPreLayerNorm Segformer SqueezeBert UniSpeech ViTMSN XLMRoberta AST Arcee Doge Exaone4
    Gemma3Text Glm4 HunYuanDenseV1 GptOss DeepseekV3 Jamba MiniCPM3 Ministral Mixtral Olmo Olmo3 Phi3 Qwen2Moe
    Qwen3Next SeedOss StableLm ModernBertDecoder BioGpt GPTJ Mpt Canine Luke Mra Nystromformer Reformer Tapas
    JinaEmbeddingsV3 Perceiver PLBart MT5 CLIP Siglip Hiera VideoMAE Vivit PatchTST Wav2Vec2Conformer SEW
    Wav2Vec2Bert""".split()


def transformers_case(spec, exporter, fallback=None):
    def build(folder):
        torch.manual_seed(0)
        model, inputs, features, more = spec.build()
        names = [i["name"] for i in inputs]
        args = tuple(transformers_cases.example(i) for i in inputs)
        for m in model.modules():
            if isinstance(m, torch.nn.Dropout):
                m.p = 0.0
        heads = [m for n, m in model.named_modules() if n in spec.heads and isinstance(m, LINEAR)]
        if len(heads) != len(spec.heads):
            raise ValueError(f"no classifier {spec.heads}")
        model = Logits(model, names)
        prepare(model, heads, args)
        text = any(i["kind"] == "tokens" for i in inputs)
        export(model, args, names, folder / "model.onnx", exporter, dynamic=(0, 1) if text and spec.open_length else (0,))
        d = features or [width(m) for m in heads]
        return notes(f"transformers, {exporter}", sorted({*d, sum(d)}) if len(heads) > 1 else d,
                     more.pop("classes", transformers_cases.CLASSES), inputs, heads=len(heads), **more)
    return Case(f"transformers/{spec.name}/{exporter}", build, fallback)


# Plain networks whose last layer is written in the ways that PyTorch allows

def plain_case(family, name, make, inputs, features, classes, exporter, opset=None, dynamic=(0,), batch=2, **more):
    def build(folder):
        torch.manual_seed(0)
        model = make()
        args = tuple(transformers_cases.example(i, batch) for i in inputs)
        prepare(model, [], args)
        export(model, args, [i["name"] for i in inputs], folder / "model.onnx", exporter, opset, dynamic)
        return notes(f"torch, {exporter}" + (f", opset {opset}" if opset else ""), features if isinstance(features, list) else [features], classes, inputs, **more)
    return Case(f"{family}/{name}/{exporter}", build)


def plain_cases():
    for family, module in ("torch", torch_heads), ("torch", torch_more), ("torch", torch_steps), ("odd", odd_heads):
        for name, spec in module.cases().items():
            for exporter in spec.pop("exporters", ("torchscript", "dynamo")):
                yield plain_case(family, name, exporter=exporter, **spec)


def warm_up(exporters):
    """Loads what the exporters load at their first use, which each forked case would load again."""
    for exporter in exporters:
        with tempfile.TemporaryDirectory() as folder:
            export(torch.nn.Linear(2, 2).eval(), (torch.zeros(2, 2),), ["x"], os.path.join(folder, "model.onnx"), exporter)


def main():
    args = arguments(__doc__)
    cases = list(plain_cases())
    for spec in transformers_cases.cases() + transformers_more.cases():
        if spec.both:
            cases += [transformers_case(spec, "torchscript"), transformers_case(spec, "dynamo")]
        else:
            exporters = ("dynamo", "torchscript") if spec.name.split("For")[0] in TRANSFORMERS_DYNAMO else ("torchscript", "dynamo")
            cases.append(transformers_case(spec, exporters[0], transformers_case(spec, exporters[1])))
    large = [n for n in TORCHVISION if any(w in n for w in ("vgg", "vit_h", "vit_l", "128gf", "32gf", "_l", "b6", "b7"))
             and "mobilenet" not in n]
    cases += [torchvision_case(n, "torchscript") for n in TORCHVISION if n not in large]
    for name in TIMM + TIMM_MORE + TIMM_MORE_DYNAMO:
        exporters = ("dynamo", "torchscript") if name in TIMM_DYNAMO + TIMM_MORE_DYNAMO else ("torchscript", "dynamo")
        cases.append(timm_case(name, exporters[0], timm_case(name, exporters[1])))
    cases += [torchvision_case(n, "dynamo") for n in TORCHVISION_DYNAMO]
    cases += [torchvision_case(n, "torchscript") for n in large]
    if not args.list:
        warm_up({e for e in ("torchscript", "dynamo") if any(re.search(args.only, c.id) and c.id.endswith(e) for c in cases)})
    run(cases, args, VERSIONS)


if __name__ == "__main__":
    main()
