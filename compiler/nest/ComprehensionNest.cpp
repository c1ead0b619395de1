// Ranges to domains, and the statements around a comprehension's one; see ComprehensionNest.h.
#include "compiler/nest/ComprehensionNest.h"

#include "compiler/graph/ComprehensionSizes.h"
#include "compiler/graph/Constants.h"
#include "compiler/nest/ComprehensionValue.h"
#include "reference/comprehension/Affine.h"

#include <set>

using namespace mlir;

namespace tensmith::nest {

using comprehension::Assignment;
using CExpr = comprehension::Expr;
using comprehension::ExprRef;

namespace {

class Bridge {
public:
  Bridge(graph::ComprehensionOp op, const graph::ComprehensionView &view, bool isWhole)
      : op_(op), view_(view), isWhole_(isWhole), shapes_(op.getContext()),
        sizes_(view, op, shapes_), parameters_(made_, shapes_) {}

  Result<SizedNest> run() {
    made_.nest.name = view_.function->name;
    addTensors();
    for (const comprehension::Statement &each : view_.function->statements)
      if (isWhole_ || &each == view_.single())
        addStatement(each);
    if (!refusal_.empty())
      return unsupported("comprehension '" + made_.nest.name + "': " + refusal_);
    made_.symbols.assign(shapes_.symbols().begin(), shapes_.symbols().end());
    return std::move(made_);
  }

private:
  ComprehensionValue::Scope scope(const std::vector<Constraint> &domain) {
    return {iterators_, domain, tensors_, [this](const CExpr &expr) { return affine(expr); },
            [this](const std::string &name) -> const Tensor & { return *made_.nest.tensor(name); }};
  }

  /// An identifier that nothing else has.
  std::string unique(std::string name) {
    for (char &each : name)
      if (!std::isalnum(static_cast<unsigned char>(each)))
        each = '_';
    name = name.substr(0, 48);
    std::string result = name;
    for (int number = 1; !taken_.insert(result).second; ++number)
      result = name + "_" + std::to_string(number);
    return result;
  }

  // ---- tensors

  std::optional<Affine> ofSizes(const CExpr &expr) {
    AffineExpr value = sizes_.of(expr);
    if (!value)
      return std::nullopt;
    return parameters_.affine(shapes_.simplify(value));
  }

  std::vector<Affine> extentsOf(const comprehension::Tensor &tensor) {
    std::vector<Affine> extents;
    for (const ExprRef &each : tensor.extents) {
      auto extent = ofSizes(*each);
      if (!extent)
        refuse("a size of '" + tensor.name + "' is not affine in sizes");
      extents.push_back(extent.value_or(0));
    }
    return extents;
  }

  void addTensors() {
    if (!isWhole_)
      for (const char *each : {"start", "copy", "update", "finish", "sum"})
        taken_.insert(each);
    std::map<unsigned, std::string> names; // of the block's arguments
    for (auto [operand, tensor] : llvm::enumerate(view_.operands)) {
      auto argument = dyn_cast<BlockArgument>(op_->getOperand(unsigned(operand)));
      if (!argument)
        return refuse("an operand is computed in the kernel");
      std::string &name = names[argument.getArgNumber()];
      if (name.empty())
        name = unique(view_.function->tensors[tensor].name);
      tensors_[tensor] = name;
    }
    for (BlockArgument argument : op_->getBlock()->getArguments()) {
      auto type = dyn_cast<RankedTensorType>(argument.getType());
      DataType element = type ? graph::dataType(type.getElementType()) : DataType::Undefined;
      if (element == DataType::Undefined)
        return refuse("an operand is no tensor of numbers");
      std::string &name = names[argument.getArgNumber()];
      if (name.empty())
        name = unique("unused");
      made_.nest.tensors.push_back({name, element, parameters_.extents(type), Tensor::Role::Input});
    }
    result_ = unique(view_.function->tensors[view_.result].name);
    made_.nest.tensors.push_back({result_, view_.function->tensors[view_.result].type,
                                  parameters_.extents(op_->getResult(0).getType()),
                                  Tensor::Role::Output});
  }

  /// Whether elements that the statement overwrites are read by its value: then it writes into
  /// another tensor.
  static bool readsOld(const comprehension::Statement &statement) {
    bool result = false;
    visit(*statement.value, [&](const CExpr &part) {
      result |= part.kind == CExpr::Kind::Read && size_t(part.integer) == statement.target;
    });
    return result;
  }

  /// Whether a later statement makes the same target anew.
  bool isMadeAgain(const comprehension::Statement &statement) const {
    const auto &all = view_.function->statements;
    return std::any_of(&statement + 1, all.data() + all.size(),
                       [&](const comprehension::Statement &later) {
                         return later.target == statement.target && readsOld(later);
                       });
  }

  /// The tensor that the statement writes, by its name.
  std::string targetOf(const comprehension::Statement &statement) {
    const comprehension::Tensor &target = view_.function->tensors[statement.target];
    if (!isWhole_)
      return result_;
    auto known = tensors_.find(statement.target);
    if (known != tensors_.end() && !readsOld(statement))
      return known->second;
    bool isLast = !isMadeAgain(statement);
    if (isLast && statement.target == view_.result)
      return result_;
    std::string name = unique(target.name + (isLast ? "" : "_before"));
    made_.nest.tensors.push_back({name, target.type, extentsOf(target), Tensor::Role::Local});
    return name;
  }

  // ---- expressions

  void refuse(std::string why) {
    if (refusal_.empty())
      refusal_ = std::move(why);
  }

  /// Indices of several statements that have one name have it here, too.
  void nameIterators() {
    iterators_.clear();
    for (const comprehension::Index &index : statement_->indices) {
      std::string &name = names_[index.name];
      if (name.empty())
        name = unique(index.name);
      iterators_.push_back(name);
    }
  }

  std::optional<Affine> affine(const CExpr &expr) {
    if (expr.kind == CExpr::Kind::Index)
      return Affine(iterators_[size_t(expr.integer)]);
    bool hasIndex = comprehension::hasIndices(expr);
    if (!hasIndex)
      return ofSizes(expr);
    if (expr.kind == CExpr::Kind::Unary && expr.text == "-") {
      auto inner = affine(*expr.parts[0]);
      return inner ? std::optional(-1 * *inner) : inner;
    }
    if (expr.kind != CExpr::Kind::Binary)
      return std::nullopt;
    auto a = affine(*expr.parts[0]), b = affine(*expr.parts[1]);
    if (!a || !b)
      return std::nullopt;
    if (expr.text == "+")
      return *a + *b;
    if (expr.text == "-")
      return *a - *b;
    if (expr.text == "*" && (a->isConstant() || b->isConstant()))
      return a->isConstant() ? a->constant * *b : b->constant * *a;
    return std::nullopt;
  }

  // ---- the domain

  /// Of x <= min(a, b) both parts, of x >= max(a, b) as well.
  void bound(const CExpr &expr, const std::string &name, bool isUpper,
             std::vector<Constraint> &into) {
    if (auto value = affine(expr)) {
      into.push_back(isUpper ? less(name, *value) : atLeast(name, *value));
      return;
    }
    if (expr.kind == CExpr::Kind::Binary && expr.text == (isUpper ? "min" : "max")) {
      for (const ExprRef &part : expr.parts)
        bound(*part, name, isUpper, into);
      return;
    }
    refuse("the bound '" + print(expr) + "' of '" + name + "' is not affine");
  }

  /// What the signature requires concerns all statements, what one requires itself.
  bool concerns(const comprehension::Requirement &each) const {
    size_t number = size_t(statement_ - view_.function->statements.data());
    return sizes_.concerns(each) &&
           (!isWhole_ || each.statement == SIZE_MAX || each.statement == number);
  }

  std::vector<Constraint> domainOf() {
    std::vector<Constraint> domain;
    for (size_t number = 0; number < statement_->indices.size(); ++number) {
      bound(*statement_->indices[number].low, iterators_[number], false, domain);
      bound(*statement_->indices[number].high, iterators_[number], true, domain);
    }
    for (const comprehension::Requirement &each : view_.function->requirements) {
      if (!concerns(each))
        continue;
      auto a = ofSizes(*each.a), b = ofSizes(*each.b);
      if (!a || !b || !sizes_.conditionOf(each)) {
        refuse("what it requires of sizes is not affine in them");
        return domain;
      }
      domain.push_back(each.isEqual ? equal(*a, *b) : atLeast(*b, *a));
    }
    return domain;
  }

  // ---- statements

  Reduction reductionOf() const {
    static constexpr Reduction all[] = {Reduction::None, Reduction::Add, Reduction::Multiply,
                                        Reduction::Minimum, Reduction::Maximum};
    return all[size_t(statement_->assignment)];
  }

  /// "update", or of a whole definition "C_update".
  std::string named(const std::string &role) {
    return isWhole_ ? unique(targetTensor().name + "_" + role) : role;
  }

  const comprehension::Tensor &targetTensor() const {
    return view_.function->tensors[statement_->target];
  }

  /// One that goes over all elements of the target, by the names of its indices.
  Statement overTarget(std::string name, const std::string &tensor) {
    Statement result;
    result.name = std::move(name);
    result.tensor = tensor;
    const Tensor &whole = *made_.nest.tensor(target_);
    for (size_t dim = 0; dim < statement_->rank; ++dim) {
      result.iterators.push_back(iterators_[dim]);
      for (Constraint &each : within(iterators_[dim], 0, whole.extents[dim]))
        result.domain.push_back(std::move(each));
      result.indices.push_back(index(iterators_[dim]));
    }
    return result;
  }

  std::vector<Expr> places() {
    std::vector<Expr> result;
    for (size_t dim = 0; dim < statement_->rank; ++dim) {
      auto low = affine(*targetTensor().lows[dim]);
      result.push_back(index(Affine(iterators_[dim]) - low.value_or(0)));
    }
    return result;
  }

  void addStatement(const comprehension::Statement &statement) {
    if (!refusal_.empty())
      return;
    statement_ = &statement;
    nameIterators();
    std::vector<Constraint> domain = domainOf();
    ComprehensionValue value(view_, scope(domain));
    Expr own = value.of(*statement.value);
    if (!value.refusal().empty())
      refuse(value.refusal());
    if (!refusal_.empty())
      return;
    target_ = targetOf(statement);
    addStatements(std::move(domain), std::move(own));
    if (isWhole_)
      tensors_[statement.target] = target_;
  }

  /// The statement, in front of it one that begins its target, and behind it one that rounds it,
  /// where there has to be one.
  void addStatements(std::vector<Constraint> domain, Expr value) {
    DataType type = targetTensor().type, own = computedAs(type);
    bool isReduced = statement_->assignment != Assignment::Set;
    std::string into = target_;
    if (isReduced && own != type) {
      into = isWhole_ ? named("sum") : "sum";
      Tensor sum{into, own, made_.nest.tensor(target_)->extents, Tensor::Role::Local};
      made_.nest.tensors.push_back(std::move(sum));
    }
    DataType stored = into == target_ ? type : own;
    auto converted = [&](Expr e, DataType to) { return e->type == to ? e : cast(to, e); };
    bool keeps = statement_->readsTarget();
    std::string old = keeps ? tensors_.at(statement_->target) : "";
    if (keeps ? into != old : isReduced || !statement_->coversTarget) {
      Statement first = overTarget(named(keeps ? "copy" : "start"), into);
      Expr begin =
          keeps ? load(*made_.nest.tensor(old), first.indices) : identity(reductionOf(), stored);
      first.value = converted(begin, stored);
      made_.nest.statements.push_back(std::move(first));
    }
    Statement update;
    update.name = named("update");
    update.iterators = iterators_;
    update.domain = std::move(domain);
    update.tensor = into;
    update.indices = places();
    update.reduction = reductionOf();
    update.value = converted(std::move(value), stored);
    made_.nest.statements.push_back(std::move(update));
    if (into != target_) {
      Statement last = overTarget(named("finish"), target_);
      last.value = cast(type, load(*made_.nest.tensor(into), last.indices));
      made_.nest.statements.push_back(std::move(last));
    }
  }

  graph::ComprehensionOp op_;
  const graph::ComprehensionView &view_;
  bool isWhole_;
  const comprehension::Statement *statement_ = nullptr;
  graph::ShapeContext shapes_;
  graph::ComprehensionSizes sizes_;
  SizedNest made_;
  Parameters parameters_;
  std::set<std::string> taken_;
  std::map<size_t, std::string> tensors_;    // the comprehension's, by what they are called now
  std::map<std::string, std::string> names_; // of iterators, by those of indices
  std::vector<std::string> iterators_;
  std::string result_, target_, refusal_;
};

} // namespace

Result<SizedNest> nestOf(graph::ComprehensionOp op, bool isWhole) {
  graph::ComprehensionView view = graph::viewOf(op);
  if (!view || (!isWhole && !view.single()))
    return unsupported("a comprehension of several statements is decomposed first");
  return Bridge(op, view, isWhole).run();
}

} // namespace tensmith::nest
