"""Writes the table of the graph dialect's operators, from their records, for the language's names.

    generate_operators.py RECORDS.json OUT     RECORDS.json is llvm-tblgen --dump-json of Records.td

A row: OPERATOR("softmax", 1, {{"x", OperandKind::Tensor}}, {{"axis", AttributeKind::Integer, true}}, "summary").
"""

import json
import sys

# Of structure, not of tensors: the language has its own. Packed layouts are the compiler's business.
NOT_IN_THE_LANGUAGE = ("sequence", "optional", "concat_from_sequence", "split_to_sequence", "pack", "unpack", "winograd",
                       "fourier")
ATTRIBUTES = {
    "I64Attr": "Integer", "BoolAttr": "Boolean", "F64Attr": "Real", "StrAttr": "Text",
    "TypeAttr": "Type", "DenseI64ArrayAttr": "Integers", "DenseF64ArrayAttr": "Reals", "ArrayAttr": "Texts", "StrArrayAttr": "Texts",
}
OPERANDS = {"Graph_Tensor": "Tensor", "Graph_MaybeTensor": "Optional", "Variadic": "Variadic"}


def attribute(record, records):
    """The kind of an attribute's constraint, and whether it must be given; None where text has no form for it."""
    required = not record.get("isOptional") and not record.get("defaultValue")
    while record.get("baseAttr"):
        record = records[record["baseAttr"]["def"]]
    return ATTRIBUTES.get(record["!name"]), required


def rows(records):
    for name in records["!instanceof"].get("Op", []):
        record = records[name]
        mnemonic = record["opName"]
        if record["opDialect"]["def"] != "Graph_Dialect" or mnemonic.startswith(NOT_IN_THE_LANGUAGE):
            continue
        if not any(trait["def"].startswith("Graph_ShapesVerified") for trait in record["traits"]) or mnemonic == "constant":
            continue
        operands, attributes, known = [], [], True
        for value, argument in record["arguments"]["args"]:
            constraint = records[value["def"]]
            kinds = constraint["!superclasses"]
            if "Attr" in kinds:
                kind, required = attribute(constraint, records)
                known &= kind is not None or not required
                if kind:
                    attributes.append(f'{{"{argument}", AttributeKind::{kind}, {str(required).lower()}}}')
            else:
                kind = "Variadic" if "Variadic" in kinds else OPERANDS.get(value["def"])
                known &= kind is not None
                operands.append(f'{{"{argument}", OperandKind::{kind}}}')
        if known:
            summary = record["summary"].replace("\\", "\\\\").replace('"', '\\"')
            yield (f'{{"{mnemonic}", {len(record["results"]["args"])}, {{{", ".join(operands)}}}, '
                   f'{{{", ".join(attributes)}}}, "{summary}"}},')


def main():
    records = json.load(open(sys.argv[1]))
    with open(sys.argv[2], "w") as out:
        out.write("\n".join(sorted(rows(records))) + "\n")


if __name__ == "__main__":
    main()
