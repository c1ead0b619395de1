"""Attention of several heads, and the layers of a Transformer: Vaswani and others, "Attention is all you need", NeurIPS 2017."""

import copy
import math

from .. import _eager
from .. import numpy as tnp
from ..numpy import creation
from . import functional, init
from .containers import ModuleList
from .layers import Dropout, LayerNorm, Linear, empty
from .module import Module

__all__ = [
    "MultiheadAttention", "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder", "TransformerEncoderLayer",
]  # fmt: skip


def _added(mask, dtype):
    """What is added to scores: minus infinity where a boolean mask is true."""
    if mask is None or mask.dtype != tnp.bool:
        return mask
    return tnp.where(mask, _eager.full([], -math.inf, dtype), _eager.full([], 0, dtype))


class MultiheadAttention(Module):
    """Tensors are [time, batch, features], or [batch, time, features] with batch_first. Masks are true where nothing is looked at."""

    def __init__(self, embed_dim, num_heads, dropout=0.0, bias=True, kdim=None, vdim=None, batch_first=False, dtype=None):
        super().__init__()
        if embed_dim % num_heads:
            raise ValueError(f"{embed_dim} features are not {num_heads} heads of one size")
        self.embed_dim, self.num_heads, self.dropout, self.batch_first = embed_dim, num_heads, dropout, batch_first
        sizes = embed_dim, kdim or embed_dim, vdim or embed_dim
        self._is_joint = sizes[1] == sizes[2] == embed_dim
        names = ["in_proj_weight"] if self._is_joint else ["q_proj_weight", "k_proj_weight", "v_proj_weight"]
        for name, size in zip(names, sizes):
            self.register_parameter(name, init.xavier_uniform_(empty(embed_dim * (3 if self._is_joint else 1), size, dtype=dtype)))
        self.register_parameter("in_proj_bias", empty(3 * embed_dim, dtype=dtype) if bias else None)
        self.out_proj = Linear(embed_dim, embed_dim, bias, dtype)
        if bias:
            init.zeros_(self.out_proj.bias)

    def _projected(self, tensors):
        size = self.embed_dim
        for i, x in enumerate(tensors):
            if self._is_joint:
                weight = self.in_proj_weight[i * size : (i + 1) * size]
            else:
                weight = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)[i]
            yield functional.linear(x, weight, None if self.in_proj_bias is None else self.in_proj_bias[i * size : (i + 1) * size])

    def _heads(self, x):
        return tnp.permute_dims(tnp.reshape(x, (x.shape[0], x.shape[1], self.num_heads, -1)), (0, 2, 1, 3))

    def forward(self, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None, average_attn_weights=True, is_causal=False):
        is_single = query.ndim == 2
        tensors = [x[None] if is_single else x if self.batch_first else tnp.moveaxis(x, 0, 1) for x in (query, key, value)]
        q, k, v = (self._heads(x) for x in self._projected(tensors))
        scores = (q * (1 / math.sqrt(q.shape[-1]))) @ tnp.matrix_transpose(k)
        if is_causal and attn_mask is None:
            attn_mask = ~tnp.tril(creation.ones(scores.shape[-2:], dtype=tnp.bool))
        mask = _added(attn_mask, scores.dtype)
        if mask is not None:
            scores = scores + (tnp.reshape(mask, scores.shape) if mask.ndim == 3 else mask)
        if key_padding_mask is not None:
            padding = _added(key_padding_mask, scores.dtype)
            scores = scores + (padding[None] if is_single else padding)[:, None, None, :]
        weights = functional.softmax(scores)
        mixed = functional.dropout(weights, self.dropout, self.training) @ v
        mixed = tnp.permute_dims(mixed, (0, 2, 1, 3))
        result = self.out_proj(tnp.reshape(mixed, (mixed.shape[0], mixed.shape[1], self.embed_dim)))
        result = result[0] if is_single else result if self.batch_first else tnp.moveaxis(result, 0, 1)
        if not need_weights:
            return result, None
        weights = tnp.mean(weights, axis=1) if average_attn_weights else weights
        return result, weights[0] if is_single else weights


def _activation(given):
    return {"relu": functional.relu, "gelu": functional.gelu}[given] if isinstance(given, str) else given


class _Layer(Module):
    """What layers of encoder and decoder have in common: attention to the sequence itself, and a network of two layers for each place."""

    def _build(self, d_model, nhead, dim_feedforward, dropout, activation, eps, batch_first, norm_first, bias, dtype, norms):
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, dtype=dtype)
        if norms == 3:
            self.multihead_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, dtype=dtype)
        self.linear1 = Linear(d_model, dim_feedforward, bias, dtype)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, dtype)
        for i in range(1, norms + 1):
            self.add_module(f"norm{i}", LayerNorm(d_model, eps, bias=bias, dtype=dtype))
            self.add_module(f"dropout{i}", Dropout(dropout))
        self.norm_first, self.activation = norm_first, _activation(activation)

    def _around(self, x, number, function):
        norm, dropout = getattr(self, f"norm{number}"), getattr(self, f"dropout{number}")
        return x + dropout(function(norm(x))) if self.norm_first else norm(x + dropout(function(x)))

    def _network(self, x):
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


class TransformerEncoderLayer(_Layer):
    def __init__(self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation="relu", layer_norm_eps=1e-5, batch_first=False,
                 norm_first=False, bias=True, dtype=None):  # fmt: skip
        super().__init__()
        self._build(d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias, dtype, 2)

    def forward(self, src, src_mask=None, src_key_padding_mask=None, is_causal=False):
        def attend(x):
            return self.self_attn(x, x, x, src_key_padding_mask, False, src_mask, is_causal=is_causal)[0]

        return self._around(self._around(src, 1, attend), 2, self._network)


class TransformerDecoderLayer(_Layer):
    def __init__(self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation="relu", layer_norm_eps=1e-5, batch_first=False,
                 norm_first=False, bias=True, dtype=None):  # fmt: skip
        super().__init__()
        self._build(d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias, dtype, 3)

    def forward(self, tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None, memory_key_padding_mask=None, tgt_is_causal=False):
        def attend(x):
            return self.self_attn(x, x, x, tgt_key_padding_mask, False, tgt_mask, is_causal=tgt_is_causal)[0]

        def look(x):
            return self.multihead_attn(x, memory, memory, memory_key_padding_mask, False, memory_mask)[0]

        return self._around(self._around(self._around(tgt, 1, attend), 2, look), 3, self._network)


class _Stack(Module):
    """Layers one after the other, each made by `make`, and a normalisation behind them."""

    def __init__(self, make, num_layers, norm=None):
        super().__init__()
        self.layers = ModuleList(make() for _ in range(num_layers))
        self.add_module("norm", norm)

    def _through(self, x, *others, **named):
        for layer in self.layers:
            x = layer(x, *others, **named)
        return x if self.norm is None else self.norm(x)


def _copies(layer):
    """A function that gives the layer, and then copies of it."""
    given = []

    def make():
        given.append(layer if not given else copy.deepcopy(layer))
        return given[-1]

    return make


class TransformerEncoder(_Stack):
    def __init__(self, encoder_layer, num_layers, norm=None):
        super().__init__(_copies(encoder_layer), num_layers, norm)

    def forward(self, src, mask=None, src_key_padding_mask=None, is_causal=False):
        return self._through(src, src_mask=mask, src_key_padding_mask=src_key_padding_mask, is_causal=is_causal)


class TransformerDecoder(_Stack):
    def __init__(self, decoder_layer, num_layers, norm=None):
        super().__init__(_copies(decoder_layer), num_layers, norm)

    def forward(self, tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None, memory_key_padding_mask=None, tgt_is_causal=False):
        return self._through(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask, tgt_is_causal)


class Transformer(Module):
    def __init__(self, d_model=512, nhead=8, num_encoder_layers=6, num_decoder_layers=6, dim_feedforward=2048, dropout=0.1, activation="relu",
                 layer_norm_eps=1e-5, batch_first=False, norm_first=False, bias=True, dtype=None):  # fmt: skip
        super().__init__()
        settings = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias, dtype)
        norms = [LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype) for _ in range(2)]
        self.encoder = TransformerEncoder(TransformerEncoderLayer(*settings), num_encoder_layers, norms[0])
        self.decoder = TransformerDecoder(TransformerDecoderLayer(*settings), num_decoder_layers, norms[1])
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)

    def forward(self, src, tgt, src_mask=None, tgt_mask=None, memory_mask=None, src_key_padding_mask=None, tgt_key_padding_mask=None,
                memory_key_padding_mask=None):  # fmt: skip
        memory = self.encoder(src, src_mask, src_key_padding_mask)
        return self.decoder(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)

    @staticmethod
    def generate_square_subsequent_mask(size):
        """Of float32: minus infinity where a place would look at a later one."""
        later = ~tnp.tril(creation.ones((size, size), dtype=tnp.bool))
        return _added(later, tnp.float32)
