// tensmith/builder.h over the builder: pointers checked, and the graph completed and compiled as
// any model is.
#include "compiler/api/Boundary.h"
#include "compiler/api/BuilderAttributes.h"
#include "compiler/api/CompileOptions.h"
#include "compiler/api/ModelBuilder.h"
#include "compiler/graph/States.h"
#include "compiler/pipeline/Compile.h"

#include "mlir/IR/AsmState.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;
using namespace tensmith;

struct ts_builder {
  ModelBuilder builder;
};

namespace {

constexpr char kName[] = "graph";

/// `values` into the caller's room for them.
Status give(Result<std::vector<ts_value>> values, ts_value *results, size_t capacity,
            size_t *count) {
  if (!values.ok())
    return values.status();
  std::copy_n(values->begin(), std::min(capacity, values->size()), results);
  if (count)
    *count = values->size();
  return {};
}

/// The C API's copy of the graph, ready for the pipeline.
template <typename Work>
ts_status *withGraph(ts_builder *builder, const ts_compile_options *given, Work work) {
  return guarded([&]() -> Status {
    if (!builder)
      return missing("the builder");
    auto options = checkedOptions(given);
    if (!options.ok())
      return options.status();
    if (options->shape_count || options->keep_count)
      return invalidArgument("a graph that is built has the shapes and outputs that it is built "
                             "with; leave out shapes and keep");
    if (options->training && builder->builder.hasStates())
      return invalidArgument("a graph that updates states by itself is not trained");
    CompileLimits limits(*options);
    auto module = builder->builder.finish({options->overridable, options->overridable_count},
                                          options->training != nullptr);
    if (!module.ok())
      return module.status();
    Status status = prepareModel(**module, *options);
    return status.ok() ? work(**module, compileOptions(*options, kName)) : status;
  });
}

/// Named constants as arguments after the others; false of a name that is no constant's.
bool makeInput(func::FuncOp function, StringRef name) {
  graph::ConstantOp found;
  function.walk([&](graph::ConstantOp constant) {
    auto given = constant->getAttrOfType<StringAttr>(graph::kInitialiser);
    if (given && given.getValue() == name)
      found = constant;
  });
  if (!found)
    return false;
  unsigned number = function.getNumArguments();
  Builder b(function.getContext());
  function.insertArgument(number, found.getType(),
                          b.getDictionaryAttr(b.getNamedAttr("graph.name", b.getStringAttr(name))),
                          found.getLoc());
  found.getResult().replaceAllUsesWith(function.getArgument(number));
  found.erase();
  return true;
}

} // namespace

namespace tensmith {

Result<OwningOpRef<ModuleOp>> ModelBuilder::finish(ArrayRef<const char *> inputs, bool keepsNames) {
  if (Status status = checkOutside(); !status.ok())
    return status;
  if (outputs_.empty())
    return invalidArgument("the graph has no output; add one by ts_builder_output");
  OpBuilder end(&context_);
  end.setInsertionPointToEnd(&main_.front());
  SmallVector<Value> results;
  for (auto &[name, value] : outputs_)
    results.push_back(value);
  auto exit = end.create<func::ReturnOp>(UnknownLoc::get(&context_), results);
  main_.setType( // with room for all names
      builder_.getFunctionType(main_.front().getArgumentTypes(), ValueRange(results).getTypes()));
  for (auto [i, name] : llvm::enumerate(inputs_))
    main_.setArgAttr(unsigned(i), "graph.name", builder_.getStringAttr(name));
  for (auto [i, output] : llvm::enumerate(outputs_))
    main_.setResultAttr(unsigned(i), "graph.name", builder_.getStringAttr(output.first));
  for (auto [input, output] : states_) {
    main_.setArgAttr(unsigned(input), graph::kState, builder_.getI64IntegerAttr(int64_t(output)));
    main_.setArgAttr(unsigned(input), graph::kOnSuccess, builder_.getUnitAttr());
  }
  OwningOpRef<ModuleOp> copy(cast<ModuleOp>(module_->clone()));
  exit.erase();
  auto main = copy->lookupSymbol<func::FuncOp>("main");
  for (StringRef name : inputs)
    if (!inputNames_.contains(name))
      return invalidArgument("'" + name.str() + "' is to be an input, and is no constant's name");
    else if (!llvm::is_contained(inputs_, name))
      makeInput(main, name);
  if (!keepsNames)
    main.walk([](graph::ConstantOp constant) { constant->removeAttr(graph::kInitialiser); });
  std::string message;
  ScopedDiagnosticHandler handler(&context_, [&](Diagnostic &diagnostic) {
    if (message.empty())
      message = diagnostic.str();
    return success();
  });
  if (failed(verify(*copy)))
    return Status(StatusCode::Internal, "the graph breaks a rule: " + message);
  return copy;
}

Result<std::string> ModelBuilder::text(bool locations) {
  auto module = finish({}, true);
  if (!module.ok())
    return module.status();
  std::string text;
  llvm::raw_string_ostream stream(text);
  (*module)->print(stream, OpPrintingFlags().enableDebugInfo(locations).useLocalScope());
  return text;
}

} // namespace tensmith

ts_status *ts_builder_create(ts_builder **out) {
  return guarded([&]() -> Status {
    if (!out)
      return missing("the result");
    *out = new ts_builder();
    return {};
  });
}

void ts_builder_free(ts_builder *builder) { delete builder; }

ts_status *ts_builder_input(ts_builder *builder, const char *name, const ts_value_type *type,
                            ts_value *out) {
  return guarded([&]() -> Status {
    if (!builder || !name || !type || !out)
      return missing(!builder ? "the builder"
                     : !name  ? "the name"
                     : !type  ? "the type"
                              : "the result");
    auto value = builder->builder.input(name, *type);
    *out = value.ok() ? *value : TS_NO_VALUE;
    return value.status();
  });
}

ts_status *ts_builder_constant(ts_builder *builder, const char *name, ts_tensor *tensor,
                               ts_value *out) {
  return guarded([&]() -> Status {
    if (!builder || !tensor || !out)
      return missing(!builder ? "the builder" : !tensor ? "the tensor" : "the result");
    *out = TS_NO_VALUE;
    auto kept = retainedTensor(tensor);
    if (!kept.ok())
      return kept.status();
    auto value = builder->builder.constant(name, *kept);
    if (value.ok())
      *out = *value;
    return value.status();
  });
}

ts_status *ts_builder_op(ts_builder *builder, const char *name, const ts_value *operands,
                         size_t operandCount, const ts_attribute *attributes, size_t attributeCount,
                         const ts_value_type *result, const char *location, ts_value *results,
                         size_t capacity, size_t *count) {
  return guarded([&]() -> Status {
    if (!builder || !name)
      return missing(!builder ? "the builder" : "the operator's name");
    if ((operandCount && !operands) || (attributeCount && !attributes) || (capacity && !results))
      return missing("the operands, attributes or results");
    return give(builder->builder.op(name, {operands, operandCount}, {attributes, attributeCount},
                                    result, location),
                results, capacity, count);
  });
}

ts_status *ts_builder_begin_if(ts_builder *builder, ts_value condition, const char *location) {
  return guarded([&]() -> Status {
    return builder ? builder->builder.beginIf(condition, location) : missing("the builder");
  });
}

ts_status *ts_builder_begin_loop(ts_builder *builder, ts_value trips, ts_value condition,
                                 const ts_value *carried, size_t carriedCount, const char *location,
                                 ts_value *arguments) {
  return guarded([&]() -> Status {
    if (!builder || (carriedCount && !carried) || !arguments)
      return missing(builder ? "the carried values or arguments" : "the builder");
    return give(builder->builder.beginLoop(trips, condition, {carried, carriedCount}, location),
                arguments, carriedCount + 2, nullptr);
  });
}

ts_status *ts_builder_yield(ts_builder *builder, const ts_value *values, size_t valueCount,
                            ts_value *results, size_t capacity, size_t *count) {
  return guarded([&]() -> Status {
    if (!builder || (valueCount && !values) || (capacity && !results))
      return missing(builder ? "the values or results" : "the builder");
    return give(builder->builder.yield({values, valueCount}), results, capacity, count);
  });
}

ts_status *ts_builder_output(ts_builder *builder, const char *name, ts_value value) {
  return guarded([&]() -> Status {
    if (!builder || !name)
      return missing(builder ? "the name" : "the builder");
    return builder->builder.output(name, value);
  });
}

ts_status *ts_builder_state(ts_builder *builder, const char *input, const char *output) {
  return guarded([&]() -> Status {
    if (!builder || !input || !output)
      return missing(!builder ? "the builder" : !input ? "the input" : "the output");
    return builder->builder.state(input, output);
  });
}

ts_status *ts_builder_differentiate(ts_builder *builder, int mode, const ts_value *of,
                                    size_t ofCount, const ts_value *by, size_t byCount,
                                    const ts_value *changes, ts_value *results) {
  return guarded([&]() -> Status {
    if (!builder || !of || !by || !changes || !results)
      return missing(builder ? "a list of values" : "the builder");
    if (mode != TS_GRADIENT && mode != TS_TANGENT)
      return invalidArgument("there is no kind of derivative " + std::to_string(mode));
    bool isForward = mode == TS_TANGENT;
    return give(builder->builder.differentiate(isForward, {of, ofCount}, {by, byCount},
                                               {changes, isForward ? byCount : ofCount}),
                results, isForward ? ofCount : byCount, nullptr);
  });
}

ts_status *ts_builder_type(ts_builder *builder, ts_value value, ts_value_type *out) {
  return guarded([&]() -> Status {
    if (!builder || !out)
      return missing(builder ? "the result" : "the builder");
    auto type = builder->builder.type(value);
    if (type.ok())
      *out = *type;
    return type.status();
  });
}

ts_status *ts_builder_contents(ts_builder *builder, ts_value value, const char *const **texts,
                               size_t *count) {
  return guarded([&]() -> Status {
    if (!builder || !texts || !count)
      return missing(builder ? "the result" : "the builder");
    auto known = builder->builder.contents(value);
    if (!known.ok())
      return known.status();
    *texts = known->empty() ? nullptr : known->data();
    *count = known->size();
    return {};
  });
}

ts_status *ts_builder_text(ts_builder *builder, int locations, char **text) {
  return guarded([&]() -> Status {
    if (!builder || !text)
      return missing(builder ? "the result" : "the builder");
    *text = nullptr;
    auto printed = builder->builder.text(locations != 0);
    return printed.ok() ? copyText(*printed, text) : printed.status();
  });
}

ts_status *ts_builder_compile(ts_builder *builder, const ts_compile_options *options,
                              const char *outPath) {
  if (!outPath)
    return guarded([] { return missing("the module's path"); });
  return withGraph(builder, options, [&](ModuleOp module, const pipeline::CompileOptions &known) {
    return pipeline::compileToFile(module, known, outPath);
  });
}

ts_status *ts_builder_compile_bytes(ts_builder *builder, const ts_compile_options *options,
                                    void **module, size_t *moduleSize) {
  if (!module || !moduleSize)
    return guarded([] { return missing("the result"); });
  *module = nullptr;
  *moduleSize = 0;
  return withGraph(builder, options, [&](ModuleOp graph, const pipeline::CompileOptions &known) {
    auto compiled = pipeline::compileToBytes(graph, known);
    return compiled.ok() ? giveBytes(*compiled, module, moduleSize) : compiled.status();
  });
}
