// Read, type, lower; and what the data types are, for the module's description.
#include "frontends/text/Import.h"

#include "frontends/text/Lowering.h"
#include "frontends/text/Parameters.h"
#include "frontends/text/Program.h"

#include "compiler/program/Program.h"

#include "mlir/IR/Verifier.h"

using namespace mlir;

namespace tensmith::text {
namespace {

ArrayAttr describeTypes(const Module &module, Builder &builder) {
  SmallVector<mlir::Attribute> types;
  auto texts = [&](const auto &elements, auto text) {
    SmallVector<mlir::Attribute> attributes;
    for (const auto &element : elements)
      attributes.push_back(builder.getStringAttr(text(element)));
    return builder.getArrayAttr(attributes);
  };
  for (const TypeDecl &type : module.types) {
    SmallVector<mlir::Attribute> constructors;
    for (const ConstructorDecl &constructor : type.constructors)
      constructors.push_back(builder.getDictionaryAttr(
          {builder.getNamedAttr("name", builder.getStringAttr(constructor.name)),
           builder.getNamedAttr("fields", texts(constructor.fields, [](const TypeExpr &field) {
                                  return print(field);
                                }))}));
    types.push_back(builder.getDictionaryAttr(
        {builder.getNamedAttr("name", builder.getStringAttr(type.name)),
         builder.getNamedAttr("params",
                              texts(type.params, [](const std::string &param) { return param; })),
         builder.getNamedAttr("constructors", builder.getArrayAttr(constructors))}));
  }
  return builder.getArrayAttr(types);
}

} // namespace

Result<OwningOpRef<ModuleOp>> import(const std::string &text, const std::string &name,
                                     MLIRContext &context, const ImportOptions &options) {
  Program program(text, name, options.folder, context, options.constants, options.reals,
                  options.sizes);
  if (!program.messages.empty())
    return program.status();
  if (!program.main())
    return Status(StatusCode::InvalidModel, name + ": has no function main; write fn main(...)");
  for (const auto &[size, value] : options.sizes)
    if (!program.inference.met.contains(size))
      return invalidArgument(name + ": main's types name no size '" + size + "'");
  OwningOpRef<ModuleOp> result = ModuleOp::create(UnknownLoc::get(&context));
  Builder builder(&context);
  result.get()->setAttr(program::kDataTypes, describeTypes(program.module, builder));
  Lowering lowering(*result, program.names, program.types, program.relations, program.inference,
                    program.loader, program.files);
  std::set<std::string> whole, parts;
  for (const std::string &name : options.inputs)
    (name.find('.') == std::string::npos ? whole : parts).insert(name);
  Status status = lowering.run(*program.main(), whole);
  if (program.messages.empty() && status.ok())
    status = liftParameters(*result, program, lowering.constants(), parts, options.parameters);
  if (!program.messages.empty())
    return program.status();
  if (!status.ok())
    return status.within(name);
  if (failed(verify(*result)))
    return Status(StatusCode::Internal, name + ": the program made of it is not valid");
  return result;
}

} // namespace tensmith::text
