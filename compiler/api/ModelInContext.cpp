// Reading a model, whatever form it has; see ModelInContext.h.
#include "compiler/api/ModelInContext.h"
#include "compiler/api/Dialects.h"

#include "base/FilesRead.h"
#include "compiler/api/CompileOptions.h"
#include "compiler/api/Derivatives.h"
#include "compiler/api/GraphText.h"
#include "compiler/api/TrainingOptions.h"
#include "compiler/graph/Outputs.h"
#include "compiler/training/ProgramForm.h"
#include "files/ModelFile.h"
#include "frontends/comprehension/Import.h"
#include "frontends/onnx/Import.h"
#include "frontends/text/Import.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"

#include <filesystem>

using namespace mlir;

namespace tensmith {
namespace {

/// A dimension as an option gives it: a size, or the name of a symbol.
Status checkDimension(StringRef text) {
  if (text.empty())
    return invalidArgument("a dimension is empty");
  bool isName = !llvm::isDigit(text[0]) && text[0] != '-' && text[0] != '+';
  int64_t size;
  if (isName || (!text.getAsInteger(10, size) && size >= 0))
    return {};
  return invalidArgument("'" + text.str() + "' is no size; sizes are integers from 0 on");
}

/// "image=1x3x224x224", or "batch=4", which is the size of a symbol or of an input of one
/// dimension.
Status addShape(StringRef text, ImportOptions &options) {
  auto [name, dims] = text.split('=');
  if (name.size() == text.size() || name.empty())
    return invalidArgument("it must be NAME=DIMENSIONS, as image=1x3x224x224 or batch=4");
  auto [place, isNew] = options.shapes.try_emplace(name.str());
  if (!isNew)
    return invalidArgument("'" + name.str() + "' was given a shape before");
  SmallVector<StringRef> parts;
  dims.split(parts, 'x');
  for (StringRef part : parts) {
    if (Status status = checkDimension(part); !status.ok())
      return status;
    place->second.push_back(part.str());
  }
  int64_t size;
  if (parts.size() == 1 && !dims.getAsInteger(10, size))
    options.symbols[name.str()] = size;
  return {};
}

Result<ImportOptions> importOptions(const ts_compile_options &options) {
  ImportOptions result;
  result.keep = keepOptions(options);
  for (size_t i = 0; i < options.overridable_count; ++i)
    result.overridable.insert(options.overridable[i]);
  for (std::string &name : namesOfDerivatives(options))
    result.overridable.insert(std::move(name));
  result.form = options.training         ? ModelForm::Training
                : options.for_evaluation ? ModelForm::Evaluation
                                         : ModelForm::AsGiven;
  if (options.node_limit)
    result.maxNodes = options.node_limit;
  if (options.nesting_limit)
    result.maxNesting = options.nesting_limit;
  for (size_t i = 0; i < options.shape_count; ++i)
    if (Status status = addShape(options.shapes[i], result); !status.ok())
      return status.within("shape '" + std::string(options.shapes[i]) + "'");
  return result;
}

} // namespace

ModelInContext::ModelInContext() : context_(modelDialects(), MLIRContext::Threading::DISABLED) {
  context_.loadAllAvailableDialects();
}

Status ModelInContext::load(const std::string &path, const ts_compile_options &options) {
  FilesRead files;
  Status status = read(path, options);
  for (const std::string &file : files.paths())
    if (options.read)
      options.read(options.read_context, file.c_str());
  return status.ok() ? prepareModel(*module_, options).within(path) : status;
}
Status ModelInContext::load(std::string_view bytes, const std::string &name,
                            const ts_compile_options &options) {
  Status status = read(bytes, name, options);
  return status.ok() ? prepareModel(*module_, options).within(name) : status;
}

Status ModelInContext::makeUpdate(ArrayRef<ts_updated> tensors, int64_t processes,
                                  const ts_compile_options &options) {
  auto asked = trainingOptions(*options.training);
  if (!asked.ok())
    return asked.status();
  asked->scalesLoss = options.precision == TS_PRECISION_F16;
  auto updated = updatedTensors(tensors, processes, context_);
  return updated.ok() ? take(training::makeUpdate(*updated, *asked, processes, context_))
                      : updated.status();
}

Status ModelInContext::read(const std::string &path, const ts_compile_options &options) {
  if (Status status = checkModelFile(path); !status.ok())
    return status;
  auto buffer =
      llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!buffer)
    return {StatusCode::IoError, path + ": " + buffer.getError().message()};
  if (StringRef(path).ends_with(".tsm"))
    return importProgram((*buffer)->getBuffer(), path, options,
                         std::filesystem::absolute(path).parent_path().string());
  if (StringRef(path).ends_with(".tc"))
    return importComprehension((*buffer)->getBuffer(), path, options);
  if (isGraphText((*buffer)->getBuffer()))
    return parse((*buffer)->getBuffer(), path, options);
  buffer->reset();
  auto imported = importOptions(options);
  return imported ? take(importFile(path, context_, *imported)) : imported.status();
}

Status ModelInContext::read(std::string_view bytes, const std::string &name,
                            const ts_compile_options &options) {
  if (Status status = checkModelStart(bytes, name); !status.ok())
    return status.within(name);
  if (StringRef(name).ends_with(".tsm"))
    return importProgram(bytes, name, options, options.folder ? options.folder : "");
  if (StringRef(name).ends_with(".tc"))
    return importComprehension(bytes, name, options);
  if (isGraphText(bytes))
    return parse(bytes, name, options);
  auto span = std::as_bytes(std::span(bytes.data(), bytes.size()));
  auto imported = importOptions(options);
  return imported ? take(importBytes(span, name, context_, *imported)) : imported.status();
}

Status ModelInContext::importProgram(StringRef program, const std::string &name,
                                     const ts_compile_options &options, std::string folder) {
  auto given = importOptions(options);
  if (!given.ok())
    return given.status();
  if (options.keep_count)
    return invalidArgument(name + ": tensors of a program can't be kept; let main return them");
  text::ImportOptions imported;
  imported.folder = std::move(folder);
  for (const auto &[shaped, dims] : given->shapes) {
    auto size = given->symbols.find(shaped);
    if (size == given->symbols.end())
      return invalidArgument("shape '" + shaped +
                             "': of a program single sizes are given, by the names that main's "
                             "types have for them, as batch=4");
    imported.sizes.insert(*size);
  }
  if (options.training)
    imported.parameters = trainingSeed(*options.training);
  else
    imported.inputs = given->overridable;
  Status status = take(text::import(program.str(), name, context_, imported));
  return status.ok() && options.training ? training::makeTrainable(*module_).within(name) : status;
}

Status ModelInContext::importComprehension(StringRef text, const std::string &name,
                                           const ts_compile_options &options) {
  auto given = importOptions(options);
  if (!given.ok())
    return given.status();
  comprehension::ImportOptions imported;
  imported.function = options.function ? options.function : "";
  for (const auto &[shaped, dims] : given->shapes)
    if (!given->symbols.count(shaped))
      return invalidArgument("shape '" + shaped +
                             "': of a comprehension single sizes are given, by their names, as "
                             "N=4");
  imported.sizes.insert(given->symbols.begin(), given->symbols.end());
  return take(comprehension::import(text.str(), name, context_, imported));
}

Status ModelInContext::parse(std::string_view text, const std::string &name,
                             const ts_compile_options &options) {
  if (options.shape_count)
    return invalidArgument("shape '" + std::string(options.shapes[0]) +
                           "': a model in text has the shapes that it is written with");
  if (Status status = take(parseGraphText(text, name, context_)); !status.ok())
    return status;
  return keepByPlace(keepOptions(options)).within(name);
}

Status ModelInContext::keepByPlace(const graph::Keep &keep) {
  std::vector<graph::NamedValue> kept;
  for (graph::NamedValue &named : graph::intermediatesByPlace(main()))
    if (keep.all || llvm::is_contained(keep.names, named.name))
      kept.push_back(std::move(named));
  for (const std::string &name : keep.names)
    if (llvm::none_of(kept, [&](const graph::NamedValue &named) { return named.name == name; }))
      return {StatusCode::InvalidModel, "'" + name +
                                            "' is to be kept, but is no place (line:column) of "
                                            "an operator of @main"};
  graph::addOutputs(main(), std::move(kept));
  return {};
}

Status ModelInContext::take(Result<OwningOpRef<ModuleOp>> imported) {
  if (!imported.ok())
    return imported.status();
  module_ = std::move(*imported);
  return {};
}

} // namespace tensmith
