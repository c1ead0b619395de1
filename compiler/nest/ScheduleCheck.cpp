// Statements with schedules as operators of their own, to nests; see ScheduleCheck.h.
#include "compiler/nest/ScheduleCheck.h"

#include "compiler/graph/Constants.h"
#include "compiler/graph/GraphBuilder.h"
#include "compiler/nest/ComprehensionNest.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace tensmith::nest {
namespace {

using comprehension::Function;
using comprehension::ScheduleLine;
using Refused = std::vector<std::pair<ScheduleLine, std::string>>;

/// A function as an operator over another's arguments, and its statements each as one.
class Checker {
public:
  Checker(const std::string &text, const Function &function, const TargetUnits &units,
          MLIRContext &context)
      : text_(text), function_(function), units_(units), shapes_(&context), builder_(&context),
        module_(ModuleOp::create(builder_.getUnknownLoc())), types_(function.tensors.size()) {
    for (size_t input = 0; input < function.inputs; ++input)
      types_[input] = typeOf(function.tensors[input]);
  }

  /// `lines` are all that the text has.
  void check(tensmith::Place definition, const std::vector<ScheduleLine> &lines, Refused &into) {
    if (!lines.empty() && lines[0].isWhole && lines[0].isOf(definition)) {
      if (graph::ComprehensionOp op = operation(std::nullopt))
        apply(op, true, lines, into);
      return;
    }
    for (size_t number = 0; number < function_.statements.size(); ++number) {
      std::vector<ScheduleLine> own;
      for (const ScheduleLine &each : lines)
        if (each.isOf(function_.statements[number].place))
          own.push_back(each);
      graph::ComprehensionOp op = operation(number);
      if (!op) // what is wrong with sizes is known from where they are
        return;
      types_[function_.statements[number].target] = op.getResult().getType();
      if (!own.empty())
        apply(op, false, own, into);
    }
  }

private:
  Type typeOf(const comprehension::Tensor &tensor) {
    SmallVector<AffineExpr> dims;
    for (const comprehension::ExprRef &extent : tensor.extents)
      dims.push_back(extent->kind == comprehension::Expr::Kind::Integer
                         ? shapes_.constant(extent->integer)
                         : shapes_.symbol(builder_.getStringAttr(extent->text)));
    return shapes_.tensorType(graph::elementType(shapes_.mlirContext(), tensor.type), dims);
  }

  /// Of the statement, or of all.
  graph::ComprehensionOp operation(std::optional<size_t> statement) {
    Location location = builder_.getUnknownLoc();
    SmallVector<Type> types;
    for (size_t operand : comprehension::operandsOf(function_, statement))
      types.push_back(types_[operand]);
    if (llvm::is_contained(types, Type()))
      return nullptr;
    int64_t number = statement ? int64_t(*statement) : -1;
    auto around = func::FuncOp::create(location, "statement" + std::to_string(number + 1),
                                       builder_.getFunctionType(types, {}));
    module_->push_back(around);
    builder_.setInsertionPointToEnd(around.addEntryBlock());
    graph::GraphBuilder graph(builder_, shapes_, location);
    return dyn_cast_or_null<graph::ComprehensionOp>(graph.create<graph::ComprehensionOp>(
        around.getArguments(), {graph.named("text", builder_.getStringAttr(text_)),
                                graph.named("function", builder_.getStringAttr(function_.name)),
                                graph.named("statement", builder_.getI64IntegerAttr(number))}));
  }

  void apply(graph::ComprehensionOp op, bool isWhole, const std::vector<ScheduleLine> &lines,
             Refused &into) {
    Result<SizedNest> made = nestOf(op, isWhole);
    auto schedule = made ? Schedule::of(made->nest) : Result<Schedule>(made.status());
    if (!schedule) {
      into.push_back({lines[0], schedule.status().message()});
      return;
    }
    schedule->setTarget(units_);
    for (const ScheduleLine &each : lines)
      if (Status status = schedule->apply(each.text); !status.ok()) {
        llvm::StringRef words = status.message();
        words.consume_front("line 1: ");
        into.push_back({each, words.str()});
        return;
      }
  }

  const std::string &text_;
  const Function &function_;
  const TargetUnits &units_;
  graph::ShapeContext shapes_;
  OpBuilder builder_;
  OwningOpRef<ModuleOp> module_;
  std::vector<Type> types_; // of tensors
};

} // namespace

Refused refusedLines(const std::string &text, const TargetUnits &units, MLIRContext &context) {
  std::vector<Message> messages;
  std::vector<Comment> comments;
  comprehension::Module module = comprehension::parse(text, messages, &comments);
  std::vector<ScheduleLine> lines = comprehension::schedulesOf(module, comments, messages);
  ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) { return success(); });
  Refused result;
  for (const comprehension::Definition &definition : module.definitions) {
    Function function = comprehension::analyse(module, definition, messages);
    if (!messages.empty() || lines.empty())
      return {};
    // Of a definition that another one calls, the lines are looked at once.
    std::vector<ScheduleLine> own;
    for (const ScheduleLine &each : lines)
      if (each.place.line >= definition.place.line && each.place.line <= definition.end.line)
        own.push_back(each);
    Checker(text, function, units, context).check(definition.place, own, result);
  }
  return result;
}

} // namespace tensmith::nest
