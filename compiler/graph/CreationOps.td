// Values from nothing: constants, ranges, random numbers; and windows and transforms of signals.
#ifndef TENSMITH_GRAPH_CREATION
#define TENSMITH_GRAPH_CREATION
include "compiler/graph/GraphBase.td"

def Graph_ConstantOp : Graph_Op<"constant", [ConstantLike, DeclareOpInterfaceMethods<Graph_KnownContents>]> {
  let summary = "a tensor known at compile time; small ones in the text, large ones as a resource";
  let description = "Its type is that of the value.";
  let arguments = (ins ElementsAttr:$value);
  let results = (outs Graph_Tensor:$y);
  let hasFolder = 1;
}
def Graph_NoneOp : Op<Graph_Dialect, "none", [Pure]> {
  let summary = "the absent optional operand, or the empty optional";
  let description = "Its type says which of both it is.";
  let results = (outs AnyTypeOf<[NoneType, Graph_OptionalType]>:$y);
  let assemblyFormat = "attr-dict `:` type($y)";
}
def Graph_RangeOp : Graph_Op<"range", [DeclareOpInterfaceMethods<Graph_KnownContents>, DeclareOpInterfaceMethods<Graph_Indexed>]> {
  let summary = "start, start + delta, ... up to limit (exclusive); scalars of one type";
  let description = [{
    max(ceil((limit - start) / delta), 0) elements; element i is start + i * delta. delta is not 0 and leads from start
    to limit, or nothing is left.
  }];
  let arguments = (ins Graph_Tensor:$start, Graph_Tensor:$limit, Graph_Tensor:$delta);
  let results = (outs Graph_Tensor:$y);
}
def Graph_IotaOp : Graph_Op<"iota", [DeclareOpInterfaceMethods<Graph_Indexed>]> {
  let summary = "each element's own index along `axis`; the result type is given";
  let description = "Of integers or floats; 0, 1, 2, ... along `axis`, the same along all others.";
  let arguments = (ins I64Attr:$axis);
  let results = (outs Graph_Tensor:$y);
}
// Impure in one place alone: what is fresh in each run follows from its key, so that derivatives, and whatever is computed again,
// see the numbers that were drawn.
def Graph_RunKeyOp : Graph_Op<"run_key"> {
  let summary = "a number that each run has of its own, an i64 scalar; one that is chosen makes a run repeatable";
  let description = "The same wherever it stands in one run. It is known in a run alone: nothing folds it.";
  let results = (outs Graph_Tensor:$y);
}
// Counter-based (Philox 4x32-10): the element at flat index i depends on the seed, the key where there is one, and i alone.
class Graph_RandomOp<string mnemonic, string text> : Graph_Op<mnemonic> {
  let summary = text;
  let results = (outs Graph_Tensor:$y);
}
def Graph_RandomUniformOp : Graph_RandomOp<"random_uniform", "uniform in [low, high); the result type is given"> {
  let description = "Floats. One seed and key give the same numbers on every machine.";
  let arguments = (ins Graph_MaybeTensor:$key, DefaultValuedAttr<F64Attr, "0.0">:$low, DefaultValuedAttr<F64Attr, "1.0">:$high, I64Attr:$seed);
}
def Graph_RandomNormalOp : Graph_RandomOp<"random_normal", "normal of `mean` and `deviation`; the result type is given"> {
  let description = "Floats, by Box and Muller. One seed and key give the same numbers on every machine.";
  let arguments = (ins Graph_MaybeTensor:$key, DefaultValuedAttr<F64Attr, "0.0">:$mean, DefaultValuedAttr<F64Attr, "1.0">:$deviation, I64Attr:$seed);
}
def Graph_BernoulliOp : Graph_RandomOp<"bernoulli", "1 with probability p[i], of the type `to`"> {
  let description = "p is of floats in [0, 1].";
  let arguments = (ins Graph_Tensor:$p, Graph_MaybeTensor:$key, TypeAttr:$to, I64Attr:$seed);
}
def Graph_MultinomialOp : Graph_RandomOp<"multinomial", "`sample_size` draws from each row's unnormalised log-probabilities, of the type `to`"> {
  let description = "x [batch, classes]; the result [batch, sample_size] has the classes' numbers, drawn with replacement.";
  let arguments = (ins Graph_Tensor:$x, Graph_MaybeTensor:$key, TypeAttr:$to, I64Attr:$sample_size, I64Attr:$seed);
}
def Graph_DropoutOp : Graph_Op<"dropout"> {
  let summary = "ONNX Dropout: elements zeroed with probability `ratio` and the rest scaled, where `training_mode`; also the mask of those kept";
  let description = "`ratio` is 0.5 and `training_mode` false if absent; then y is x. Kept elements are divided by 1 - ratio.";
  let arguments = (ins Graph_Tensor:$x, Graph_MaybeTensor:$ratio, Graph_MaybeTensor:$training_mode, Graph_MaybeTensor:$key, I64Attr:$seed);
  let results = (outs Graph_Tensor:$y, Graph_Tensor:$mask);
}

def Graph_DftOp : Graph_Op<"dft"> {
  let operations = "elements(shapes, getY()) * 24";
  let summary = "ONNX DFT (opset 20): along `axis`; the last dimension is 1 (real) or 2 (complex)";
  let description = [{
    x is [..., n, ..., 1 or 2]. `dft_length` cuts x or pads it with zeros; `axis` is the last but one if absent.
    `onesided`: of real x the first n / 2 + 1 frequencies. `inverse` divides by n; with `onesided` it takes a half and
    gives real numbers.
  }];
  let arguments = (ins Graph_Tensor:$x, Graph_MaybeTensor:$dft_length, Graph_MaybeTensor:$axis, DefaultValuedAttr<BoolAttr, "false">:$inverse,
                   DefaultValuedAttr<BoolAttr, "false">:$onesided);
  let results = (outs Graph_Tensor:$y);
}
def Graph_StftOp : Graph_Op<"stft"> {
  let summary = "ONNX STFT";
  let description = [{
    The spectra of frames of `frame_length` elements, `frame_step` apart, times `window`: signal [batch, length, 1 or 2]
    gives [batch, frames, frequencies, 2]. Of real signals `onesided` keeps the first frame_length / 2 + 1 frequencies.
    Frames that would reach beyond the end are left out.
  }];
  let arguments = (ins Graph_Tensor:$signal, Graph_Tensor:$frame_step, Graph_MaybeTensor:$window, Graph_MaybeTensor:$frame_length,
                   DefaultValuedAttr<BoolAttr, "true">:$onesided);
  let results = (outs Graph_Tensor:$y);
}
def Graph_WindowOp : Graph_Op<"window"> {
  let summary = "ONNX BlackmanWindow, HannWindow and HammingWindow: `kind` blackman, hann or hamming, of element type `to`";
  let description = "`size` is a scalar. `periodic`: of size + 1 elements all but the last; otherwise symmetric.";
  let arguments = (ins Graph_Tensor:$size, StrAttr:$kind, TypeAttr:$to, DefaultValuedAttr<BoolAttr, "true">:$periodic);
  let results = (outs Graph_Tensor:$y);
}
def Graph_MelWeightMatrixOp : Graph_Op<"mel_weight_matrix"> {
  let summary = "ONNX MelWeightMatrix, of element type `to`";
  let description = [{
    [dft_length / 2 + 1, num_mel_bins]: triangles over the frequencies of a spectrum, as wide as each other on the mel
    scale, 2595 log10(1 + hertz / 700), between both edges.
  }];
  let arguments = (ins Graph_Tensor:$num_mel_bins, Graph_Tensor:$dft_length, Graph_Tensor:$sample_rate, Graph_Tensor:$lower_edge_hertz,
                   Graph_Tensor:$upper_edge_hertz, TypeAttr:$to);
  let results = (outs Graph_Tensor:$y);
}
#endif
