// Uses of operators, and sizes; see EvaluatedOperators.h.
#include "frontends/text/EvaluatedOperators.h"

#include "base/Philox.h"
#include "compiler/graph/Constants.h"
#include "reference/Reference.h"

#include <algorithm>
#include <cmath>

using namespace mlir;

namespace tensmith::text {

const Expr *operandOf(const Expr &use, const Relation &relation, size_t index) {
  size_t first = use.kind == Expr::Kind::Call; // after the operator's name
  if (first + index < use.parts.size())
    return use.parts[first + index].get();
  for (const Argument &argument : use.arguments)
    if (index < relation.info->operands.size() &&
        relation.info->operands[index].name == argument.name)
      return argument.value.get();
  return nullptr;
}

std::optional<int64_t> EvaluatedOperators::sizeOf(AffineExpr size) const {
  if (auto constant = dyn_cast<AffineConstantExpr>(size))
    return constant.getValue();
  if (auto symbol = dyn_cast<AffineSymbolExpr>(size)) {
    auto found = sizes_.find(program_.types.shapes.symbols()[symbol.getPosition()].str());
    return found == sizes_.end() ? std::nullopt : std::optional(found->second);
  }
  auto pair = cast<AffineBinaryOpExpr>(size);
  auto a = sizeOf(pair.getLHS()), b = sizeOf(pair.getRHS());
  if (!a || !b)
    return std::nullopt;
  switch (pair.getKind()) {
  case AffineExprKind::Add:
    return *a + *b;
  case AffineExprKind::Mul:
    return *a * *b;
  case AffineExprKind::FloorDiv:
    return *b > 0 ? std::optional(*a / *b - (*a % *b < 0)) : std::nullopt;
  case AffineExprKind::CeilDiv:
    return *b > 0 ? std::optional(*a / *b + (*a % *b > 0)) : std::nullopt;
  default:
    return *b > 0 ? std::optional((*a % *b + *b) % *b) : std::nullopt;
  }
}

Status EvaluatedOperators::check(const HostTensor &result, const Dims &dims) const {
  if (result.rank() != int64_t(dims.size()))
    return invalidArgument("a value has " + std::to_string(result.rank()) +
                           " dimensions where its type has " + std::to_string(dims.size()));
  for (size_t i = 0; i < dims.size(); ++i)
    if (auto size = sizeOf(dims[i]); size && *size != result.shape()[i])
      return invalidArgument("a value has shape " + toString(result.shape()) + " where dimension " +
                             std::to_string(i) + " of its type is " + std::to_string(*size));
  return {};
}

Status EvaluatedOperators::bindTensor(const HostTensor &tensor, Term *type) {
  DataType element = Types::find(type->parts[0])->element;
  Term *shape = Types::find(type->parts[1]);
  if (tensor.type() != element || tensor.rank() != int64_t(shape->parts.size()))
    return invalidArgument("expected " + program_.types.print(type) + ", found " +
                           std::string(name(tensor.type())) + " of shape " +
                           toString(tensor.shape()));
  Dims dims;
  for (size_t i = 0; i < shape->parts.size(); ++i) {
    Term *size = Types::find(shape->parts[i]);
    if (size->kind != Term::Kind::Size)
      continue;
    if (auto symbol = dyn_cast<AffineSymbolExpr>(size->size))
      sizes_.try_emplace(program_.types.shapes.symbols()[symbol.getPosition()].str(),
                         tensor.shape()[i]);
    if (auto known = sizeOf(size->size); known && *known != tensor.shape()[i])
      return invalidArgument("expected " + program_.types.print(type) + ", where " +
                             program_.types.print(size) + " is " + std::to_string(*known) +
                             ", found shape " + toString(tensor.shape()));
  }
  return {};
}

/// What lies in a value of a data type is looked at without recursion: lists are long.
Status EvaluatedOperators::bindInput(const ValueRef &input, Term *wanted) {
  std::map<std::string, std::vector<std::vector<Term *>>> fields; // of each type's constructors
  std::vector<std::pair<const Value *, Term *>> waiting = {{input.get(), wanted}};
  while (!waiting.empty()) {
    auto [value, term] = waiting.back();
    waiting.pop_back();
    Term *type = Types::find(term);
    bool tensor = type->kind == Term::Kind::Tensor;
    if ((value->kind == Value::Kind::Tensor) != tensor ||
        (!tensor && value->kind != Value::Kind::Data) || type->kind == Term::Kind::Function)
      return invalidArgument("expected " + program_.types.print(type) +
                             ", found a value of another kind");
    if (tensor) {
      if (Status status = bindTensor(value->tensor, type); !status.ok())
        return status;
      continue;
    }
    std::vector<std::vector<Term *>> &known = fields[program_.types.print(type)];
    if (known.empty() && type->kind == Term::Kind::Tuple)
      known.push_back(type->parts);
    if (known.empty()) {
      const TypeDecl *decl = program_.names.types.at(type->name);
      for (uint32_t tag = 0; tag < decl->constructors.size(); ++tag)
        known.push_back(program_.inference.fields({decl, tag}, type));
    }
    if (value->tag >= known.size() || value->fields.size() != known[value->tag].size())
      return invalidArgument("a value is not built as " + program_.types.print(type) +
                             " says: constructor " + std::to_string(value->tag) + " with " +
                             std::to_string(value->fields.size()) + " fields");
    for (size_t i = value->fields.size(); i-- > 0;)
      waiting.push_back({value->fields[i].get(), known[value->tag][i]});
  }
  return {};
}

Result<const EvaluatedOperators::Use *> EvaluatedOperators::use(const Relation &relation) {
  auto [found, isNew] = uses_.try_emplace(&relation);
  if (!isNew)
    return &found->second;
  std::string error;
  Operation *op = program_.relations.stand(relation, error);
  if (!op)
    return invalidArgument(error);
  found->second.attributes = graph::attributes(op);
  for (Type type : op->getResultTypes()) {
    auto ranked = cast<RankedTensorType>(type);
    auto dims = program_.types.shapes.dims(ranked);
    found->second.results.push_back(
        {graph::dataType(ranked.getElementType()), {dims.begin(), dims.end()}});
  }
  return &found->second;
}

static double largestOf(const HostTensor &tensor) {
  double largest = 0;
  for (int64_t i = 0; isFloat(tensor.type()) && i < tensor.size(); ++i)
    if (double value = std::abs(tensor.getDouble(i)); std::isfinite(value))
      largest = std::max(largest, value);
  return largest;
}

void EvaluatedOperators::disturb(const std::vector<HostTensor> &operands, HostTensor &result) {
  if (!isFloat(result.type()))
    return;
  double largest = largestOf(result);
  for (const HostTensor &operand : operands)
    largest = std::max(largest, largestOf(operand));
  HostTensor moved(result.type(), result.shape()); // the result may lie in somebody's memory
  std::uniform_real_distribution<double> draw(-1, 1);
  for (int64_t i = 0; i < result.size(); ++i)
    moved.setDouble(i, result.getDouble(i) + options_.noise * largest * draw(random_));
  result = std::move(moved);
}

/// What has a seed draws.
static bool isRandom(const OperatorInfo &info) {
  return std::any_of(info.attributes.begin(), info.attributes.end(),
                     [](const OperatorInfo::Attribute &one) { return one.name == "seed"; });
}

/// The run's key, which a constant has none of.
static Result<HostTensor> runKey(const std::optional<uint64_t> &key) {
  if (!key)
    return invalidArgument("run_key() is another number in each run, and a constant is one in all");
  HostTensor tensor(DataType::I64, {});
  tensor.setInt(0, int64_t(*key));
  return tensor;
}

Result<std::vector<ValueRef>> EvaluatedOperators::evaluate(const Relation &relation,
                                                           const std::vector<ValueRef> &operands) {
  auto known = use(relation);
  if (!known.ok())
    return known.status();
  std::vector<reference::ResultType> types;
  for (const auto &[type, dims] : (*known)->results) {
    Shape shape;
    for (AffineExpr dim : dims)
      if (auto size = sizeOf(dim))
        shape.push_back(*size);
    types.push_back({type, shape.size() == dims.size() ? std::optional(shape) : std::nullopt});
  }
  std::vector<HostTensor> tensors;
  for (const ValueRef &operand : operands)
    tensors.push_back(operand->tensor);
  Attributes attributes = (*known)->attributes;
  if (options_.draws && isRandom(*relation.info))
    attributes.set("seed", int64_t(mixedSeed(*options_.draws, ++draws_) >> 1));
  if (relation.info->name == "run_key") {
    auto key = runKey(options_.runKey);
    if (!key.ok())
      return key.status();
    return std::vector<ValueRef>{Value::of(std::move(*key))};
  }
  auto computed = reference::evaluate({relation.info->name, attributes, tensors, types});
  if (!computed.ok())
    return computed.status();
  std::vector<ValueRef> results;
  for (size_t i = 0; i < (*known)->results.size(); ++i) {
    if (Status status = check((*computed)[i], (*known)->results[i].second); !status.ok())
      return status;
    if (options_.noise != 0)
      disturb(tensors, (*computed)[i]);
    results.push_back(Value::of(std::move((*computed)[i])));
  }
  return results;
}

} // namespace tensmith::text
