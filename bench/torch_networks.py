"""torchvision's smallest architectures and small configurations of transformers' models, with weights drawn from a seed.

A network is a function that gives (module in evaluation mode, inputs by position). Nothing is downloaded: configurations are written here,
and sizes of torchvision's are known from the package.
"""

import warnings

VISION_COUNT = 40
LEAST_SIDES = {"inception_v3": 80}  # pixels below which a network has nothing left to pool


def vision_names():
    """The smallest classifiers, by their number of parameters."""
    from torchvision import models

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        counted = [(models.get_model_weights(name).DEFAULT.meta["num_params"], name) for name in models.list_models(module=models)]
    return [name for _, name in sorted(counted)[:VISION_COUNT]]


def vision(name, side=224):
    import torch
    from torchvision import models

    settings = {"googlenet": {"init_weights": False, "aux_logits": False}, "inception_v3": {"init_weights": False}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net = models.get_model(name, weights=None, **settings.get(name, {}))
    for module in net.modules():  # running statistics as of a trained network: no layer is the identity
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    side = max(side, LEAST_SIDES.get(name, 0))
    return net.eval(), (torch.randn(1, 3, side, side),)


# Sizes by the names that configurations have for them.
_SIZES = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 100,
          "max_position_embeddings": 64, "num_key_value_heads": 2, "pad_token_id": 0}  # fmt: skip

# Model class: what its configuration has beyond or instead of those.
_TEXT = {
    "AlbertModel": {"embedding_size": 32},
    "BertModel": {},
    "RobertaModel": {},
    "ElectraModel": {"embedding_size": 32},
    "DistilBertModel": {"dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 128},
    "MPNetModel": {},
    "DebertaV2Model": {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
    "GPT2LMHeadModel": {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64},
    "GPTNeoXForCausalLM": {},
    "GPTJForCausalLM": {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64, "rotary_dim": 8},
    "OPTForCausalLM": {"ffn_dim": 128, "word_embed_proj_dim": 64},
    "BloomForCausalLM": {"n_layer": 2, "n_head": 4},
    "LlamaForCausalLM": {},
    "MistralForCausalLM": {},
    "Qwen2ForCausalLM": {},
    "Qwen3ForCausalLM": {"head_dim": 16},
    "GemmaForCausalLM": {"head_dim": 16},
    "PhiForCausalLM": {},
}
_SEQUENCES = {
    "T5Model": {"d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4},
    "BartModel": {"d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
                  "encoder_ffn_dim": 128, "decoder_ffn_dim": 128},
}  # fmt: skip
_PICTURES = {
    "ViTModel": {"image_size": 32, "patch_size": 8},
    "DeiTModel": {"image_size": 32, "patch_size": 8},
    "Dinov2Model": {"image_size": 32, "patch_size": 8},
    "SwinModel": {"hidden_size": 32, "num_attention_heads": [2, 4], "num_hidden_layers": 2, "image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4},
    "ConvNextModel": {"num_hidden_layers": 4, "hidden_sizes": [16, 32, 48, 64], "depths": [1, 1, 2, 1]},
    "SegformerModel": {"hidden_sizes": [16, 32, 48, 64], "depths": [1, 1, 1, 1], "num_attention_heads": [1, 2, 3, 4]},
    "MobileViTModel": {"image_size": 64, "hidden_sizes": [32, 48, 64], "neck_hidden_sizes": [8, 16, 24, 32, 40, 48, 64]},
}
_SOUNDS = {
    "Wav2Vec2Model": {"conv_dim": [32, 32, 32], "conv_stride": [5, 2, 2], "conv_kernel": [10, 3, 3], "num_feat_extract_layers": 3,
                      "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4},
    "WhisperModel": {"d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
                     "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "num_mel_bins": 16, "max_source_positions": 32,
                     "max_target_positions": 32, "decoder_start_token_id": 1, "bos_token_id": 1, "eos_token_id": 2},
}  # fmt: skip


def language_names():
    return [*_TEXT, *_SEQUENCES, *_PICTURES, *_SOUNDS]


def _of_transformers(name, own):
    import transformers

    kind = getattr(transformers, name)
    known = kind.config_class()
    given = {key: value for key, value in _SIZES.items() if hasattr(known, key) and key not in own}
    net = kind(kind.config_class(**given | own)).eval()
    if hasattr(net.config, "use_cache"):
        net.config.use_cache = False
    return net


def language(name):
    import torch

    class Called(torch.nn.Module):
        """By position, with tensors for results, which both doors and eager take alike."""

        def __init__(self, net, names):
            super().__init__()
            self.net, self.names = net, names

        def forward(self, *inputs):
            given = self.net(**dict(zip(self.names, inputs)))
            return tuple(value for value in given.to_tuple() if isinstance(value, torch.Tensor))

    tokens = torch.randint(3, 100, (2, 12))
    if name in _TEXT:
        return Called(_of_transformers(name, _TEXT[name]), ["input_ids", "attention_mask"]), (tokens, torch.ones_like(tokens))
    if name in _SEQUENCES:
        return Called(_of_transformers(name, _SEQUENCES[name]), ["input_ids", "decoder_input_ids"]), (tokens, tokens[:, :8].clone())
    if name in _PICTURES:
        net = _of_transformers(name, _PICTURES[name])
        side = getattr(net.config, "image_size", 64)
        return Called(net, ["pixel_values"]), (torch.randn(1, 3, side, side),)
    net = _of_transformers(name, _SOUNDS[name])
    if name == "WhisperModel":
        return Called(net, ["input_features", "decoder_input_ids"]), (torch.randn(1, 16, 64), tokens[:1, :8].clone())
    return Called(net, ["input_values"]), (torch.randn(1, 1600),)


def network(name, side=224):
    """(module in evaluation mode, inputs) of any name that there is; the same at each call."""
    import torch

    torch.manual_seed(0)
    return language(name) if name in language_names() else vision(name, side)
