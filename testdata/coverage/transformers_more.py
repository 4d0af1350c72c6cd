"""More classifiers of transformers: other texts, experts, pictures, videos, time series and sounds."""

import torch
import transformers
import transformers_cases

from common import image, mask, numbers, tokens
from transformers_cases import (
    BART,
    CLASSES,
    DECODER,
    ENCODER,
    LENGTH,
    T5,
    TAGS,
    VIT,
    VOCABULARY,
    WAV,
    Spec,
    make,
    seq2seq,
    sound,
    text,
    vision,
)
from torch_steps import RESIZED


def texts():
    """Text classifiers whose bodies differ from those below: experts, state spaces, other norms, other pooling."""
    out, score = ("classifier.out_proj",), ("score",)
    experts = dict(
        num_local_experts=4,
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=32,
        shared_expert_intermediate_size=32,
    )
    latent = dict(
        n_routed_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=32,
        n_group=1,
        topk_group=1,
        first_k_dense_replace=1,
        q_lora_rank=16,
        kv_lora_rank=16,
        qk_rope_head_dim=8,
        qk_nope_head_dim=8,
        v_head_dim=12,
        n_shared_experts=1,
        head_dim=8,
    )
    many = dict(num_key_value_heads=4)
    plain = dict(vocab_size=VOCABULARY, pad_token_id=0, bos_token_id=1, eos_token_id=2)
    gemma = dict(head_dim=12, layer_types=["full_attention"] * 2)

    def last(prefix, config=None, heads=score, **more):
        return text(prefix, heads, config, base=DECODER, **more)

    def next_sentence(prefix, config=None, **more):
        """Whether the second sentence follows the first: two classes, of their own layer."""

        def build():
            model = make(prefix, "ForNextSentencePrediction", {**ENCODER, **(config or {})})
            inputs = [tokens("input_ids", LENGTH, VOCABULARY, pad=0)] + more.get(
                "masked", [mask("attention_mask", LENGTH)]
            )
            return model, inputs, None, dict(classes=2)

        return Spec(
            prefix + "ForNextSentencePrediction", ("cls.seq_relationship",), build, open_length="masked" not in more
        )

    def choice(prefix, config=None, base=ENCODER):
        """One logit for each of three endings: a softmax over rows, of which each has its features."""

        def build():
            model = make(prefix, "ForMultipleChoice", {**base, **(config or {})})
            return (
                model,
                [numbers("input_ids", [3, LENGTH], 3, VOCABULARY - 1, "int64")],
                None,
                dict(classes=3, refuse=CHOICES),
            )

        return Spec(prefix + "ForMultipleChoice", ("classifier",), build, open_length=False)

    return [
        last("Arcee"),
        last("DiffLlama", many),
        last("Doge", dict(head_dim=12)),
        last("EuroBert", dict(head_dim=12), ("classifier",)),
        last("Exaone4", dict(sliding_window=8, layer_types=["full_attention"] * 2)),
        last("Gemma2", dict(gemma, query_pre_attn_scalar=12)),
        last("Gemma3Text", dict(gemma, query_pre_attn_scalar=12)),
        last("Glm", dict(head_dim=12)),
        last("Glm4", dict(head_dim=12)),
        last("HunYuanDenseV1", dict(head_dim=12)),
        last("HunYuanMoEV1", dict(experts, head_dim=12, moe_topk=1)),
        last("GptOss", dict(experts, head_dim=12, layer_types=["full_attention"] * 2)),
        last("DeepseekV2", dict(latent, num_key_value_heads=4)),
        last("DeepseekV3", dict(latent, num_key_value_heads=4)),
        last(
            "Jamba",
            dict(
                num_experts=2,
                num_experts_per_tok=1,
                attn_layer_period=2,
                attn_layer_offset=1,
                use_mamba_kernels=False,
                mamba_d_state=4,
                mamba_dt_rank=4,
            ),
        ),
        last("MiniCPM3", dict(latent, num_key_value_heads=4)),
        last("MiniMax", dict(experts, head_dim=12, layer_types=["full_attention"] * 2)),
        last("Ministral", dict(head_dim=12, sliding_window=8, layer_types=["full_attention"] * 2)),
        last("Ministral3", dict(head_dim=12)),
        last("Mixtral", experts),
        last("Nemotron", dict(head_dim=12)),
        last("Olmo"),
        last("Olmo2"),
        last("Olmo3", dict(layer_types=["full_attention"] * 2)),
        last("Persimmon", many),
        last("Phi3"),
        last("Phimoe", dict(num_local_experts=2, num_experts_per_tok=2)),
        last("Qwen2Moe", experts),
        last("Qwen3Moe", dict(experts, head_dim=12)),
        last("Qwen3Next", dict(experts, head_dim=12, layer_types=["full_attention"] * 2)),
        last(
            "Qwen3_5Text",
            dict(head_dim=12, layer_types=["full_attention"] * 2),
            name="Qwen35TextForSequenceClassification",
        ),
        last("SeedOss", dict(head_dim=12)),
        last("SmolLM3"),
        last("StableLm", dict(partial_rotary_factor=0.5)),
        last("Starcoder2"),
        last(
            "ModernBertDecoder",
            dict(layer_types=["full_attention"] * 2, cls_token_id=1, sep_token_id=2),
            ("classifier",),
        ),
        text("BioGpt", score, config=dict(pad_token_id=0)),
        text(
            "CTRL",
            ("classifier",),
            config=dict(n_embd=48, n_layer=2, n_head=4, dff=64, n_positions=64, pad_token_id=0),
            base=dict(vocab_size=VOCABULARY),
        ),
        text("GPTJ", score, config=dict(n_embd=48, n_layer=2, n_head=4, n_positions=64, rotary_dim=8), base=plain),
        text("GPTBigCode", score, config=dict(n_embd=48, n_layer=2, n_head=4, n_positions=64), base=plain),
        text(
            "Mpt", score, config=dict(d_model=48, n_layers=2, n_heads=4, expansion_ratio=2, max_seq_len=64), base=plain
        ),
        text(
            "XLM",
            ("sequence_summary.summary",),
            config=dict(emb_dim=48, n_layers=2, n_heads=4, n_words=VOCABULARY),
            base={},
            pad=2,
        ),
        text(
            "Canine",
            config=dict(num_hash_buckets=64, local_transformer_stride=4, upsampling_kernel_size=3),
            open_length=False,
        ),
        text("Lilt", out, pad=1, config=dict(channel_shrink_ratio=2, max_2d_position_embeddings=64)),
        text("Luke", config=dict(entity_vocab_size=20, entity_emb_size=24, pad_token_id=1), pad=1),
        text("MarkupLM", config=dict(max_depth=4, xpath_unit_hidden_size=4)),
        text("Mra", out, config=dict(block_per_row=1, num_block=1), open_length=False),
        text("NomicBert", config=dict(head_dim=12)),
        text(
            "Nystromformer",
            out,
            config=dict(num_landmarks=16, segment_means_seq_len=16, conv_kernel_size=5),
            open_length=False,
        ),
        text(
            "Reformer",
            out,
            config=dict(
                attention_head_size=12,
                attn_layers=["local", "local"],
                axial_pos_embds=False,
                feed_forward_size=64,
                local_attn_chunk_length=8,
                is_decoder=False,
                hidden_size=48,
                num_attention_heads=4,
                max_position_embeddings=64,
            ),
            base=plain,
            open_length=False,
        ),
        text(
            "RoCBert",
            config=dict(pronunciation_vocab_size=20, shape_vocab_size=20, pronunciation_embed_dim=8, shape_embed_dim=8),
        ),
        text("Tapas", config=dict(type_vocab_sizes=[3, 16, 16, 2, 2, 10, 10])),
        text("XLMRobertaXL", out, pad=1),
        text("JinaEmbeddingsV3", out, pad=1, config=dict(pad_token_id=1)),
        text("Gte"),
        text(
            "Perceiver",
            ("perceiver.decoder.decoder.final_layer",),
            config=dict(
                num_latents=8,
                d_latents=48,
                d_model=48,
                num_self_attends_per_block=1,
                num_self_attention_heads=2,
                num_cross_attention_heads=2,
            ),
            name="PerceiverForSequenceClassification",
            open_length=False,
        ),
        text(
            "LayoutLMv3",
            out,
            pad=1,
            config=dict(coordinate_size=8, shape_size=8, visual_embed=False, max_2d_position_embeddings=64),
        ),
        seq2seq("PLBart", BART),
        seq2seq("Mvp", BART),
        seq2seq("BigBirdPegasus", dict(BART, attention_type="original_full")),
        seq2seq("MT5", T5),
        seq2seq("UMT5", T5),
        next_sentence("Bert"),
        next_sentence("Ernie"),
        next_sentence("MegatronBert"),
        next_sentence("FNet", masked=[]),
        next_sentence("MobileBert", dict(intra_bottleneck_size=24, embedding_size=24)),
        choice("Bert"),
        choice(
            "DistilBert",
            dict(dim=48, n_layers=2, n_heads=4, hidden_dim=64),
            base=dict(vocab_size=VOCABULARY, max_position_embeddings=64),
        ),
        choice("Roberta"),
        choice("Electra", dict(embedding_size=24)),
        choice("Albert", dict(embedding_size=24)),
    ]


CHOICES = "one logit for each of three texts: no layer gives three logits of one text"


def pictures():
    video = {**VIT, "num_frames": 4, "image_size": 32}

    def sequence(prefix, config, heads, shape, **more):
        def build():
            return make(prefix, "ForVideoClassification", config), [numbers("pixel_values", shape)], None, dict(more)

        return Spec(prefix + "ForVideoClassification", heads, build)

    def series(prefix, suffix, heads, config, features=None):
        """Sixteen steps of three measurements."""

        def build():
            config_ = dict(
                context_length=32, num_input_channels=3, patch_length=8, patch_stride=8, num_targets=CLASSES, **config
            )
            model = make(prefix, suffix, config_)
            model = Series(model, heads)
            return model, [numbers("past_values", [32, 3])], features, {}

        return Spec(prefix + suffix, tuple("wrapped." + h for h in heads), build)

    clip = dict(vision_config=VIT)
    return [
        vision("CLIP", clip),
        vision("MetaClip2", clip, suffix="ForImageClassification"),
        vision("Siglip", clip),
        vision(
            "DonutSwin", dict(image_size=64, patch_size=4, embed_dim=16, depths=[1, 1], num_heads=[2, 4], window_size=4)
        ),
        vision(
            "Hiera",
            dict(
                image_size=[64, 64], embed_dim=16, depths=[1, 1, 1, 1], num_heads=[1, 2, 4, 8], masked_unit_size=[8, 8]
            ),
        ),
        vision(
            "TextNet", dict(image_size=[64, 64], stem_out_channels=16, hidden_sizes=[16, 16, 24, 32, 48]), heads=("fc",)
        ),
        vision(
            "Perceiver",
            dict(num_latents=8, d_latents=48, num_self_attends_per_block=1, num_self_attention_heads=2, image_size=32),
            heads=("perceiver.decoder.decoder.final_layer",),
            suffix="ForImageClassificationLearned",
            size=32,
        ),
        vision(
            "Perceiver",
            dict(
                num_latents=8,
                d_latents=48,
                num_self_attends_per_block=1,
                num_self_attention_heads=3,
                image_size=32,
                num_cross_attention_heads=1,
            ),
            heads=("perceiver.decoder.decoder.final_layer",),
            suffix="ForImageClassificationConvProcessing",
        ),
        sequence("VideoMAE", {**video, "tubelet_size": 2}, ("classifier",), (4, 3, 32, 32)),
        sequence("Timesformer", video, ("classifier",), (4, 3, 32, 32)),
        sequence(
            "Vivit", {**video, "tubelet_size": [2, 16, 16], "video_size": [4, 32, 32]}, ("classifier",), (4, 3, 32, 32)
        ),
        series(
            "PatchTST",
            "ForClassification",
            ("head.linear",),
            dict(d_model=16, num_hidden_layers=1, num_attention_heads=2, ffn_dim=24, use_cls_token=True),
        ),
        series(
            "PatchTSMixer",
            "ForTimeSeriesClassification",
            ("head.projection",),
            dict(d_model=12, num_layers=1, head_dropout=0.0),
        ),
    ]


class Series(torch.nn.Module):
    """A classifier of time series, whose logits have other names than in the other models."""

    def __init__(self, model, heads):
        super().__init__()
        self.wrapped = model

    def forward(self, past_values, return_dict=True):
        y = self.wrapped(past_values=past_values, return_dict=True)
        return transformers.modeling_outputs.SequenceClassifierOutput(logits=y[0])


def sounds():
    small = {
        **WAV,
        "xvector_output_dim": 20,
        "tdnn_dim": [24, 24, 32],
        "tdnn_kernel": [3, 2, 1],
        "tdnn_dilation": [1, 2, 1],
        "initializer_range": 0.5,
    }  # else the statistics over time hardly depend on the input
    formants = dict(
        hidden_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        feature_projection_input_dim=20,
        classifier_proj_size=32,
        conv_depthwise_kernel_size=5,
        mask_time_prob=0.0,
        mask_feature_prob=0.0,
        apply_spec_augment=False,
    )
    def features(suffix, heads, **more):
        def build():
            return (
                make(
                    "Wav2Vec2Bert",
                    suffix,
                    {
                        **formants,
                        **{
                            k: small[k]
                            for k in (
                                "xvector_output_dim",
                                "tdnn_dim",
                                "tdnn_kernel",
                                "tdnn_dilation",
                                "initializer_range",
                            )
                        },
                    },
                ),
                [numbers("input_features", [32, 20])],
                None,
                dict(more),
            )

        return Spec("Wav2Vec2Bert" + suffix, heads, build)

    def per_frame(prefix, config):
        return sound(prefix, config, suffix="ForAudioFrameClassification", steps=-1)

    conformer = {**WAV, "conv_depthwise_kernel_size": 5}
    sew = {**WAV, "squeeze_factor": 2}
    xvector = dict(suffix="ForXVector", classes=20)  # the classifier is as wide as the vector that it reads
    return [
        sound("Wav2Vec2Conformer", conformer),
        sound("UniSpeechSat", WAV),
        sound("SEW", sew),
        sound("SEWD", {**sew, "position_buckets": 16, "max_position_embeddings": 64, "share_att_key": True}),
        features("ForSequenceClassification", ("classifier",)),
        features("ForXVector", ("classifier",), classes=20),
        sound("Wav2Vec2", small, **xvector),
        sound("WavLM", {**small, "num_buckets": 32, "max_bucket_distance": 40}, **xvector),
        sound("UniSpeechSat", small, **xvector),
        sound("Wav2Vec2Conformer", {**small, **conformer}, **xvector),
        per_frame("Wav2Vec2", WAV),
        per_frame("UniSpeechSat", WAV),
        per_frame("WavLM", {**WAV, "num_buckets": 32, "max_bucket_distance": 40}),
        per_frame("Wav2Vec2Conformer", conformer),
        per_frame("Data2VecAudio", {**WAV, "num_conv_pos_embeddings": 2}),
        features("ForAudioFrameClassification", ("classifier",), steps=-1),
    ]


def symbols_of_sounds():
    """A symbol for each frame."""
    conformer = {**WAV, "conv_depthwise_kernel_size": 5}
    sew = {**WAV, "squeeze_factor": 2}

    def each(prefix, config):
        return sound(
            prefix, {**config, "vocab_size": CLASSES, "pad_token_id": 0}, ("lm_head",), suffix="ForCTC", steps=-1
        )

    return [
        each("Wav2Vec2", WAV),
        each("Hubert", WAV),
        each("WavLM", {**WAV, "num_buckets": 32, "max_bucket_distance": 40}),
        each("UniSpeech", WAV),
        each("UniSpeechSat", WAV),
        each("Data2VecAudio", {**WAV, "num_conv_pos_embeddings": 2}),
        each("Wav2Vec2Conformer", conformer),
        each("SEW", sew),
        each("SEWD", {**sew, "position_buckets": 16, "max_position_embeddings": 64, "share_att_key": True}),
    ]


def tokens_of_texts():
    """A label for each token: of the texts that have such a model too, and of those that have no other."""
    alike = (spec.again() for spec in transformers_cases.cases() + texts() if spec.again)

    def each(prefix, heads=("score",), config=None, base=DECODER, **more):
        return text(prefix, heads, config, base=base, suffix=TAGS, steps=-1, **more)

    def boxed():
        """Tokens with the corners of their boxes on a page."""

        def build():
            model = make("Bros", TAGS, {**ENCODER, "hidden_size": 64})
            inputs = [tokens("input_ids", LENGTH, VOCABULARY, pad=0), numbers("bbox", [LENGTH, 8], 0, 1)]
            return model, [*inputs, mask("attention_mask", LENGTH)], None, dict(steps=-1)

        return Spec("Bros" + TAGS, ("classifier",), build, open_length=False)

    encoder = ("classifier",)
    return [
        *filter(None, alike),
        each("Apertus", config=dict(head_dim=12)),
        each("OpenAIPrivacyFilter", config=dict(head_dim=12, num_local_experts=4, num_experts_per_tok=2)),
        each("T5", encoder, T5, {}),
        each("MT5", encoder, T5, {}),
        each("UMT5", encoder, T5, {}),
        each("Ultrabert", encoder, base=ENCODER),
        boxed(),
    ]


def masks_of_pictures():
    """A label for each pixel, in the resolution of the logits."""
    four = {**VIT, "num_hidden_layers": 4}
    layers = dict(four, out_indices=[1, 2, 3, 4], pool_scales=[1, 2], use_auxiliary_head=False)
    segformer = dict(
        num_encoder_blocks=2,
        depths=[1, 1],
        sr_ratios=[2, 1],
        hidden_sizes=[16, 32],
        patch_sizes=[7, 3],
        strides=[4, 2],
        num_attention_heads=[1, 2],
        mlp_ratios=[2, 2],
        decoder_hidden_size=48,
    )
    backbone = dict(embed_dim=16, depths=[1, 1, 1, 1], num_heads=[1, 2, 2, 4], window_size=4)
    resized = dict(refuse=RESIZED)

    def pixels(prefix, config, head, **more):
        return vision(prefix, config, (head,), suffix="ForSemanticSegmentation", steps=1, **more)

    mobile = dict(hidden_sizes=[24, 32, 48], neck_hidden_sizes=[8, 16, 24, 24, 32, 48, 64], image_size=64)
    return [
        pixels("Segformer", segformer, "decode_head.classifier", both=True),
        pixels("MobileNetV2", dict(depth_multiplier=0.35), "segmentation_head.classifier.convolution"),
        pixels("MobileViT", mobile, "segmentation_head.classifier.convolution"),
        pixels("MobileViTV2", dict(image_size=64), "segmentation_head.classifier.convolution"),
        pixels("Beit", layers, "decode_head.classifier"),
        pixels("Data2VecVision", layers, "decode_head.classifier"),
        pixels(
            "DPT",
            {
                **four,
                "backbone_out_indices": [0, 1, 2, 3],
                "neck_hidden_sizes": [8, 16, 24, 32],
                "fusion_hidden_size": 24,
                "is_hybrid": False,
                "use_auxiliary_head": False,
            },
            "head.head.4",
            **resized,
        ),
        pixels(
            "UperNet",
            dict(
                backbone_config=transformers.SwinConfig(
                    image_size=64, patch_size=4, out_features=["stage1", "stage2", "stage3", "stage4"], **backbone
                ),
                hidden_size=24,
                use_auxiliary_head=False,
            ),
            "decode_head.classifier",
            **resized,
        ),
    ]


def cases():
    return texts() + pictures() + sounds() + symbols_of_sounds() + tokens_of_texts() + masks_of_pictures()
