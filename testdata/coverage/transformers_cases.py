"""Small random configurations of transformers classifiers: text, pictures and sound."""

from dataclasses import dataclass
from typing import Callable

import torch
import transformers as t
from transformers.modeling_layers import GenericForTokenClassification

from common import image, mask, numbers, tokens

CLASSES = 5
TAGS = "ForTokenClassification"
VOCABULARY = 120
LENGTH = 16


@dataclass
class Spec:
    """build returns the model, its inputs, the feature counts where the classifier layers do not
    tell them (else None), and further notes. heads names the classifier layers."""

    name: str
    heads: tuple
    build: Callable
    both: bool = False
    open_length: bool = True
    again: Callable = None  # of a text: the specification with a label for each token, or None


def example(i, batch=2):
    """A batch for tracing."""
    shape = [batch] + i["shape"]
    if i["kind"] == "tokens":
        x = torch.randint(i["low"], i["high"], shape, dtype=getattr(torch, i["dtype"]))
        if "end" in i:
            x[:, -1] = i["end"]
        return x
    if i["kind"] == "mask":
        return torch.ones(shape, dtype=getattr(torch, i["dtype"]))
    x = i["low"] + (i["high"] - i["low"]) * torch.rand(shape)
    return x.to(getattr(torch, i["dtype"]))


def make(prefix, suffix, config, **more):
    """The model of transformers named prefix + suffix, with its configuration."""
    base = dict(num_labels=CLASSES)
    config = getattr(t, prefix + "Config")(**{**base, **config})
    for key, value in more.items():
        setattr(config, key, value)
    config._attn_implementation = "eager"
    config._experts_implementation = "batched_mm"  # the others choose experts by operators without ONNX translation
    return getattr(t, prefix + suffix)(config).eval()


ENCODER = dict(vocab_size=VOCABULARY, hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
               max_position_embeddings=64)
DECODER = dict(vocab_size=VOCABULARY, hidden_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
               intermediate_size=64, max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2)


def text(prefix, heads=("classifier",), config=None, base=ENCODER, types=False, pad=0, both=False, masked=True, name=None,
         open_length=True, length=LENGTH, suffix="ForSequenceClassification", **more):
    def build():
        model = make(prefix, suffix, {**base, **(config or {})})
        inputs = [tokens("input_ids", length, VOCABULARY, pad=pad)]
        if masked:
            inputs.append(mask("attention_mask", length))
        if types:
            inputs.append(dict(tokens("token_type_ids", length, 2, low=0)))
        return model, inputs, None, dict(more)

    def again():
        tagger = getattr(t, prefix + TAGS, None)
        if tagger is None:
            return None
        late = ("score",) if issubclass(tagger, GenericForTokenClassification) else ("classifier",)
        return text(prefix, late, config, base, types, pad, both, masked, None, open_length, length, TAGS, steps=-1)
    return Spec(name or prefix + suffix, heads, build, both, open_length, again)


def seq2seq(prefix, config, **kw):
    # The sentence is read off at its last end-of-sentence token, of which every example must have as many.
    def build():
        model = make(prefix, "ForSequenceClassification", config)
        x = tokens("input_ids", LENGTH, VOCABULARY)
        x["end"] = 2
        return model, [x, mask("attention_mask", LENGTH, ragged=False)], None, {}
    return Spec(prefix + "ForSequenceClassification", ("classification_head.out_proj",), build, **kw)


def vision(prefix, config, heads=("classifier",), size=64, suffix="ForImageClassification", both=False, feature=None, **more):
    def build():
        model = make(prefix, suffix, config)
        return model, [image("pixel_values", (3, size, size))], feature, dict(more)
    return Spec(prefix + suffix, heads, build, both)


def sound(prefix, config, heads=("classifier",), suffix="ForSequenceClassification", length=2000, **more):
    def build():
        model = make(prefix, suffix, config)
        return model, [numbers("input_values", [length], -1, 1)], None, dict(more)
    return Spec(prefix + suffix, heads, build)


def spectrogram():
    def build():
        model = make("AST", "ForAudioClassification", dict(
            hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, max_length=64, num_mel_bins=32))
        return model, [numbers("input_values", [64, 32])], None, {}
    return Spec("ASTForAudioClassification", ("classifier.dense",), build)


def whisper():
    def build():
        model = make("Whisper", "ForAudioClassification", dict(
            vocab_size=VOCABULARY, num_mel_bins=16, d_model=48, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
            decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, max_source_positions=40, classifier_proj_size=32,
            pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, begin_suppress_tokens=None))
        return model, [numbers("input_features", [16, 80])], None, {}
    return Spec("WhisperForAudioClassification", ("classifier",), build)


def regression_like_binary():
    """One logit per text, as rerankers have it."""
    def build():
        model = make("Bert", "ForSequenceClassification", {**ENCODER, "num_labels": 1})
        inputs = [tokens("input_ids", LENGTH, VOCABULARY, pad=0), mask("attention_mask", LENGTH)]
        return model, inputs, None, dict(classes=1, link="sigmoid")
    return Spec("BertForSequenceClassification-one-logit", ("classifier",), build)


def token_types_int32():
    """int32 inputs, as mobile and TensorRT pipelines want them."""
    def build():
        model = make("Roberta", "ForSequenceClassification", ENCODER)
        return model, [tokens("input_ids", LENGTH, VOCABULARY, pad=1, dtype="int32"),
                       mask("attention_mask", LENGTH, dtype="int32")], None, {}
    return Spec("RobertaForSequenceClassification-int32", ("classifier.out_proj",), build)


BART = dict(vocab_size=VOCABULARY, d_model=48, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
            decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, max_position_embeddings=64,
            pad_token_id=1, bos_token_id=0, eos_token_id=2, decoder_start_token_id=2)
T5 = dict(vocab_size=VOCABULARY, d_model=48, d_kv=12, d_ff=64, num_layers=2, num_decoder_layers=2, num_heads=4,
          pad_token_id=0, eos_token_id=2, decoder_start_token_id=0)

VIT = dict(hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=64,
           patch_size=16)
WAV = dict(hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, conv_dim=(16, 16),
           conv_stride=(5, 4),
           conv_kernel=(10, 8), num_feat_extract_layers=2, classifier_proj_size=32, num_conv_pos_embeddings=16,
           num_conv_pos_embedding_groups=4, mask_time_prob=0.0, mask_feature_prob=0.0, apply_spec_augment=False)


def cases():
    out = ("classifier.out_proj",)
    score = ("score",)
    half = dict(embedding_size=24)
    return [
        # text, encoders
        text("Bert", types=True, both=True),
        text("DistilBert", config=dict(dim=48, n_layers=2, n_heads=4, hidden_dim=64), base=dict(vocab_size=VOCABULARY,
             max_position_embeddings=64), both=True),
        text("Roberta", out, pad=1, both=True),
        text("XLMRoberta", out, pad=1),
        text("Camembert", out, pad=1),
        text("Albert", config=half, types=True, both=True),
        text("Electra", out, config=half, both=True),
        text("Deberta", config=dict(relative_attention=True, pos_att_type=["c2p", "p2c"], pooler_hidden_size=48)),
        text("DebertaV2", config=dict(relative_attention=True, pos_att_type=["c2p", "p2c"], pooler_hidden_size=48), both=True),
        text("MPNet", out, pad=1),
        text("MobileBert", config=dict(intra_bottleneck_size=24, embedding_size=24), both=True),
        text("SqueezeBert", config=dict(embedding_size=48, q_groups=1, k_groups=1, v_groups=1, post_attention_groups=1,
             intermediate_groups=1, output_groups=1)),
        text("ConvBert", out, config=dict(embedding_size=48, conv_kernel_size=3, head_ratio=2)),
        text("RoFormer", out, config=dict(embedding_size=48)),
        text("Ernie"),
        text("MegatronBert"),
        text("RemBert", config=dict(input_embedding_size=24, output_embedding_size=24)),
        text("FNet", masked=False, open_length=False),
        text("Funnel", ("classifier.linear_out",), config=dict(d_model=48, n_head=4, d_head=12, d_inner=64, block_sizes=[1, 1]),
             base=dict(vocab_size=VOCABULARY), open_length=False),
        text("IBert", out, pad=1),
        text("Esm", out, config=dict(mask_token_id=2, pad_token_id=1), pad=1),
        text("ModernBert", config=dict(pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2)),
        text("Longformer", out, config=dict(attention_window=8, pad_token_id=1), pad=1, open_length=False),
        text("BigBird", out, config=dict(attention_type="original_full")),
        text("XLNet", ("logits_proj",), config=dict(d_model=48, n_layer=2, n_head=4, d_inner=64), base=dict(vocab_size=VOCABULARY)),
        text("Flaubert", ("sequence_summary.summary",), config=dict(emb_dim=48, n_layers=2, n_heads=4, n_words=VOCABULARY),
             base={}, pad=2),
        text("Data2VecText", out, pad=1),
        text("Xmod", out, pad=1, config=dict(languages=["en_XX"], default_language="en_XX")),
        text("RobertaPreLayerNorm", out, pad=1),
        text("Yoso", out, config=dict(use_expectation=True)),
        text("LayoutLM", types=True),
        # text, the last token of each example
        text("GPT2", score, config=dict(n_embd=48, n_layer=2, n_head=4, n_positions=64, pad_token_id=0), base=dict(vocab_size=VOCABULARY),
             both=True),
        text("Llama", score, base=DECODER, both=True),
        text("Qwen2", score, base=DECODER, both=True),
        text("Qwen3", score, base=DECODER, config=dict(head_dim=12)),
        text("Mistral", score, base=DECODER, config=dict(sliding_window=None)),
        text("Gemma", score, base=DECODER, config=dict(head_dim=12)),
        text("Phi", score, base=DECODER),
        text("GPTNeo", score, config=dict(num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]], pad_token_id=0)),
        text("GPTNeoX", score, config=dict(pad_token_id=0)),
        text("OPT", score, config=dict(ffn_dim=64, word_embed_proj_dim=48, pad_token_id=0)),
        text("Bloom", score, config=dict(n_layer=2, n_head=4, pad_token_id=0)),
        text("Falcon", score, config=dict(pad_token_id=0)),
        text("OpenAIGPT", score, config=dict(n_embd=48, n_layer=2, n_head=4, n_positions=64, pad_token_id=0),
             base=dict(vocab_size=VOCABULARY), name="OpenAIGPTForSequenceClassification"),
        seq2seq("Bart", BART, both=True),
        seq2seq("MBart", BART),
        seq2seq("T5", T5),
        regression_like_binary(),
        token_types_int32(),
        # pictures
        vision("ViT", VIT, both=True),
        vision("DeiT", VIT, both=True),
        vision("DeiT", VIT, heads=("cls_classifier", "distillation_classifier"), suffix="ForImageClassificationWithTeacher"),
        vision("Beit", VIT),
        vision("Data2VecVision", VIT),
        vision("ViTMSN", VIT),
        vision("Dinov2", {**VIT, "mlp_ratio": 2}),
        vision("Dinov2WithRegisters", {**VIT, "mlp_ratio": 2}),
        vision("IJepa", VIT),
        vision("Swin", dict(image_size=64, patch_size=4, embed_dim=16, depths=[1, 1], num_heads=[2, 4], window_size=4), both=True),
        vision("Swinv2", dict(image_size=64, patch_size=4, embed_dim=16, depths=[1, 1], num_heads=[2, 4], window_size=4)),
        vision("ConvNext", dict(hidden_sizes=[16, 24, 32, 48], depths=[1, 1, 1, 1]), both=True),
        vision("ConvNextV2", dict(hidden_sizes=[16, 24, 32, 48], depths=[1, 1, 1, 1])),
        vision("MobileViT", dict(image_size=64, hidden_sizes=[24, 32, 48], neck_hidden_sizes=[8, 16, 24, 32, 40, 48, 96]), both=True),
        vision("MobileViTV2", dict(image_size=64)),
        vision("MobileNetV1", dict(image_size=64, depth_multiplier=0.25)),
        vision("MobileNetV2", dict(image_size=64, depth_multiplier=0.35)),
        vision("ResNet", dict(embedding_size=16, hidden_sizes=[16, 24, 32, 48], depths=[1, 1, 1, 1], layer_type="basic"),
               heads=("classifier.1",), both=True),
        vision("RegNet", dict(embedding_size=16, hidden_sizes=[16, 24, 32, 48], depths=[1, 1, 1, 1], groups_width=8), heads=("classifier.1",)),
        vision("Pvt", dict(image_size=64, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 4])),
        vision("PvtV2", dict(image_size=64, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 4])),
        vision("Levit", dict(image_size=64, hidden_sizes=[16, 24, 32], num_attention_heads=[2, 2, 2], depths=[1, 1, 1], key_dim=[8, 8, 8]),
               heads=("classifier.linear",)),
        vision("Levit", dict(image_size=64, hidden_sizes=[16, 24, 32], num_attention_heads=[2, 2, 2], depths=[1, 1, 1], key_dim=[8, 8, 8]),
               heads=("classifier.linear", "classifier_distill.linear"), suffix="ForImageClassificationWithTeacher"),
        vision("PoolFormer", dict(hidden_sizes=[16, 24, 32, 48], depths=[1, 1, 1, 1])),
        vision("Cvt", dict(embed_dim=[16, 32, 48], num_heads=[1, 2, 4], depth=[1, 2, 3], cls_token=[False, False, True])),
        vision("Segformer", dict(hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1])),
        vision("EfficientNet", dict(image_size=64, initializer_range=0.3, width_coefficient=0.25, depth_coefficient=0.25, hidden_dim=320)),
        vision("FocalNet", dict(image_size=64, embed_dim=16, depths=[1, 1], focal_levels=[2, 2], focal_windows=[3, 3])),
        vision("SwiftFormer", dict(image_size=64, depths=[1, 1, 1, 1], embed_dims=[16, 24, 32, 48]), heads=("head", "dist_head")),
        vision("Bit", dict(embedding_size=32, num_groups=8, hidden_sizes=[32, 32, 64, 96], depths=[1, 1, 1, 1]), heads=("classifier.1",)),
        vision("HGNetV2", dict(depths=[1, 1, 1, 1]), heads=("fc",)),
        # sound
        sound("Wav2Vec2", WAV), sound("Hubert", WAV), sound("WavLM", {**WAV, "num_buckets": 32, "max_bucket_distance": 40}),
        sound("UniSpeech", WAV), sound("Data2VecAudio", {**WAV, "num_conv_pos_embeddings": 2}),
        spectrogram(), whisper(),
    ]
