// The walk over a model: inputs, initialisers, nodes in order, outputs; see Importer.h.
#include "frontends/onnx/Importer.h"

#include "compiler/graph/Constants.h"
#include "compiler/graph/DeadCode.h"
#include "compiler/graph/Evaluate.h"
#include "compiler/graph/States.h"
#include "frontends/onnx/Ranks.h"
#include "frontends/onnx/Schemas.h"

#include "mlir/IR/Iterators.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace tensmith::onnx_import {

const Value *Scope::find(StringRef name) const {
  for (const Scope *scope = this; scope; scope = scope->parent)
    if (auto it = scope->values.find(name); it != scope->values.end())
      return &it->second;
  return nullptr;
}

Opsets opsetsOf(const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto> &imports) {
  Opsets opsets;
  for (const auto &import : imports)
    opsets[std::string(canonicalDomain(import.domain()))] = import.version();
  opsets.try_emplace("", 1); // as before opsets existed
  return opsets;
}

Location Importer::locationOf(const onnx::NodeProto &node, int number, const Scope &scope) {
  MLIRContext *context = builder.getContext();
  auto place = FileLineColLoc::get(context, model->name, unsigned(number) + 1, 0);
  std::string name = scope.prefix + displayName(node) + " (" + node.op_type() + ")";
  return NameLoc::get(StringAttr::get(context, name), place);
}

AffineExpr Importer::symbol(StringRef name) {
  auto given = options.symbols.find(name.str());
  if (given != options.symbols.end()) {
    fixedSymbols_.insert(name);
    return shapes.constant(given->second);
  }
  return shapes.symbol(builder.getStringAttr(name));
}

FailureOr<SmallVector<AffineExpr>> Importer::dimsOf(const onnx::TensorShapeProto &shape,
                                                    StringRef name, Location location) {
  SmallVector<AffineExpr> dims;
  for (const auto &dim : shape.dim()) {
    if (dim.has_dim_value() && dim.dim_value() < -1)
      return emitError(location) << "'" << name << "' has a dimension of " << dim.dim_value();
    if (dim.has_dim_value() && dim.dim_value() >= 0)
      dims.push_back(shapes.constant(dim.dim_value()));
    else if (llvm::any_of(dim.dim_param(), llvm::isAlnum)) // "?" names nothing
      dims.push_back(symbol(dim.dim_param()));
    else
      dims.push_back(symbol((name + "." + Twine(dims.size())).str()));
  }
  return dims;
}

/// Values are single elements; a shape says nothing more.
FailureOr<Type> Importer::mapType(const onnx::TypeProto::Map &type, StringRef name,
                                  Location location) {
  auto key = dataTypeFromOnnx(type.key_type());
  if (!key || (*key != DataType::I64 && *key != DataType::String))
    return emitError(location) << "'" << name << "' is a map whose keys have element type "
                               << type.key_type() << "; they may be int64 (7) or strings (8)";
  if (!type.value_type().has_tensor_type())
    return emitError(location) << "'" << name << "' is a map whose values are no tensors";
  auto value = typeOf(type.value_type(), name, location);
  if (failed(value))
    return failure();
  if (auto ranked = dyn_cast<mlir::RankedTensorType>(*value); ranked && ranked.getRank() > 0)
    return emitError(location) << "'" << name << "' is a map whose values have " << ranked.getRank()
                               << " dimensions; they may be single elements";
  return Type(graph::MapType::get(builder.getContext(),
                                  graph::elementType(builder.getContext(), *key),
                                  getElementTypeOrSelf(*value)));
}

FailureOr<Type> Importer::typeOf(const onnx::TypeProto &type, StringRef name, Location location) {
  MLIRContext *context = builder.getContext();
  if (type.has_sequence_type() || type.has_optional_type()) {
    bool isSequence = type.has_sequence_type();
    auto element =
        typeOf(isSequence ? type.sequence_type().elem_type() : type.optional_type().elem_type(),
               name, location);
    if (failed(element))
      return failure();
    // The elements of a sequence differ in shape.
    if (isa<TensorType>(*element))
      element = Type(UnrankedTensorType::get(getElementTypeOrSelf(*element)));
    return isSequence ? Type(graph::SequenceType::get(context, *element))
                      : Type(graph::OptionalType::get(context, *element));
  }
  if (type.has_map_type())
    return mapType(type.map_type(), name, location);
  if (!type.has_tensor_type())
    return emitError(location) << "'" << name
                               << "' is no tensor, sequence, map or optional, or has no type";
  auto element = dataTypeFromOnnx(type.tensor_type().elem_type());
  if (!element || *element == DataType::Undefined)
    return emitError(location) << "'" << name << "' has element type "
                               << type.tensor_type().elem_type() << ", which is none that is known";
  Type elementType = graph::elementType(context, *element);
  if (!type.tensor_type().has_shape())
    return Type(UnrankedTensorType::get(elementType));
  auto dims = dimsOf(type.tensor_type().shape(), name, location);
  if (failed(dims))
    return failure();
  SmallVector<int64_t> sizes;
  for (AffineExpr dim : *dims)
    if (auto size = NodeImport::known(dim); size && *size > 0)
      sizes.push_back(*size);
  if (!elementCount(sizes))
    return emitError(location) << "'" << name << "' claims a shape of " << toString(sizes)
                               << ", which is too large";
  return Type(shapes.tensorType(elementType, *dims));
}

FailureOr<Type> Importer::inputType(const onnx::ValueInfoProto &input, Location location) {
  auto given = options.shapes.find(input.name());
  if (given == options.shapes.end())
    return typeOf(input.type(), input.name(), location);
  onnx::TypeProto type = input.type();
  if (!type.has_tensor_type())
    return emitError(location) << "input '" << input.name()
                               << "' is no tensor, and can't be given a shape";
  auto &tensor = *type.mutable_tensor_type();
  if (tensor.has_shape() && size_t(tensor.shape().dim_size()) != given->second.size())
    return emitError(location) << "input '" << input.name() << "' has rank "
                               << tensor.shape().dim_size() << ", and was given a shape of "
                               << given->second.size() << " dimensions";
  tensor.clear_shape();
  tensor.mutable_shape();
  for (const std::string &text : given->second) {
    auto &dim = *tensor.mutable_shape()->add_dim();
    int64_t size = 0;
    if (!StringRef(text).getAsInteger(10, size))
      dim.set_dim_value(size);
    else
      dim.set_dim_param(text);
  }
  return typeOf(type, input.name(), location);
}

FailureOr<Value> Importer::importInitializer(const onnx::TensorProto &tensor, const RawData &raw,
                                             Location location) {
  Result<HostTensor> value = Status(StatusCode::Internal, "");
  if (raw.size) {
    auto type = tensorType(tensor);
    value = type.ok()
                ? tensorOfBytes(type->first, type->second,
                                model->file.bytes.subspan(raw.offset, raw.size), model->file.owner)
                : type.status();
  } else {
    value = readTensor(tensor, tensorSource());
  }
  if (!value.ok())
    return emitError(location) << "initialiser '" << tensor.name() << "' "
                               << value.status().message();
  Value constant = graph::GraphBuilder(builder, shapes,
                                       NameLoc::get(builder.getStringAttr(tensor.name()), location))
                       .constant(*value);
  if (options.form == ModelForm::Training && constant)
    constant.getDefiningOp()->setAttr(graph::kInitialiser, builder.getStringAttr(tensor.name()));
  return constant;
}

LogicalResult Importer::importInitializers(const onnx::GraphProto &graph, Scope &scope, bool isMain,
                                           Location location) {
  for (int i = 0; i < graph.initializer_size(); ++i) {
    const auto &tensor = graph.initializer(i);
    if (isMain && options.overridable.count(tensor.name()) && scope.values.contains(tensor.name()))
      continue;
    bool isInFile = isMain && size_t(i) < model->rawData.size();
    auto value =
        importInitializer(tensor, isInFile ? model->rawData[size_t(i)] : RawData(), location);
    if (failed(value))
      return failure();
    scope.values[tensor.name()] = *value;
  }
  for (const auto &sparse : graph.sparse_initializer()) {
    const std::string &name = sparse.values().name();
    if (isMain && options.overridable.count(name) && scope.values.contains(name))
      continue;
    auto value = readSparseTensor(sparse, tensorSource());
    if (!value.ok())
      return emitError(location) << "sparse initialiser '" << sparse.values().name() << "' "
                                 << value.status().message();
    scope.values[sparse.values().name()] =
        graph::GraphBuilder(builder, shapes, location).constant(*value);
  }
  return success();
}

/// Whether the value has few elements: by its type, or since it is a part of one that has.
static bool isSmall(Value value) {
  constexpr int64_t kMostElements = 256;
  Operation *op = value.getDefiningOp();
  if (isa_and_nonnull<graph::DynamicSliceOp, graph::DynamicReshapeOp>(op))
    return isSmall(op->getOperand(0));
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.hasStaticShape() && type.getNumElements() <= kMostElements;
}

/// Integers that are known though not from constants alone, as a tensor's shape is.
static std::optional<HostTensor> knownIntegers(Value value, graph::ShapeContext &shapes) {
  auto elements = shapes.constants(value);
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!elements || !type || !type.hasStaticShape() ||
      type.getNumElements() != int64_t(elements->size()))
    return std::nullopt;
  HostTensor tensor(graph::dataType(type.getElementType()),
                    Shape(type.getShape().begin(), type.getShape().end()));
  for (auto [i, element] : llvm::enumerate(*elements))
    tensor.setInt(int64_t(i), element);
  return tensor;
}

std::optional<HostTensor> Importer::evaluated(Value value) {
  if (value.getDefiningOp<graph::NoneOp>())
    return HostTensor();
  if (!isSmall(value))
    return std::nullopt;
  if (auto found = evaluated_.find(value); found != evaluated_.end())
    return found->second;
  if (auto known = knownIntegers(value, shapes))
    return evaluated_[value] = known;
  evaluated_[value] = std::nullopt;
  Operation *op = value.getDefiningOp();
  if (auto constant = dyn_cast_or_null<graph::ConstantOp>(op)) {
    auto tensor = graph::hostTensor(constant.getValue());
    return tensor ? evaluated_[value] = std::move(*tensor) : std::nullopt;
  }
  if (!op || !isPure(op) || op->getNumRegions() || op->getNumOperands() == 0)
    return std::nullopt;
  std::vector<HostTensor> operands;
  for (Value operand : op->getOperands()) {
    auto known = evaluated(operand);
    if (!known)
      return std::nullopt;
    operands.push_back(std::move(*known));
  }
  auto results = graph::evaluate(op, operands);
  if (!results)
    return std::nullopt;
  for (auto [result, tensor] : llvm::zip_equal(op->getResults(), *results))
    evaluated_[result] = tensor;
  return evaluated_[value];
}

LogicalResult Importer::importNodes(const Nodes &nodes, ArrayRef<std::string> wanted, Scope &scope,
                                    Location location) {
  auto order =
      orderNodes(nodes, [&](const std::string &name) { return scope.find(name) != nullptr; });
  if (!order.ok())
    return emitError(location) << order.status().message();
  return importInOrder(nodes, *order, wanted, scope);
}

/// The standard writes the numbers of a function's body in f32, whatever type the function is
/// called with: they are of the type that the operands beside them have.
static void adoptTypes(NodeImport &node, const onnx::FunctionProto &schema) {
  auto floatOf = [](Value x) {
    return x ? dyn_cast<FloatType>(getElementTypeOrSelf(x.getType())) : FloatType();
  };
  auto isNumber = [&](Value x) {
    return floatOf(x) && floatOf(x).isF32() && x.getDefiningOp<graph::ConstantOp>();
  };
  for (auto [i, number] : llvm::enumerate(node.inputs))
    for (auto [j, other] : llvm::enumerate(node.inputs))
      if (isNumber(number) && !isNumber(other) && floatOf(other) &&
          inputParameter(schema, int(i)).variable == inputParameter(schema, int(j)).variable)
        number = node.cast(number, floatOf(other));
}

LogicalResult Importer::importNode(const onnx::NodeProto &node, int number, Scope &scope) {
  Location location = locationOf(node, number, scope);
  if (++nodeCount_ > options.maxNodes)
    return emitError(location) << "the model has more than " << options.maxNodes
                               << " nodes, which is the limit";
  auto opset = scope.opsets->find(canonicalDomain(node.domain()));
  int64_t version = opset == scope.opsets->end() ? 1 : opset->second;
  const onnx::FunctionProto *schema = findSchema(node.domain(), node.op_type(), version);
  graph::GraphBuilder graph(builder, shapes, location);
  NodeImport import(*this, graph, node, schema, version, scope);
  for (const std::string &name : node.input()) {
    const Value *value = name.empty() ? nullptr : scope.find(name);
    bool isNone = value && *value && isa<NoneType>(value->getType());
    import.inputs.push_back(value && !isNone ? *value : Value());
  }
  const onnx::FunctionProto *local = localFunction(node);
  Rule rule = local ? nullptr : findRule(node.domain(), node.op_type());
  if (scope.isStandardBody && schema)
    adoptTypes(import, *schema);
  auto apply = [&](NodeImport &node) {
    LogicalResult result = rule ? rule(node) : expandFunction(node, local ? *local : *schema);
    return failure(failed(result) || node.hasFailed());
  };
  if (failed(importForRanks(import, apply)))
    return failure();
  for (int i = 0; i < node.output_size(); ++i) {
    if (node.output(i).empty())
      continue;
    if (size_t(i) >= import.results.size() || !import.results[size_t(i)])
      return import.error("the operator has no result " + Twine(i));
    scope.values[node.output(i)] = import.results[size_t(i)];
  }
  return success();
}

/// The value that a graph gives as its output of that name.
static FailureOr<Value> resultOf(const Scope &scope, const std::string &output, Location location) {
  const Value *value = scope.find(output);
  if (!value || !*value)
    return emitError(location) << "output '" << output
                               << "' is no input, no initialiser and no node's result";
  return *value;
}

static SmallVector<std::string> outputNames(const onnx::GraphProto &graph) {
  SmallVector<std::string> names;
  for (const auto &output : graph.output())
    names.push_back(output.name());
  return names;
}

FailureOr<SmallVector<Value>> Importer::importSubgraph(const onnx::GraphProto &graph, Scope &scope,
                                                       Location location) {
  if (failed(importInitializers(graph, scope, /*isMain=*/false, location)) ||
      failed(importNodes(graph.node(), outputNames(graph), scope, location)))
    return failure();
  SmallVector<Value> results;
  for (const auto &output : graph.output()) {
    auto value = resultOf(scope, output.name(), location);
    if (failed(value))
      return failure();
    results.push_back(*value);
  }
  return results;
}

/// The outputs, and tensors on the way that are kept.
static SmallVector<std::string> wantedNames(const onnx::GraphProto &graph,
                                            const graph::Keep &keep) {
  SmallVector<std::string> names = outputNames(graph);
  names.append(keep.names.begin(), keep.names.end());
  if (keep.all)
    for (const auto &node : graph.node())
      names.append(node.output().begin(), node.output().end());
  return names;
}

LogicalResult Importer::importMainGraph(func::FuncOp function) {
  const onnx::GraphProto &graph = model->proto.graph();
  Location location = function.getLoc();
  llvm::StringSet<> initialized;
  for (const auto &tensor : graph.initializer())
    initialized.insert(tensor.name());
  for (const auto &tensor : graph.sparse_initializer())
    initialized.insert(tensor.values().name());
  Scope scope;
  scope.opsets = &opsets_;
  Block *block = function.addEntryBlock();
  builder.setInsertionPointToEnd(block);
  SmallVector<mlir::Attribute> inputNames, outputNames;
  for (const auto &input : graph.input()) {
    if (initialized.contains(input.name()) && !options.overridable.count(input.name()))
      continue;
    auto type = inputType(input, location);
    if (failed(type))
      return failure();
    if (scope.values.contains(input.name()))
      return emitError(location) << "input '" << input.name() << "' is declared twice";
    scope.values[input.name()] = block->addArgument(*type, location);
    inputNames.push_back(builder.getStringAttr(input.name()));
  }
  for (const auto &tensor : graph.initializer()) {
    if (!options.overridable.count(tensor.name()) || scope.values.contains(tensor.name()))
      continue;
    auto type = tensorType(tensor);
    if (!type.ok())
      return emitError(location) << "initialiser '" << tensor.name() << "' "
                                 << type.status().message();
    Type element = graph::elementType(builder.getContext(), type->first);
    scope.values[tensor.name()] =
        block->addArgument(RankedTensorType::get(type->second, element), location);
    inputNames.push_back(builder.getStringAttr(tensor.name()));
  }
  // One number is the size of an input of one dimension, or of a symbol.
  for (const auto &[name, shape] : options.shapes)
    if (!llvm::is_contained(inputNames, builder.getStringAttr(name)) &&
        !fixedSymbols_.contains(name))
      return emitError(location) << "a shape was given for '" << name
                                 << "', which is neither an input nor a symbol of their dimensions";
  if (failed(importInitializers(graph, scope, /*isMain=*/true, location)) ||
      failed(importNodes(graph.node(), wantedNames(graph, options.keep), scope, location)))
    return failure();
  SmallVector<Value> results;
  for (const auto &output : graph.output()) {
    auto value = resultOf(scope, output.name(), location);
    if (failed(value))
      return failure();
    int declared = output.type().tensor_type().elem_type();
    Type element = getElementTypeOrSelf(value->getType());
    if (output.type().has_tensor_type() && declared && isa<TensorType>(value->getType()) &&
        int(graph::dataType(element)) != declared)
      return emitError(location) << "output '" << output.name()
                                 << "' is declared with element type "
                                 << tensmith::name(
                                        dataTypeFromOnnx(declared).value_or(DataType::Undefined))
                                 << ", and its node gives " << element;
    results.push_back(*value);
    outputNames.push_back(builder.getStringAttr(output.name()));
  }
  builder.create<func::ReturnOp>(location, results);
  function.setFunctionType(
      builder.getFunctionType(block->getArgumentTypes(), ValueRange(results).getTypes()));
  for (auto [i, name] : llvm::enumerate(inputNames))
    function.setArgAttr(unsigned(i), "graph.name", name);
  for (auto [i, name] : llvm::enumerate(outputNames))
    function.setResultAttr(unsigned(i), "graph.name", name);
  if (failed(keepTensors(function, scope)))
    return failure();
  addUpdates(function, scope);
  return success();
}

/// Of initialisers of the main graph alone: what a node computed has no next value.
void Importer::addUpdates(func::FuncOp function, const Scope &scope) {
  std::vector<graph::NamedValue> results;
  SmallVector<StringAttr> names;
  for (const auto &tensor : model->proto.graph().initializer())
    for (auto &[old, next] : updates)
      if (const Value *value = scope.find(tensor.name()); value && *value == old) {
        results.push_back({tensor.name() + ".next", next});
        names.push_back(builder.getStringAttr(tensor.name()));
      }
  for (auto [result, name] : llvm::zip_equal(results, names)) {
    graph::addOutputs(function, {result});
    function.setResultAttr(function.getNumResults() - 1, graph::kNextOf, name);
  }
}

/// Tensors of one value (Identity's) are kept once, under the first one's name.
LogicalResult Importer::keepTensors(func::FuncOp function, const Scope &scope) {
  std::vector<graph::NamedValue> kept;
  if (options.keep.all) {
    llvm::DenseSet<Value> seen;
    for (const auto &node : model->proto.graph().node())
      for (const std::string &name : node.output()) {
        const Value *value = name.empty() ? nullptr : scope.find(name);
        if (value && *value && graph::isIntermediate(*value, function) &&
            seen.insert(*value).second)
          kept.push_back({name, *value});
      }
  }
  for (const std::string &name : options.keep.names) {
    const Value *value = scope.find(name);
    if (!value || !*value || !isa<TensorType, graph::SequenceType>(value->getType()))
      return emitError(function.getLoc())
             << "'" << name << "' is to be kept, but is no tensor of the main graph";
    bool isOutput = llvm::any_of(model->proto.graph().output(),
                                 [&](const auto &output) { return output.name() == name; });
    bool isKept =
        llvm::any_of(kept, [&](const graph::NamedValue &other) { return other.name == name; });
    if (!isOutput && !isKept)
      kept.push_back({name, *value});
  }
  graph::addOutputs(function, std::move(kept));
  return success();
}

Status Importer::checkOpsets() {
  opsets_ = opsetsOf(model->proto.opset_import());
  for (const auto &[domain, version] : opsets_) {
    int64_t newest = newestOpset(domain);
    if (version < 1 || (newest && version > newest))
      return unsupported("imports opset " + std::to_string(version) + " of domain '" +
                         (domain.empty() ? "ai.onnx" : domain) + "'; known are 1 to " +
                         std::to_string(newest) +
                         ". Convert the model with onnx.version_converter, or build with a newer "
                         "`onnx` package");
  }
  for (const auto &function : model->proto.functions())
    functions_[std::string(canonicalDomain(function.domain())) + "\n" + function.name() + "\n" +
               function.overload()] = &function;
  return {};
}

const onnx::FunctionProto *Importer::localFunction(const onnx::NodeProto &node) const {
  auto it = functions_.find(std::string(canonicalDomain(node.domain())) + "\n" + node.op_type() +
                            "\n" + node.overload());
  return it == functions_.end() ? nullptr : it->second;
}

Status Importer::importMain(ModuleOp module) {
  std::string message;
  ScopedDiagnosticHandler handler(builder.getContext(), [&](Diagnostic &diagnostic) {
    if (message.empty() && diagnostic.getSeverity() == DiagnosticSeverity::Error) {
      if (isa<NameLoc>(diagnostic.getLocation()))
        message = graph::describe(diagnostic.getLocation()) + ": ";
      message += diagnostic.str();
    }
    return success();
  });
  auto location = FileLineColLoc::get(builder.getContext(), model->name, 0, 0);
  builder.setInsertionPointToEnd(module.getBody());
  auto function = builder.create<func::FuncOp>(location, "main", builder.getFunctionType({}, {}));
  if (failed(importMainGraph(function))) {
    retire(std::make_unique<Region>());
    retired_.back()->takeBody(function.getBody());
    function.erase();
    return {StatusCode::InvalidModel, message};
  }
  for (auto &region : retired_)
    region->dropAllReferences();
  retired_.clear();
  graph::eraseDead(function); // what shape computations and unused weights left behind
  if (failed(verify(module)))
    return {StatusCode::Internal, "the imported module is inconsistent: " + message};
  return {};
}

Result<OwningOpRef<ModuleOp>> Importer::run() {
  if (Status status = checkOpsets(); !status.ok())
    return status.within(model->name);
  if (Status status = checkOperatorsSupported(*model, opsets_); !status.ok())
    return status.within(model->name);
  auto location = FileLineColLoc::get(builder.getContext(), model->name, 0, 0);
  OwningOpRef<ModuleOp> module(ModuleOp::create(location));
  Status status = importMain(*module);
  for (auto &region : retired_)
    region->dropAllReferences();
  retired_.clear();
  if (!status.ok())
    return status.within(model->name);
  return module;
}

} // namespace tensmith::onnx_import
