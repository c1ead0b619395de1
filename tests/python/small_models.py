"""ONNX models of a few nodes, for tests."""

from onnx import TensorProto, helper


def model_of(nodes, inputs, constants, outputs):
    """The model's bytes. inputs: their shapes by name, of float32; constants: float32 or int64 arrays by name; outputs: names."""
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [helper.make_tensor(name, TensorProto.INT64 if value.dtype == "int64" else TensorProto.FLOAT, value.shape, value.ravel().tolist())
         for name, value in constants.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
