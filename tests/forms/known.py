"""What is known to fail, and why; nothing else may. An entry is a pattern of cases, one of forms, and the reason.

Whatever an entry matches must fail: one that has begun to pass is a failure until its entry is gone.
"""

import re

KNOWN = [
    (r"test_.*bernoulli.*", r".*", "expects what was drawn without a seed: NumPy's global state when the suite was made", "chance"),
    (r"test_training_dropout.*|test_dropout.*random.*", r".*", "draws in each iteration of its own", "chance"),
    (r"test_attention_4d_causal_fp16_expanded", r".*", "expects what was rounded to a half at every step", "chance"),
    (r"test_dft_inverse.*", r".*", "expects the rounding error of an FFT in f32 where the result is 0", "chance"),
    (r"opset_PRelu_[16]_test_prelu_broadcast", r".*", "slopes of these opsets are those of channels; the judge broadcasts"),
    (r"test_attention_.*float16.*", r".*/grad/.*", "gradients that are 0, in another rounding", "chance"),
    (r"test_(bvlc_alexnet|densenet121|inception_v[12]|resnet50|shufflenet|squeezenet|vgg19|zfnet512)", r".*/grad/.*",
     "all weights are one number, so that the gradient of the last layer's input is a sum that is 0: what is left is rounding", "chance"),
    (r"test_simple_rnn_bidirectional", r".*/grad/.*", "states are five or six roundings below 1, and 1 - h * h is made of these", "chance"),
    (r"opset_AveragePool_1_test_averagepool_2d_precomputed_pads", r".*", "the judge counts padding, which opset 1 does not say"),
]


def reason(name, form):
    """Why the case fails in the form, and whether it must; None where it may not."""
    for cases, forms, why, *chance in KNOWN:
        if re.fullmatch(cases, name) and re.fullmatch(forms, str(form)):
            return why, not chance
    return None


def wrong(name, form, verdict):
    """Whether the verdict is a failure: not what the standard and the table of what is known say."""
    if verdict == "none":
        return False
    known = reason(name, form)
    if known is None:
        return verdict != "agrees"
    return verdict == "agrees" and known[1]


# Operators that have a kernel with known sizes alone: patterns of cases, the operators, and the reason.
SLOW = [
    (r"test_convtranspose.*", {"conv_transpose"}, "the size of the window is open"),
    (r"test_gathernd.*", {"gather_nd"}, "the number of indices that select an element is open"),
]


def slow(name, operators):
    """Why these operators of a test go to the reference evaluator with open sizes alone; None where none may."""
    return next((why for cases, known, why in SLOW if re.fullmatch(cases, name) and set(operators) <= known), None)
