"""Other engines' decoders of given widths with drawn weights, for bench/tokens.

Each is a function of (what is known, how many tokens are new) that computes these tokens and the last one's logits. Keys and values that are
known are there already: drawn ones, since only their number matters. What an engine has fused operators for is one of those: its own
attention with keys and values in place, matrices in blocks of 32 that are multiplied as they are.
"""

import numpy

BLOCK = 32


class Widths:
    def __init__(self, layers, width, heads, key_heads, head_size, inner, vocabulary):
        self.layers, self.width, self.heads, self.key_heads = layers, width, heads, key_heads
        self.head_size, self.inner, self.vocabulary = head_size, inner, vocabulary


def onnxruntimes(widths, bits, threads, context):
    """ONNX Runtime's: MatMulNBits, GroupQueryAttention on keys and values in f32 that it writes in place, fused normalisations."""
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    random = numpy.random.default_rng(1)
    nodes, constants = [], {}
    width, keys = widths.width, widths.key_heads * widths.head_size

    def constant(name, array):
        constants[name] = array
        return name

    def node(kind, inputs, name, domain="", outputs=None, **attributes):
        nodes.append(helper.make_node(kind, inputs, outputs or [name], name, domain=domain, **attributes))
        return name

    def product(x, name, columns, rows):
        codes = random.integers(0, 256, (rows, columns // BLOCK, BLOCK * bits // 8), dtype=numpy.uint8)
        scales = numpy.full(rows * (columns // BLOCK), 0.5 / columns**0.5 / 2 ** (bits - 4), numpy.float32)
        operands = [x, constant(f"{name}.w", codes), constant(f"{name}.s", scales)]
        return node("MatMulNBits", operands, name, "com.microsoft", K=columns, N=rows, bits=bits, block_size=BLOCK, accuracy_level=4)

    norm = lambda name: constant(f"{name}.g", numpy.ones(width, numpy.float32))
    x = node("Gather", [constant("embeddings", random.standard_normal((widths.vocabulary, width)).astype(numpy.float32)), "tokens"], "x")
    h = node("SimplifiedLayerNormalization", [x, norm("first")], "first", axis=-1, epsilon=1e-6)
    angle = numpy.arange(context)[:, None] * 10000.0 ** (-numpy.arange(widths.head_size // 2) / (widths.head_size // 2))
    constant("cosines", numpy.cos(angle).astype(numpy.float32)), constant("sines", numpy.sin(angle).astype(numpy.float32))
    caches = []
    for layer in range(widths.layers):
        at = lambda name: f"{layer}.{name}"  # noqa: B023
        caches += [at("k"), at("v")]
        qkv = product(h, at("qkv"), width, width + 2 * keys)
        operands = [qkv, "", "", at("k"), at("v"), "last", "total", "cosines", "sines"]
        node("GroupQueryAttention", operands, at("attention"), "com.microsoft", [at("attention"), at("k.new"), at("v.new")],
             num_heads=widths.heads, kv_num_heads=widths.key_heads, do_rotary=1)  # fmt: skip
        y = product(at("attention"), at("o"), width, width)
        node("SkipSimplifiedLayerNormalization", [x, y, norm(at("n"))], at("n"), "com.microsoft", [at("n"), "", "", at("x")], epsilon=1e-6)
        gate, up = (product(at("n"), at(name), width, widths.inner) for name in ("gate", "up"))
        both = node("Mul", [node("Mul", [gate, node("Sigmoid", [gate], at("s"))], at("silu")), up], at("both"))
        down = product(both, at("down"), widths.inner, width)
        node("SkipSimplifiedLayerNormalization", [at("x"), down, norm(at("m"))], at("m"), "com.microsoft", [at("m"), "", "", at("y")], epsilon=1e-6)
        x, h = at("y"), at("m")
    product(node("Gather", [h, constant("end", numpy.array(-1))], "of last", axis=1), "logits", width, widths.vocabulary)
    info, shape = helper.make_tensor_value_info, [1, widths.key_heads, context, widths.head_size]
    inputs = [info("tokens", TensorProto.INT64, [1, "t"]), info("last", TensorProto.INT32, [1]), info("total", TensorProto.INT32, [])]
    inputs += [info(name, TensorProto.FLOAT, shape) for name in caches]
    outputs = [info(name, TensorProto.FLOAT, None) for name in ["logits", *(f"{name}.new" for name in caches)]]
    graph = helper.make_graph(nodes, "decoder", inputs, outputs, [numpy_helper.from_array(array, name) for name, array in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0" if threads == 1 else "1")
    session = onnxruntime.InferenceSession(onnx.ModelProto.SerializeToString(model), options, providers=["CPUExecutionProvider"])
    kept = {name: onnxruntime.OrtValue.ortvalue_from_numpy(random.standard_normal(shape).astype(numpy.float32)) for name in caches}

    def run(known, new):
        binding, total = session.io_binding(), known + new
        binding.bind_cpu_input("tokens", numpy.arange(3, 3 + new)[None] % widths.vocabulary)
        binding.bind_cpu_input("last", numpy.array([total - 1], numpy.int32))
        binding.bind_cpu_input("total", numpy.array(total, numpy.int32))
        for name, value in kept.items():
            binding.bind_ortvalue_input(name, value)
            binding.bind_ortvalue_output(f"{name}.new", value)
        binding.bind_output("logits")
        session.run_with_iobinding(binding)

    return run


def openvinos(widths, bits, threads):
    """OpenVINO's: matrices of integers with a scale for each 32 as its own tools write them, attention to a state of its own format (u8)."""
    import openvino
    from openvino import opset15 as ops

    random = numpy.random.default_rng(1)
    width, keys = widths.width, widths.key_heads * widths.head_size
    integers = lambda *values: ops.constant(numpy.array(values, numpy.int64))

    def product(x, columns, rows):
        shape = [rows, columns // BLOCK, BLOCK]
        codes = random.integers(0, 256, rows * columns * bits // 8, dtype=numpy.uint8)
        kind = openvino.Type.u4 if bits == 4 else openvino.Type.u8
        w = ops.convert(ops.constant(openvino.Tensor(codes if bits == 4 else codes.reshape(shape), openvino.Shape(shape), kind)), "f16")
        w = ops.subtract(w, ops.convert(ops.constant(openvino.Tensor(numpy.full(1, 0x88 if bits == 4 else 0x80, numpy.uint8), openvino.Shape([1, 1, 1]), kind)), "f16"))  # fmt: skip
        w = ops.multiply(w, ops.constant(numpy.full((rows, columns // BLOCK, 1), 0.5 / columns**0.5 / 2 ** (bits - 4), numpy.float16)))
        return ops.matmul(x, ops.convert(ops.reshape(w, integers(rows, columns), False), "f32"), False, True)

    def normalised(x):
        mean = ops.reduce_mean(ops.power(x, ops.constant(numpy.float32(2))), integers(-1), True)
        return ops.multiply(ops.multiply(x, ops.divide(ops.constant(numpy.float32(1)), ops.sqrt(ops.add(mean, ops.constant(numpy.float32(1e-6)))))),
                            ops.constant(numpy.ones(width, numpy.float32)))  # fmt: skip

    tokens, beam = ops.parameter([-1, -1], numpy.int64, "tokens"), ops.parameter([-1], numpy.int32, "beam")
    cosines, sines = (ops.parameter([-1, 1, -1, widths.head_size], numpy.float32, name) for name in ("cosines", "sines"))
    sinks, pairs = [], widths.head_size // 2

    def heads(x, count, turned):
        x = ops.transpose(ops.reshape(x, integers(0, 0, count, widths.head_size), True), integers(0, 2, 1, 3))
        if not turned:
            return x
        low, high = (ops.slice(x, integers(a), integers(b), integers(1), integers(3)) for a, b in ((0, pairs), (pairs, 2 * pairs)))
        return ops.add(ops.multiply(x, cosines), ops.multiply(ops.concat([ops.multiply(high, ops.constant(numpy.float32(-1))), low], 3), sines))

    def kept(x, name):
        shape, kind = openvino.PartialShape([-1, widths.key_heads, -1, widths.head_size]), openvino.Type.f32
        variable = openvino.op.util.Variable(openvino.op.util.VariableInfo())
        information = openvino.op.util.VariableInfo()
        information.data_shape, information.data_type, information.variable_id = shape, kind, name
        variable.update(information)
        batch = ops.gather(ops.shape_of(tokens), integers(0), ops.constant(numpy.int64(0)))
        none = ops.broadcast(ops.constant(numpy.float32(0)), ops.concat([batch, integers(widths.key_heads, 0, widths.head_size)], 0))
        past = ops.gather(ops.read_value(none, variable), beam, ops.constant(numpy.int64(0)))
        all_ = ops.concat([past, x], 2)
        sinks.append(ops.assign(all_, variable))
        group = widths.heads // widths.key_heads
        sizes = ops.shape_of(all_)
        each = lambda at: ops.gather(sizes, integers(at), ops.constant(numpy.int64(0)))
        wide = ops.broadcast(ops.unsqueeze(all_, integers(2)), ops.concat([each(0), each(1), integers(group), each(2), each(3)], 0), None, "BIDIRECTIONAL")
        return ops.reshape(wide, integers(0, widths.heads, -1, widths.head_size), True), past

    def attended(q, k, v):
        keys_, past = k
        counts = [ops.gather(ops.shape_of(x), integers(2), ops.constant(numpy.int64(0))) for x in (q, keys_)]
        one, zero = ops.constant(numpy.int64(1)), ops.constant(numpy.int64(0))
        scalar = lambda x: ops.squeeze(x, integers(0))
        columns = ops.range(zero, scalar(counts[1]), one, "i64")
        rows = ops.range(ops.subtract(scalar(counts[1]), scalar(counts[0])), scalar(counts[1]), one, "i64")
        seen = ops.less_equal(ops.unsqueeze(columns, integers(0)), ops.unsqueeze(rows, integers(1)))
        mask = ops.select(seen, ops.constant(numpy.float32(0)), ops.constant(numpy.float32(-65504)))
        return ops.scaled_dot_product_attention(q, keys_, v[0], ops.unsqueeze(mask, integers(0, 1)), causal=False)

    x = ops.gather(ops.constant(random.standard_normal((widths.vocabulary, width)).astype(numpy.float32)), tokens, ops.constant(numpy.int64(0)))
    for layer in range(widths.layers):
        h = normalised(x)
        q = heads(product(h, width, width), widths.heads, True)
        k = kept(heads(product(h, width, keys), widths.key_heads, True), f"k{layer}")
        v = kept(heads(product(h, width, keys), widths.key_heads, False), f"v{layer}")
        y = ops.reshape(ops.transpose(attended(q, k, v), integers(0, 2, 1, 3)), integers(0, 0, width), True)
        x = ops.add(x, product(y, width, width))
        h = normalised(x)
        gate, up = product(h, width, widths.inner), product(h, width, widths.inner)
        x = ops.add(x, product(ops.multiply(ops.swish(gate), up), widths.inner, width))
    last = ops.slice(normalised(x), integers(-1), integers(2**31 - 1), integers(1), integers(1))
    model = openvino.Model([ops.result(product(last, width, widths.vocabulary))], sinks, [tokens, beam, cosines, sines], "decoder")
    settings = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    compiled = openvino.Core().compile_model(model, "CPU", settings)
    request, length = compiled.create_infer_request(), [0]

    def run(known, new):
        """Behind what is known, or up to 64 more: states grow as texts do."""
        if not known <= length[0] <= known + 64 or not known:
            request.reset_state()
            length[0] = 0
            if known:
                infer(known)
        infer(new)

    def infer(new):
        angle = (length[0] + numpy.arange(new))[:, None] * 10000.0 ** (-(numpy.arange(2 * pairs) % pairs) / pairs)
        turned = [each(angle)[None, None].astype(numpy.float32) for each in (numpy.cos, numpy.sin)]
        request.infer([numpy.arange(3, 3 + new)[None] % widths.vocabulary, numpy.zeros(1, numpy.int32), *turned])
        length[0] += new

    return run
