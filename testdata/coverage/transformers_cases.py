"""Small random configurations of transformers classifiers: text, pictures and sound."""

from dataclasses import dataclass
from typing import Callable

import torch
import transformers as t

from common import image, mask, numbers, tokens

CLASSES = 5
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
         open_length=True, length=LENGTH, **more):
    def build():
        model = make(prefix, "ForSequenceClassification", {**base, **(config or {})})
        inputs = [tokens("input_ids", length, VOCABULARY, pad=pad)]
        if masked:
            inputs.append(mask("attention_mask", length))
        if types:
            inputs.append(dict(tokens("token_type_ids", length, 2, low=0)))
        return model, inputs, None, dict(more)
    return Spec(name or prefix + "ForSequenceClassification", heads, build, both, open_length)


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


def more_texts():
    """Text classifiers whose bodies differ from those below: experts, state spaces, other norms, other pooling."""
    out, score = ("classifier.out_proj",), ("score",)
    experts = dict(num_local_experts=4, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, shared_expert_intermediate_size=32)
    latent = dict(n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, n_group=1, topk_group=1, first_k_dense_replace=1,
                  q_lora_rank=16, kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=12, n_shared_experts=1, head_dim=8)
    many = dict(num_key_value_heads=4)
    plain = dict(vocab_size=VOCABULARY, pad_token_id=0, bos_token_id=1, eos_token_id=2)
    gemma = dict(head_dim=12, layer_types=["full_attention"] * 2)

    def last(prefix, config=None, heads=score, **more):
        return text(prefix, heads, config, base=DECODER, **more)

    def next_sentence(prefix, config=None, **more):
        """Whether the second sentence follows the first: two classes, of their own layer."""
        def build():
            model = make(prefix, "ForNextSentencePrediction", {**ENCODER, **(config or {})})
            inputs = [tokens("input_ids", LENGTH, VOCABULARY, pad=0)] + more.get("masked", [mask("attention_mask", LENGTH)])
            return model, inputs, None, dict(classes=2)
        return Spec(prefix + "ForNextSentencePrediction", ("cls.seq_relationship",), build,
                    open_length="masked" not in more)

    def choice(prefix, config=None, base=ENCODER):
        """One logit for each of three endings: a softmax over rows, of which each has its features."""
        def build():
            model = make(prefix, "ForMultipleChoice", {**base, **(config or {})})
            return model, [numbers("input_ids", [3, LENGTH], 3, VOCABULARY - 1, "int64")], None, dict(classes=3, refuse=CHOICES)
        return Spec(prefix + "ForMultipleChoice", ("classifier",), build, open_length=False)

    return [
        last("Arcee"), last("DiffLlama", many), last("Doge", dict(head_dim=12)), last("EuroBert", dict(head_dim=12), ("classifier",)),
        last("Exaone4", dict(sliding_window=8, layer_types=["full_attention"] * 2)),
        last("Gemma2", dict(gemma, query_pre_attn_scalar=12)), last("Gemma3Text", dict(gemma, query_pre_attn_scalar=12)),
        last("Glm", dict(head_dim=12)), last("Glm4", dict(head_dim=12)),
        last("HunYuanDenseV1", dict(head_dim=12)), last("HunYuanMoEV1", dict(experts, head_dim=12, moe_topk=1)),
        last("GptOss", dict(experts, head_dim=12, layer_types=["full_attention"] * 2)),
        last("DeepseekV2", dict(latent, num_key_value_heads=4)), last("DeepseekV3", dict(latent, num_key_value_heads=4)),
        last("Jamba", dict(num_experts=2, num_experts_per_tok=1, attn_layer_period=2, attn_layer_offset=1, use_mamba_kernels=False,
             mamba_d_state=4, mamba_dt_rank=4)),
        last("MiniCPM3", dict(latent, num_key_value_heads=4)),
        last("MiniMax", dict(experts, head_dim=12, layer_types=["full_attention"] * 2)),
        last("Ministral", dict(head_dim=12, sliding_window=8, layer_types=["full_attention"] * 2)),
        last("Ministral3", dict(head_dim=12)), last("Mixtral", experts), last("Nemotron", dict(head_dim=12)),
        last("Olmo"), last("Olmo2"), last("Olmo3", dict(layer_types=["full_attention"] * 2)), last("Persimmon", many),
        last("Phi3"), last("Phimoe", dict(num_local_experts=2, num_experts_per_tok=2)), last("Qwen2Moe", experts), last("Qwen3Moe", dict(experts, head_dim=12)),
        last("Qwen3Next", dict(experts, head_dim=12, layer_types=["full_attention"] * 2)),
        last("Qwen3_5Text", dict(head_dim=12, layer_types=["full_attention"] * 2), name="Qwen35TextForSequenceClassification"),
        last("SeedOss", dict(head_dim=12)), last("SmolLM3"), last("StableLm", dict(partial_rotary_factor=0.5)), last("Starcoder2"),
        last("ModernBertDecoder", dict(layer_types=["full_attention"] * 2, cls_token_id=1, sep_token_id=2), ("classifier",)),
        text("BioGpt", score, config=dict(pad_token_id=0)),
        text("CTRL", ("classifier",), config=dict(n_embd=48, n_layer=2, n_head=4, dff=64, n_positions=64, pad_token_id=0), base=dict(vocab_size=VOCABULARY)),
        text("GPTJ", score, config=dict(n_embd=48, n_layer=2, n_head=4, n_positions=64, rotary_dim=8), base=plain),
        text("GPTBigCode", score, config=dict(n_embd=48, n_layer=2, n_head=4, n_positions=64), base=plain),
        text("Mpt", score, config=dict(d_model=48, n_layers=2, n_heads=4, expansion_ratio=2, max_seq_len=64), base=plain),
        text("XLM", ("sequence_summary.summary",), config=dict(emb_dim=48, n_layers=2, n_heads=4, n_words=VOCABULARY), base={}, pad=2),
        text("Canine", config=dict(num_hash_buckets=64, local_transformer_stride=4, upsampling_kernel_size=3), open_length=False),
        text("Lilt", out, pad=1, config=dict(channel_shrink_ratio=2, max_2d_position_embeddings=64)),
        text("Luke", config=dict(entity_vocab_size=20, entity_emb_size=24, pad_token_id=1), pad=1),
        text("MarkupLM", config=dict(max_depth=4, xpath_unit_hidden_size=4)),
        text("Mra", out, config=dict(block_per_row=1, num_block=1), open_length=False),
        text("NomicBert", config=dict(head_dim=12)),
        text("Nystromformer", out, config=dict(num_landmarks=16, segment_means_seq_len=16, conv_kernel_size=5), open_length=False),
        text("Reformer", out, config=dict(attention_head_size=12, attn_layers=["local", "local"], axial_pos_embds=False, feed_forward_size=64,
             local_attn_chunk_length=8, is_decoder=False, hidden_size=48, num_attention_heads=4, max_position_embeddings=64),
             base=plain, open_length=False),
        text("RoCBert", config=dict(pronunciation_vocab_size=20, shape_vocab_size=20, pronunciation_embed_dim=8, shape_embed_dim=8)),
        text("Tapas", config=dict(type_vocab_sizes=[3, 16, 16, 2, 2, 10, 10])),
        text("XLMRobertaXL", out, pad=1), text("JinaEmbeddingsV3", out, pad=1, config=dict(pad_token_id=1)),
        text("Gte"), text("Perceiver", ("perceiver.decoder.decoder.final_layer",), config=dict(num_latents=8, d_latents=48, d_model=48,
             num_self_attends_per_block=1, num_self_attention_heads=2, num_cross_attention_heads=2), name="PerceiverForSequenceClassification",
             open_length=False),
        text("LayoutLMv3", out, pad=1, config=dict(coordinate_size=8, shape_size=8, visual_embed=False, max_2d_position_embeddings=64)),
        seq2seq("PLBart", BART), seq2seq("Mvp", BART), seq2seq("BigBirdPegasus", dict(BART, attention_type="original_full")),
        seq2seq("MT5", T5), seq2seq("UMT5", T5),
        next_sentence("Bert"), next_sentence("Ernie"), next_sentence("MegatronBert"), next_sentence("FNet", masked=[]),
        next_sentence("MobileBert", dict(intra_bottleneck_size=24, embedding_size=24)),
        choice("Bert"), choice("DistilBert", dict(dim=48, n_layers=2, n_heads=4, hidden_dim=64), base=dict(vocab_size=VOCABULARY,
               max_position_embeddings=64)), choice("Roberta"), choice("Electra", dict(embedding_size=24)), choice("Albert", dict(embedding_size=24)),
    ]


CHOICES = "one logit for each of three texts: no layer gives three logits of one text"


def more_pictures(vit):
    video = {**vit, "num_frames": 4, "image_size": 32}

    def sequence(prefix, config, heads, shape, **more):
        def build():
            return make(prefix, "ForVideoClassification", config), [numbers("pixel_values", shape)], None, dict(more)
        return Spec(prefix + "ForVideoClassification", heads, build)

    def series(prefix, suffix, heads, config, features=None):
        """Sixteen steps of three measurements."""
        def build():
            config_ = dict(context_length=32, num_input_channels=3, patch_length=8, patch_stride=8, num_targets=CLASSES, **config)
            model = make(prefix, suffix, config_)
            model = Series(model, heads)
            return model, [numbers("past_values", [32, 3])], features, {}
        return Spec(prefix + suffix, tuple("wrapped." + h for h in heads), build)

    clip = dict(vision_config=vit)
    return [
        vision("CLIP", clip), vision("MetaClip2", clip, suffix="ForImageClassification"), vision("Siglip", clip),
        vision("DonutSwin", dict(image_size=64, patch_size=4, embed_dim=16, depths=[1, 1], num_heads=[2, 4], window_size=4)),
        vision("Hiera", dict(image_size=[64, 64], embed_dim=16, depths=[1, 1, 1, 1], num_heads=[1, 2, 4, 8], masked_unit_size=[8, 8])),
        vision("TextNet", dict(image_size=[64, 64], stem_out_channels=16, hidden_sizes=[16, 16, 24, 32, 48]), heads=("fc",)),
        vision("Perceiver", dict(num_latents=8, d_latents=48, num_self_attends_per_block=1, num_self_attention_heads=2, image_size=32),
               heads=("perceiver.decoder.decoder.final_layer",), suffix="ForImageClassificationLearned", size=32),
        vision("Perceiver", dict(num_latents=8, d_latents=48, num_self_attends_per_block=1, num_self_attention_heads=3, image_size=32,
               num_cross_attention_heads=1), heads=("perceiver.decoder.decoder.final_layer",), suffix="ForImageClassificationConvProcessing"),
        sequence("VideoMAE", {**video, "tubelet_size": 2}, ("classifier",), (4, 3, 32, 32)),
        sequence("Timesformer", video, ("classifier",), (4, 3, 32, 32)),
        sequence("Vivit", {**video, "tubelet_size": [2, 16, 16], "video_size": [4, 32, 32]}, ("classifier",), (4, 3, 32, 32)),
        series("PatchTST", "ForClassification", ("head.linear",), dict(d_model=16, num_hidden_layers=1, num_attention_heads=2, ffn_dim=24,
               use_cls_token=True)),
        series("PatchTSMixer", "ForTimeSeriesClassification", ("head.projection",), dict(d_model=12, num_layers=1, head_dropout=0.0)),
    ]


class Series(torch.nn.Module):
    """A classifier of time series, whose logits have other names than in the other models."""

    def __init__(self, model, heads):
        super().__init__()
        self.wrapped = model

    def forward(self, past_values, return_dict=True):
        y = self.wrapped(past_values=past_values, return_dict=True)
        return t.modeling_outputs.SequenceClassifierOutput(logits=y[0])


def more_sounds(wav):
    small = {**wav, "xvector_output_dim": 20, "tdnn_dim": [24, 24, 32], "tdnn_kernel": [3, 2, 1], "tdnn_dilation": [1, 2, 1]}
    formants = dict(hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, feature_projection_input_dim=20,
                    classifier_proj_size=32, conv_depthwise_kernel_size=5, mask_time_prob=0.0, mask_feature_prob=0.0, apply_spec_augment=False)
    frames = "one label per frame, not per example"

    def features(suffix, heads, **more):
        def build():
            return make("Wav2Vec2Bert", suffix, {**formants, **{k: small[k] for k in ("xvector_output_dim", "tdnn_dim", "tdnn_kernel",
                        "tdnn_dilation")}}), [numbers("input_features", [32, 20])], None, dict(more)
        return Spec("Wav2Vec2Bert" + suffix, heads, build)

    def per_frame(prefix, config):
        spec = sound(prefix, config, suffix="ForAudioFrameClassification")

        def build():
            model, inputs, d, more = spec.build()
            return model, inputs, d, dict(more, refuse=frames)
        return Spec(spec.name, spec.heads, build)

    conformer = {**wav, "conv_depthwise_kernel_size": 5}
    sew = {**wav, "squeeze_factor": 2}
    xvector = dict(suffix="ForXVector", classes=20)  # the classifier is as wide as the vector that it reads
    return [
        sound("Wav2Vec2Conformer", conformer), sound("UniSpeechSat", wav), sound("SEW", sew),
        sound("SEWD", {**sew, "position_buckets": 16, "max_position_embeddings": 64, "share_att_key": True}),
        features("ForSequenceClassification", ("classifier",)), features("ForXVector", ("classifier",), classes=20),
        sound("Wav2Vec2", small, **xvector), sound("WavLM", {**small, "num_buckets": 32, "max_bucket_distance": 40}, **xvector),
        sound("UniSpeechSat", small, **xvector), sound("Wav2Vec2Conformer", {**small, **conformer}, **xvector),
        per_frame("Wav2Vec2", wav), per_frame("UniSpeechSat", wav), per_frame("WavLM", {**wav, "num_buckets": 32, "max_bucket_distance": 40}),
    ]


BART = dict(vocab_size=VOCABULARY, d_model=48, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
            decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, max_position_embeddings=64,
            pad_token_id=1, bos_token_id=0, eos_token_id=2, decoder_start_token_id=2)
T5 = dict(vocab_size=VOCABULARY, d_model=48, d_kv=12, d_ff=64, num_layers=2, num_decoder_layers=2, num_heads=4,
          pad_token_id=0, eos_token_id=2, decoder_start_token_id=0)


def cases():
    out = ("classifier.out_proj",)
    score = ("score",)
    half = dict(embedding_size=24)
    vit = dict(hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=64, patch_size=16)
    wav = dict(hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, conv_dim=(16, 16), conv_stride=(5, 4),
               conv_kernel=(10, 8), num_feat_extract_layers=2, classifier_proj_size=32, num_conv_pos_embeddings=16,
               num_conv_pos_embedding_groups=4, mask_time_prob=0.0, mask_feature_prob=0.0, apply_spec_augment=False)
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
        vision("ViT", vit, both=True),
        vision("DeiT", vit, both=True),
        vision("DeiT", vit, heads=("cls_classifier", "distillation_classifier"), suffix="ForImageClassificationWithTeacher"),
        vision("Beit", vit),
        vision("Data2VecVision", vit),
        vision("ViTMSN", vit),
        vision("Dinov2", {**vit, "mlp_ratio": 2}),
        vision("Dinov2WithRegisters", {**vit, "mlp_ratio": 2}),
        vision("IJepa", vit),
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
        *more_texts(), *more_pictures(vit), *more_sounds(wav),
        # sound
        sound("Wav2Vec2", wav), sound("Hubert", wav), sound("WavLM", {**wav, "num_buckets": 32, "max_bucket_distance": 40}),
        sound("UniSpeech", wav), sound("Data2VecAudio", {**wav, "num_conv_pos_embeddings": 2}),
        spectrogram(), whisper(),
    ]
