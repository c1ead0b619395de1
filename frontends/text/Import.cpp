// Parse, infer, lower; and messages with their places.
#include "frontends/text/Import.h"

#include "frontends/text/Lowering.h"
#include "frontends/text/Npy.h"

#include "compiler/program/Program.h"

#include "mlir/IR/Verifier.h"

#include <algorithm>
#include <filesystem>
#include <map>

using namespace mlir;

namespace tensmith::text {
namespace {

constexpr char kPrelude[] =
#include "frontends/text/prelude.inc"
    ;
constexpr size_t kMostMessages = 50, kMostFunctions = 5000;

Status report(const std::string &name, std::vector<Message> messages) {
  std::stable_sort(messages.begin(), messages.end(), [](const Message &a, const Message &b) {
    return std::pair(a.place.line, a.place.column) < std::pair(b.place.line, b.place.column);
  });
  std::string text;
  for (size_t i = 0; i < std::min(messages.size(), kMostMessages); ++i)
    text += (i ? "\n" : "") + name + ":" + std::to_string(messages[i].place.line) + ":" +
            std::to_string(messages[i].place.column) + ": " + messages[i].text;
  return {StatusCode::InvalidModel, text};
}

Module withPrelude(Module module) {
  std::vector<Message> none;
  Module prelude = parse(kPrelude, none);
  for (FunctionDecl &function : prelude.functions)
    function.prelude = true;
  std::move(module.types.begin(), module.types.end(), std::back_inserter(prelude.types));
  std::move(module.functions.begin(), module.functions.end(),
            std::back_inserter(prelude.functions));
  return prelude;
}

/// Files of `load`, each read once. They lie in the program's folder or below.
class Files {
public:
  explicit Files(std::string folder) : folder_(std::move(folder)) {}

  const HostTensor *load(const std::string &path, std::string &error) {
    if (auto found = tensors_.find(path); found != tensors_.end())
      return &found->second;
    std::filesystem::path relative = std::filesystem::path(path).lexically_normal();
    if (folder_.empty() || path.empty() || relative.is_absolute() || *relative.begin() == "..") {
      error = "'" + path + "' can't be loaded: only files beside the program, or below, can";
      return nullptr;
    }
    auto tensor = readNpy((std::filesystem::path(folder_) / relative).string());
    if (!tensor.ok()) {
      error = "'" + path + "' can't be loaded: " + tensor.status().message();
      return nullptr;
    }
    return &tensors_.emplace(path, std::move(*tensor)).first->second;
  }

private:
  std::string folder_;
  std::map<std::string, HostTensor> tensors_;
};

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
  std::vector<Message> messages;
  Module module = withPrelude(parse(text, messages));
  if (module.functions.size() > kMostFunctions)
    return Status(StatusCode::InvalidModel,
                  name + ": it has more than " + std::to_string(kMostFunctions) + " functions");
  Names names = collectNames(module, messages);
  if (!messages.empty())
    return report(name, std::move(messages));
  Files files(options.folder);
  Loader loader = [&](const std::string &path, std::string &error) {
    return files.load(path, error);
  };
  Types types(&context);
  Relations relations(types);
  Inference inference(module, names, types, relations, loader, messages);
  if (!inference.check())
    return report(name, std::move(messages));
  auto main = names.functions.find("main");
  if (main == names.functions.end() || main->second->constant)
    return Status(StatusCode::InvalidModel, name + ": has no function main; write fn main(...)");
  OwningOpRef<ModuleOp> result = ModuleOp::create(UnknownLoc::get(&context));
  Builder builder(&context);
  result.get()->setAttr(program::kDataTypes, describeTypes(module, builder));
  Status status = Lowering(*result, names, types, relations, inference, loader).run(*main->second);
  if (!messages.empty())
    return report(name, std::move(messages));
  if (!status.ok())
    return status.within(name);
  if (failed(verify(*result)))
    return Status(StatusCode::Internal, name + ": the program made of it is not valid");
  return result;
}

} // namespace tensmith::text
