// Text to a function `main` of the graph whose arguments are the definition's inputs.
#include "frontends/comprehension/Import.h"

#include "compiler/graph/Comprehension.h"
#include "compiler/graph/Constants.h"
#include "compiler/graph/GraphBuilder.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "llvm/Support/JSON.h"

using namespace mlir;

namespace tensmith::comprehension {
namespace {

struct Read {
  Module module;
  std::vector<Function> functions;
};

/// All definitions, analysed; what is wrong with any of them is an error.
Result<Read> readAll(const std::string &text, const std::string &name,
                     std::vector<Comment> *comments = nullptr) {
  std::vector<Message> messages;
  Read read{parse(text, messages, comments), {}};
  for (const Definition &definition : read.module.definitions)
    if (messages.empty())
      read.functions.push_back(analyse(read.module, definition, messages));
  if (messages.empty() && read.functions.empty())
    messages.push_back({{1, 1}, "the text defines no comprehension; write def f(...) -> (...) {}"});
  if (!messages.empty())
    return Status(StatusCode::InvalidModel, statusOf(messages, name).message());
  return read;
}

Result<const Function *> chosen(const Read &read, const std::string &name,
                                const std::string &asked) {
  std::string names;
  for (const Function &function : read.functions) {
    if (function.name == asked || (asked.empty() && read.functions.size() == 1))
      return &function;
    names += (names.empty() ? "" : ", ") + function.name;
  }
  return invalidArgument(
      name + (asked.empty() ? ": has several comprehensions; say which function, of " + names
                            : ": has no comprehension '" + asked + "'; there are " + names));
}

class Builder {
public:
  Builder(const Function &function, const std::string &text, const std::string &name,
          MLIRContext &context, const ImportOptions &options)
      : function_(function), text_(text), name_(name), options_(options), shapes_(&context),
        builder_(&context) {}

  Result<OwningOpRef<ModuleOp>> run() {
    for (const auto &[size, value] : options_.sizes)
      if (llvm::none_of(function_.sizes, [&](const auto &one) { return one.name == size; }))
        return invalidArgument(name_ + ": '" + function_.name + "' has no size '" + size + "'");
    Location location = NameLoc::get(builder_.getStringAttr(function_.name));
    OwningOpRef<ModuleOp> module = ModuleOp::create(location);
    SmallVector<Type> types;
    for (size_t i = 0; i < function_.inputs; ++i)
      types.push_back(inputType(function_.tensors[i]));
    auto main = func::FuncOp::create(location, "main", builder_.getFunctionType(types, {}));
    module->push_back(main);
    builder_.setInsertionPointToEnd(main.addEntryBlock());
    std::string refusal;
    ScopedDiagnosticHandler handler(shapes_.mlirContext(), [&](Diagnostic &diagnostic) {
      if (refusal.empty())
        refusal = diagnostic.str();
      return success();
    });
    SmallVector<Value> results = makeResults(main, location);
    if (llvm::is_contained(results, Value()))
      return invalidArgument(name_ + ": " + refusal);
    builder_.create<func::ReturnOp>(location, results);
    main.setFunctionType(builder_.getFunctionType(types, ValueRange(results).getTypes()));
    nameAll(main);
    if (failed(verify(*module)))
      return Status(StatusCode::Internal, name_ + ": " + refusal);
    return module;
  }

private:
  Type inputType(const Tensor &tensor) {
    SmallVector<AffineExpr> dims;
    for (const ExprRef &extent : tensor.extents) {
      if (extent->kind == Expr::Kind::Integer) {
        dims.push_back(shapes_.constant(extent->integer));
        continue;
      }
      auto known = options_.sizes.find(extent->text);
      dims.push_back(known != options_.sizes.end()
                         ? shapes_.constant(known->second)
                         : shapes_.symbol(builder_.getStringAttr(extent->text)));
    }
    return shapes_.tensorType(graph::elementType(shapes_.mlirContext(), tensor.type), dims);
  }

  SmallVector<Value> makeResults(func::FuncOp main, Location location) {
    graph::GraphBuilder graph(builder_, shapes_, location);
    SmallVector<Value> results;
    for (size_t result : function_.results) {
      auto named = [&](StringRef key, StringRef value) {
        return graph.named(key, builder_.getStringAttr(value));
      };
      results.push_back(graph::GraphBuilder::first(graph.create<graph::ComprehensionOp>(
          main.getArguments(), {named("text", text_), named("function", function_.name),
                                named("output", function_.tensors[result].name)})));
    }
    return results;
  }

  void nameAll(func::FuncOp main) {
    for (size_t i = 0; i < function_.inputs; ++i)
      main.setArgAttr(unsigned(i), "graph.name", builder_.getStringAttr(function_.tensors[i].name));
    for (size_t i = 0; i < function_.results.size(); ++i)
      main.setResultAttr(unsigned(i), "graph.name",
                         builder_.getStringAttr(function_.tensors[function_.results[i]].name));
  }

  const Function &function_;
  const std::string &text_, &name_;
  const ImportOptions &options_;
  graph::ShapeContext shapes_;
  OpBuilder builder_;
};

llvm::json::Array describeTensors(const Function &function, ArrayRef<size_t> numbers) {
  llvm::json::Array all;
  for (size_t number : numbers) {
    const Tensor &tensor = function.tensors[number];
    llvm::json::Array dims;
    for (const ExprRef &extent : tensor.extents)
      dims.push_back(print(*extent));
    all.push_back(llvm::json::Object{
        {"name", tensor.name}, {"type", typeName(tensor.type)}, {"dims", std::move(dims)}});
  }
  return all;
}

} // namespace

Result<OwningOpRef<ModuleOp>> import(const std::string &text, const std::string &name,
                                     MLIRContext &context, const ImportOptions &options) {
  auto read = readAll(text, name);
  if (!read.ok())
    return read.status();
  auto function = chosen(*read, name, options.function);
  if (!function.ok())
    return function.status();
  return Builder(**function, text, name, context, options).run();
}

Result<std::string> describe(const std::string &text, const std::string &name) {
  std::vector<Comment> comments;
  auto read = readAll(text, name, &comments);
  if (!read.ok())
    return read.status();
  llvm::json::Array all;
  for (auto [function, definition] : llvm::zip_equal(read->functions, read->module.definitions)) {
    SmallVector<size_t> inputs;
    for (size_t i = 0; i < function.inputs; ++i)
      inputs.push_back(i);
    all.push_back(llvm::json::Object{{"name", function.name},
                                     {"inputs", describeTensors(function, inputs)},
                                     {"results", describeTensors(function, function.results)},
                                     {"text", print(definition, comments)}});
  }
  std::string result;
  llvm::raw_string_ostream(result) << llvm::json::Value(std::move(all));
  return result;
}

Result<std::string> format(const std::string &text, const std::string &name) {
  std::vector<Message> messages;
  std::vector<Comment> comments;
  Module module = parse(text, messages, &comments);
  if (!messages.empty())
    return Status(StatusCode::InvalidModel, statusOf({messages[0]}, name).message());
  return print(module, comments);
}

} // namespace tensmith::comprehension
