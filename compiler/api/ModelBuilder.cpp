// Operators are tried with results of no type first, so that only what its record allows reaches a
// shape function; see ModelBuilder.h.
#include "compiler/api/ModelBuilder.h"

#include "compiler/api/BuilderAttributes.h"
#include "compiler/api/Dialects.h"
#include "compiler/api/SizeExpression.h"
#include "compiler/graph/Constants.h"
#include "compiler/graph/Inference.h"
#include "compiler/graph/States.h"
#include "compiler/graph/TypeText.h"

using namespace mlir;

namespace tensmith {
namespace {

constexpr size_t kDeepestRegion = 200; // regions in one another

Type scalarOf(Type element) { return RankedTensorType::get({}, element); }

bool isTyped(StringRef name) {
  return llvm::is_contained({"graph.reshape", "graph.broadcast", "graph.slice", "graph.iota",
                             "graph.random_uniform", "graph.random_normal"},
                            name);
}

bool hasRegions(StringRef name) {
  return llvm::is_contained({"graph.if", "graph.loop", "graph.kernel"}, name);
}

template <unsigned N> bool takes(OperationName name) {
  return name.hasTrait<OpTrait::NOperands<N>::template Impl>();
}

/// How many operands the record has; nothing where that differs.
std::optional<size_t> operandCount(OperationName name) {
  if (name.hasTrait<OpTrait::ZeroOperands>())
    return 0;
  if (name.hasTrait<OpTrait::OneOperand>())
    return 1;
  const std::pair<size_t, bool> counts[] = {
      {2, takes<2>(name)}, {3, takes<3>(name)}, {4, takes<4>(name)}, {5, takes<5>(name)},
      {6, takes<6>(name)}, {7, takes<7>(name)}, {8, takes<8>(name)}};
  for (auto [count, is] : counts)
    if (is)
      return count;
  return std::nullopt;
}

size_t resultCount(OperationName name) {
  return name.hasTrait<OpTrait::NResults<2>::Impl>()   ? 2
         : name.hasTrait<OpTrait::NResults<3>::Impl>() ? 3
         : name.hasTrait<OpTrait::NResults<4>::Impl>() ? 4
                                                       : 1;
}

std::string textOf(Location location) {
  if (auto name = dyn_cast<NameLoc>(location))
    return name.getName().str();
  return "";
}

} // namespace

ModelBuilder::ModelBuilder()
    : context_(modelDialects(), MLIRContext::Threading::DISABLED), builder_(&context_),
      shapes_(&context_) {
  context_.loadAllAvailableDialects();
  context_.printOpOnDiagnostic(false);
  Location location = UnknownLoc::get(&context_);
  module_ = ModuleOp::create(location);
  main_ = func::FuncOp::create(location, "main", builder_.getFunctionType({}, {}));
  module_->push_back(main_);
  builder_.setInsertionPointToEnd(main_.addEntryBlock());
}

Result<SmallVector<Value>>
ModelBuilder::reported(llvm::function_ref<FailureOr<SmallVector<Value>>()> work) {
  std::string message;
  ScopedDiagnosticHandler handler(&context_, [&](Diagnostic &diagnostic) {
    if (!message.empty() || diagnostic.getSeverity() != DiagnosticSeverity::Error)
      return success();
    std::string place = textOf(diagnostic.getLocation());
    message = (place.empty() ? "" : place + ": ") + diagnostic.str();
    return success();
  });
  auto made = work();
  if (succeeded(made))
    return *made;
  return invalidArgument(message.empty() ? "the operator can't be made" : message);
}

/// Whether attributes and operands are what the record asks for. All constraints of those come
/// before those of the results, which no operator has without a type.
Status ModelBuilder::tryOperator(const OperationState &given) {
  SmallVector<Type> types(resultCount(given.name), builder_.getNoneType());
  OperationState state(given.location, given.name, given.operands, types,
                       given.attributes.getAttrs());
  std::string message;
  ScopedDiagnosticHandler handler(&context_, [&](Diagnostic &diagnostic) {
    if (message.empty())
      message = diagnostic.str();
    return success();
  });
  OpBuilder detached(&context_);
  Operation *op = detached.create(state);
  bool isGood =
      succeeded(op->getName().verifyInvariants(op)) || StringRef(message).contains(" op result #");
  op->destroy();
  std::string place = textOf(state.location);
  return isGood ? Status() : invalidArgument((place.empty() ? "" : place + ": ") + message);
}

Result<Value> ModelBuilder::value(ts_value number) const {
  if (number == TS_NO_VALUE || number > values_.size())
    return invalidArgument("there is no value " + std::to_string(number));
  if (Value value = values_[number - 1])
    return value;
  return invalidArgument("value " + std::to_string(number) +
                         " is of a region that has ended; a region gives values by its yield");
}

Result<SmallVector<Value>> ModelBuilder::values(ArrayRef<ts_value> numbers) {
  SmallVector<Value> result;
  for (ts_value number : numbers) {
    auto known = value(number);
    if (!known.ok())
      return known.status();
    result.push_back(*known);
  }
  return result;
}

ts_value ModelBuilder::add(Value value) {
  values_.push_back(value);
  return ts_value(values_.size());
}

std::vector<ts_value> ModelBuilder::add(ValueRange values) {
  std::vector<ts_value> numbers;
  for (Value value : values)
    numbers.push_back(add(value));
  return numbers;
}

Location ModelBuilder::locationOf(const char *text) {
  if (!text || !*text)
    return UnknownLoc::get(&context_);
  return NameLoc::get(builder_.getStringAttr(text));
}

Status ModelBuilder::checkOutside() const {
  return open_.empty() ? Status()
                       : invalidArgument("a region of '" + open_.back().operation +
                                         "' is open; end it by a yield first");
}

Status ModelBuilder::takeName(llvm::StringSet<> &names, const char *name, const char *what) {
  if (!*name)
    return invalidArgument(std::string(what) + " has an empty name");
  if (!names.insert(name).second)
    return invalidArgument(std::string(what) + " '" + name + "' is there already");
  return {};
}

Result<Type> ModelBuilder::typeOf(const ts_value_type &type) {
  Type element;
  if (type.type > TS_UNDEFINED && type.type < kDataTypeCount)
    element = graph::elementType(&context_, DataType(type.type));
  if (!element)
    return invalidArgument("there is no element type " + std::to_string(int(type.type)));
  if (type.rank < 0)
    return Type(UnrankedTensorType::get(element));
  if (type.rank > graph::kMostDimensions)
    return invalidArgument("a tensor has " + std::to_string(type.rank) + " dimensions; " +
                           std::to_string(graph::kMostDimensions) + " are possible");
  if (type.rank && !type.dims)
    return invalidArgument("the dimensions are a null pointer");
  SmallVector<AffineExpr> dims;
  Shape known;
  for (int64_t i = 0; i < type.rank; ++i) {
    if (!type.dims[i])
      return invalidArgument("dimension " + std::to_string(i) + " is a null pointer");
    auto size = parseSize(type.dims[i], shapes_);
    if (!size.ok())
      return size.status();
    if (auto constant = graph::constantOf(*size))
      known.push_back(*constant);
    dims.push_back(*size);
  }
  if (!elementCount(known))
    return invalidArgument("a tensor of " + toString(known) +
                           " has no possible number of elements");
  return Type(shapes_.tensorType(element, dims));
}

Result<ts_value> ModelBuilder::input(const char *name, const ts_value_type &type) {
  if (Status status = checkOutside(); !status.ok())
    return status;
  auto known = typeOf(type);
  if (!known.ok())
    return known.status().within("input '" + std::string(name) + "'");
  if (Status status = takeName(inputNames_, name, "input"); !status.ok())
    return status;
  inputs_.push_back(name);
  return add(main_.front().addArgument(*known, locationOf(name)));
}

Result<ts_value> ModelBuilder::constant(const char *name, const HostTensor &tensor) {
  if (name)
    if (Status status = takeName(inputNames_, name, "constant"); !status.ok())
      return status;
  auto made = reported([&]() -> FailureOr<SmallVector<Value>> {
    Value value = graph::GraphBuilder(builder_, shapes_, locationOf(name)).constant(tensor);
    if (!value)
      return failure();
    return SmallVector<Value>{value};
  });
  if (!made.ok()) {
    if (name)
      inputNames_.erase(name);
    return made.status();
  }
  if (name)
    (*made)[0].getDefiningOp()->setAttr(graph::kInitialiser, builder_.getStringAttr(name));
  return add((*made)[0]);
}

Result<std::vector<ts_value>> ModelBuilder::op(const char *name, ArrayRef<ts_value> operands,
                                               ArrayRef<ts_attribute> attributes,
                                               const ts_value_type *result, const char *place) {
  std::string full = StringRef(name).contains('.') ? name : "graph." + std::string(name);
  Location location = locationOf(place);
  std::string where = place && *place ? place : full;
  OperationState state(location, full);
  if (!state.name.isRegistered() || !state.name.hasInterface<graph::ShapeFunction>() ||
      hasRegions(full))
    return invalidArgument("there is no operator '" + std::string(name) + "'" +
                           (hasRegions(full) ? " without regions" : ""))
        .within(where);
  if (isTyped(full) != (result != nullptr))
    return invalidArgument(
               "'" + full + "' " +
               (result ? "infers its result's type, and is given one" : "needs its result's type"))
        .within(where);
  auto given = operatorAttributes(state.name, attributes, context_);
  if (!given.ok())
    return given.status().within(where);
  state.addAttributes(*given);
  auto count = operandCount(state.name);
  if (count && operands.size() > *count)
    return invalidArgument("'" + full + "' takes " + std::to_string(*count) + " operands, not " +
                           std::to_string(operands.size()))
        .within(where);
  SmallVector<Operation *> absent;
  auto addAbsent = [&] {
    auto none = builder_.create<graph::NoneOp>(location, builder_.getNoneType());
    absent.push_back(none);
    state.addOperands(none.getResult());
  };
  auto dropAbsent = [&] {
    for (Operation *none : absent)
      none->erase();
  };
  for (ts_value operand : operands) {
    if (operand == TS_NO_VALUE) {
      addAbsent();
      continue;
    }
    auto known = value(operand);
    if (!known.ok()) {
      dropAbsent();
      return known.status().within(where);
    }
    state.addOperands(*known);
  }
  while (count && state.operands.size() < *count)
    addAbsent();
  Result<Type> type = result ? typeOf(*result) : Result<Type>(Type());
  Status status = type.ok() ? tryOperator(state) : type.status();
  if (!status.ok()) {
    dropAbsent();
    return status.within(where);
  }
  auto made = reported([&]() -> FailureOr<SmallVector<Value>> {
    graph::GraphBuilder graph(builder_, shapes_, location);
    Operation *op = result ? graph.createTyped(full, *type, state.operands, *given)
                           : graph.create(full, state.operands, *given);
    if (!op)
      return failure();
    return SmallVector<Value>(op->getResults());
  });
  if (made.ok())
    return add(ValueRange(*made));
  dropAbsent();
  return made.status().within(where);
}

Status ModelBuilder::checkDepth() const {
  return open_.size() < kDeepestRegion ? Status()
                                       : invalidArgument("regions are nested more than " +
                                                         std::to_string(kDeepestRegion) + " deep");
}

void ModelBuilder::openRegion() {
  Open &open = open_.back();
  auto &region = open.regions.emplace_back(std::make_unique<Region>());
  builder_.setInsertionPointToEnd(&region->emplaceBlock());
}

Status ModelBuilder::beginIf(ts_value condition, const char *place) {
  if (Status status = checkDepth(); !status.ok())
    return status;
  auto known = value(condition);
  if (!known.ok())
    return known.status();
  if (known->getType() != scalarOf(builder_.getI1Type()))
    return invalidArgument("the condition of an if is a boolean scalar, not " +
                           graph::typeText(known->getType()));
  open_.push_back(
      {"if", locationOf(place), {*known}, {}, 2, builder_.saveInsertionPoint(), values_.size()});
  openRegion();
  return {};
}

Result<std::vector<ts_value>> ModelBuilder::beginLoop(ts_value trips, ts_value condition,
                                                      ArrayRef<ts_value> carried,
                                                      const char *place) {
  if (Status status = checkDepth(); !status.ok())
    return status;
  Location location = locationOf(place);
  SmallVector<Type> types{scalarOf(builder_.getI64Type()), scalarOf(builder_.getI1Type())};
  SmallVector<Value> operands;
  const ts_value asked[] = {trips, condition};
  for (auto [i, number] : llvm::enumerate(asked)) {
    if (number == TS_NO_VALUE) {
      operands.push_back({});
      continue;
    }
    auto known = value(number);
    if (!known.ok())
      return known.status();
    if (known->getType() != types[i])
      return invalidArgument(std::string(i ? "the condition" : "the number of trips") +
                             " of a loop is a scalar of " + (i ? "booleans" : "i64") + ", not " +
                             graph::typeText(known->getType()));
    operands.push_back(*known);
  }
  auto initial = values(carried);
  if (!initial.ok())
    return initial.status();
  for (Value &operand : operands)
    if (!operand)
      operand = builder_.create<graph::NoneOp>(location, builder_.getNoneType());
  for (Value value : *initial) {
    operands.push_back(value);
    types.push_back(value.getType());
  }
  open_.push_back(
      {"loop", location, operands, {}, 1, builder_.saveInsertionPoint(), values_.size()});
  openRegion();
  Block *body = builder_.getInsertionBlock();
  body->addArguments(types, SmallVector<Location>(types.size(), location));
  return add(ValueRange(body->getArguments()));
}

Result<std::vector<ts_value>> ModelBuilder::yield(ArrayRef<ts_value> numbers) {
  if (open_.empty())
    return invalidArgument("there is no open region to yield from");
  Open &open = open_.back();
  auto given = values(numbers);
  if (!given.ok())
    return given.status();
  bool isLoop = open.operation == "loop";
  size_t carried = open.operands.size() - (isLoop ? 2 : 1);
  if (isLoop && given->size() < 1 + carried)
    return invalidArgument("a loop with " + std::to_string(carried) +
                           " carried values yields the condition and those, not " +
                           std::to_string(given->size()) + " values");
  if (isLoop && (*given)[0].getType() != scalarOf(builder_.getI1Type()))
    return invalidArgument("the first value that a loop yields is the condition, a boolean scalar");
  for (size_t i = 0; isLoop && i < carried; ++i)
    if ((*given)[1 + i].getType() != open.operands[2 + i].getType())
      return invalidArgument("carried value " + std::to_string(i) + " is " +
                             graph::typeText(open.operands[2 + i].getType()) + " before and " +
                             graph::typeText((*given)[1 + i].getType()) + " after an iteration");
  Block *block = builder_.getInsertionBlock();
  builder_.create<graph::YieldOp>(open.location, *given);
  if (open.regions.size() < open.regionCount) {
    std::fill(values_.begin() + ptrdiff_t(open.valuesOutside), values_.end(), Value());
    openRegion();
    return std::vector<ts_value>();
  }
  auto results = close();
  if (!results.ok())
    block->getTerminator()->erase();
  return results;
}

Result<std::vector<ts_value>> ModelBuilder::close() {
  Open &open = open_.back();
  Operation *op = nullptr;
  auto made = reported([&]() -> FailureOr<SmallVector<Value>> {
    auto last = cast<graph::YieldOp>(open.regions.back()->front().getTerminator());
    bool isLoop = open.operation == "loop";
    OperationState state(open.location, "graph." + open.operation);
    state.addOperands(open.operands);
    state.addTypes(
        SmallVector<Type>(last.getValues().size() - (isLoop ? 1 : 0), builder_.getNoneType()));
    for (auto &region : open.regions)
      state.addRegion(std::move(region));
    OpBuilder outside(&context_);
    outside.restoreInsertionPoint(open.outside);
    op = outside.create(state);
    SmallVector<Type> types;
    if (failed(cast<graph::ShapeFunction>(op).inferResults(shapes_, types)))
      return failure();
    for (auto [result, type] : llvm::zip_equal(op->getResults(), types))
      result.setType(type);
    return SmallVector<Value>(op->getResults());
  });
  if (!made.ok()) { // the regions are open as before
    for (auto [kept, region] : llvm::zip_equal(open.regions, op->getRegions())) {
      kept = std::make_unique<Region>();
      kept->takeBody(region);
    }
    op->erase();
    return made.status();
  }
  builder_.restoreInsertionPoint(open.outside);
  std::fill(values_.begin() + ptrdiff_t(open.valuesOutside), values_.end(), Value());
  open_.pop_back();
  return add(ValueRange(*made));
}

Status ModelBuilder::output(const char *name, ts_value number) {
  if (Status status = checkOutside(); !status.ok())
    return status;
  auto known = value(number);
  if (!known.ok())
    return known.status().within("output '" + std::string(name) + "'");
  if (Status status = takeName(outputNames_, name, "output"); !status.ok())
    return status;
  outputs_.emplace_back(name, *known);
  return {};
}

Status ModelBuilder::state(const char *input, const char *output) {
  if (Status status = checkOutside(); !status.ok())
    return status;
  auto from = llvm::find(inputs_, input);
  auto to = llvm::find_if(outputs_, [&](const auto &each) { return each.first == output; });
  if (from == inputs_.end() || to == outputs_.end())
    return invalidArgument(from == inputs_.end()
                               ? "'" + std::string(input) + "' is no input; add it first"
                               : "'" + std::string(output) + "' is no output; add it first");
  std::string what = "state '" + std::string(input) + "', '" + output + "': ";
  auto numbers = std::pair(size_t(from - inputs_.begin()), size_t(to - outputs_.begin()));
  Type before = main_.front().getArgument(unsigned(numbers.first)).getType();
  auto type = dyn_cast<RankedTensorType>(before);
  if (!type || !type.hasStaticShape() || to->second.getType() != type)
    return invalidArgument(what + "the input and the output must have one type of fixed sizes");
  for (auto [otherInput, otherOutput] : states_)
    if (otherInput == numbers.first || otherOutput == numbers.second)
      return invalidArgument(what + "the " + (otherInput == numbers.first ? "input" : "output") +
                             " is another state's");
  states_.push_back(numbers);
  return {};
}

ArrayRef<const char *> ModelBuilder::keepTexts(std::vector<std::string> texts) {
  texts_ = std::move(texts);
  pointers_.clear();
  for (const std::string &text : texts_)
    pointers_.push_back(text.c_str());
  return pointers_;
}

Result<ts_value_type> ModelBuilder::type(ts_value number) {
  auto known = value(number);
  if (!known.ok())
    return known.status();
  Type type = known->getType();
  if (!isa<TensorType>(type))
    return invalidArgument("value " + std::to_string(number) + " is no tensor");
  auto element = ts_type(graph::dataType(getElementTypeOrSelf(type)));
  auto ranked = dyn_cast<RankedTensorType>(type);
  if (!ranked)
    return ts_value_type{element, -1, nullptr};
  std::vector<std::string> dims;
  for (AffineExpr dim : shapes_.dims(ranked))
    dims.push_back(graph::dimText(shapes_.tensorType(ranked.getElementType(), dim), 0));
  ArrayRef<const char *> kept = keepTexts(std::move(dims));
  return ts_value_type{element, ranked.getRank(), kept.data()};
}

Result<ArrayRef<const char *>> ModelBuilder::contents(ts_value number) {
  auto known = value(number);
  if (!known.ok())
    return known.status();
  auto elements = shapes_.contents(*known);
  std::vector<std::string> texts;
  if (elements)
    for (AffineExpr element : *elements)
      texts.push_back(graph::constantOf(element)
                          ? std::to_string(*graph::constantOf(element))
                          : graph::dimText(shapes_.tensorType(builder_.getI64Type(), element), 0));
  return keepTexts(std::move(texts));
}

} // namespace tensmith
