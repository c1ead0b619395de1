"""Writes what the ONNX package knows of its operators into one file that the front end carries.

The file is a serialised ModelProto whose functions are the schemas, a container that the reader has at hand
anyway: for each operator and each opset in which it changed, a FunctionProto with the operator's domain and name,
`overload` the opset it is valid from, `input` and `output` the formal parameters' names, `metadata_props` their types
(inputs', then outputs': the type variable, and a bit for each element type of tensors), `attribute_proto` the attributes'
defaults, and `node` and `opset_import` its body, if the standard defines the operator by one.
The model's own opset_import gives the newest opset of each domain.
"""

import re
import sys

import onnx
from onnx import defs


def element_types(parameter):
    """A bit for each element type by its number in TensorProto.DataType."""
    names = (re.fullmatch(r"tensor\((\w+)\)", name) for name in parameter.types)
    return sum(1 << onnx.TensorProto.DataType.Value(name[1].upper()) for name in names if name)


def schema_record(schema):
    record = onnx.FunctionProto(name=schema.name, domain=schema.domain, overload=str(schema.since_version))
    record.input.extend(parameter.name for parameter in schema.inputs)
    record.output.extend(parameter.name for parameter in schema.outputs)
    for parameter in [*schema.inputs, *schema.outputs]:
        record.metadata_props.add(key=parameter.type_str, value=str(element_types(parameter)))
    for name, attribute in schema.attributes.items():
        if attribute.default_value.type:
            record.attribute_proto.add().CopyFrom(attribute.default_value)
        else:
            record.attribute.append(name)
    if schema.has_function:
        body = schema.function_body
        record.node.extend(body.node)
        record.opset_import.extend(body.opset_import)
    return record


def main(path):
    model = onnx.ModelProto(ir_version=onnx.IR_VERSION, producer_name="onnx", producer_version=onnx.__version__)
    newest = {}
    schemas = sorted(defs.get_all_schemas_with_history(), key=lambda s: (s.domain, s.name, s.since_version))
    for schema in schemas:
        newest[schema.domain] = max(newest.get(schema.domain, 0), schema.since_version)
        model.functions.append(schema_record(schema))
    newest[""] = max(newest[""], defs.onnx_opset_version())
    for domain, version in sorted(newest.items()):
        model.opset_import.add(domain=domain, version=version)
    with open(path, "wb") as file:
        file.write(model.SerializeToString(deterministic=True))


if __name__ == "__main__":
    main(sys.argv[1])
