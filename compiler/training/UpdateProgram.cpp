// A program of the language with a main for the types at hand, read, evaluated and copied; see
// UpdateProgram.h.
#include "compiler/training/UpdateProgram.h"

#include "compiler/graph/Constants.h"
#include "compiler/graph/Dialects.h"
#include "compiler/graph/Graph.h"
#include "compiler/graph/Precision.h"
#include "compiler/program/PartialEvaluation.h"
#include "compiler/program/Program.h"
#include "frontends/text/Ast.h"
#include "frontends/text/Import.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MemoryBuffer.h"

#include <filesystem>

using namespace mlir;

namespace tensmith::training {
namespace {

struct BuiltIn {
  const char *kind, *name, *text;
};

constexpr BuiltIn kBuiltIns[] = {
#include "compiler/training/programs.inc"
};

const BuiltIn *findBuiltIn(const std::string &kind, const std::string &name) {
  for (const BuiltIn &known : kBuiltIns)
    if (known.kind == kind && known.name == name)
      return &known;
  return nullptr;
}

/// "f32[4, 3]". A size that the run tells, as of the rows of a table, is the same one everywhere.
std::string typeText(Type type) {
  auto ranked = cast<RankedTensorType>(type);
  std::string text(tensmith::name(graph::dataType(ranked.getElementType())));
  text += '[';
  for (auto [i, size] : llvm::enumerate(ranked.getShape()))
    text += (i ? ", " : "") + (ShapedType::isDynamic(size) ? "rows" : std::to_string(size));
  return text + ']';
}

std::string joined(const std::vector<std::string> &parts) {
  std::string text;
  for (const std::string &part : parts)
    text += (text.empty() ? "" : ", ") + part;
  return text;
}

/// Sizes by the names that the operands have here, and not in the program.
LogicalResult nameSizes(Operation *op) {
  auto isOpen = [](Type type) {
    auto shaped = dyn_cast<ShapedType>(type); // graph.none has no shape
    return shaped && !shaped.hasStaticShape();
  };
  if (llvm::none_of(op->getResultTypes(), isOpen))
    return success();
  graph::ShapeContext shapes(op->getContext());
  SmallVector<Type> types;
  if (!isa<graph::ShapeFunction>(op) ||
      failed(cast<graph::ShapeFunction>(op).inferResults(shapes, types)))
    return failure();
  for (auto [result, type] : llvm::zip_equal(op->getResults(), types))
    result.setType(type);
  return success();
}

bool isDouble(Type type) { return cast<RankedTensorType>(type).getElementType().isF64(); }

/// Errors in the line that calls the function, behind the program's own, are errors of the
/// function.
Status inFunction(const Status &status, const std::string &name, const std::string &text,
                  const std::string &function) {
  std::string line = name + ":" + std::to_string(llvm::count(text, '\n') + 2) + ":";
  std::string message = status.message();
  for (size_t at = 0; (at = message.find(line, at)) != std::string::npos;) {
    size_t end = message.find(':', at + line.size());
    message.replace(at, end - at, name + ": " + function);
    at += name.size();
  }
  return {status.code(), message};
}

/// What the procedure gives, a tuple taken apart.
SmallVector<Value> resultsOf(func::FuncOp procedure) {
  Value result = procedure.getBody().front().getTerminator()->getOperand(0);
  auto tuple = result.getDefiningOp<program::ConstructOp>();
  return tuple ? SmallVector<Value>(tuple.getFields()) : SmallVector<Value>{result};
}

/// Of a module of one call.
func::FuncOp procedureOf(ModuleOp module) {
  auto main = module.lookupSymbol<func::FuncOp>("main");
  auto enter = *main.getBody().getOps<program::EnterOp>().begin();
  return module.lookupSymbol<func::FuncOp>(enter.getProcedure());
}

/// Whether a constant beside rows of that rank has the same numbers for each of them.
bool isSameForRows(Type type, int64_t rank) {
  auto ranked = dyn_cast<RankedTensorType>(type);
  return isa<NoneType>(type) ||
         (ranked &&
          (ranked.getRank() < rank || (ranked.getRank() == rank && ranked.getDimSize(0) == 1)));
}

} // namespace

std::string knownPrograms(const std::string &kind) {
  std::vector<std::string> names;
  for (const BuiltIn &known : kBuiltIns)
    if (known.kind == kind)
      names.push_back(known.name);
  return joined(names);
}

Result<UpdateProgram>
UpdateProgram::read(const std::string &kind, const std::string &given, const std::string &function,
                    const std::vector<std::pair<std::string, double>> &settings,
                    MLIRContext *context) {
  UpdateProgram program;
  program.context_ = context;
  if (const BuiltIn *known = findBuiltIn(kind, given)) {
    program.name_ = given + ".tsm";
    program.text_ = known->text;
  } else if (StringRef(given).ends_with(".tsm")) {
    auto buffer = llvm::MemoryBuffer::getFile(given, /*IsText=*/false);
    if (!buffer)
      return Status(StatusCode::IoError, given + ": " + buffer.getError().message());
    program.name_ = given;
    program.text_ = (*buffer)->getBuffer().str();
    program.folder_ = std::filesystem::absolute(given).parent_path().string();
  } else {
    return invalidArgument("there is no " + kind + " '" + given + "'; known are " +
                           knownPrograms(kind) + ", and programs (.tsm)");
  }
  std::vector<text::Message> messages;
  text::Module module = text::parse(program.text_, messages);
  if (!messages.empty())
    return Status(StatusCode::InvalidModel,
                  program.name_ + ":" + std::to_string(messages[0].place.line) + ":" +
                      std::to_string(messages[0].place.column) + ": " + messages[0].text);
  for (const text::FunctionDecl &declared : module.functions) {
    if (declared.constant) {
      program.settings_.push_back(declared.name);
      using Kind = text::Expr::Kind;
      double number;
      if (declared.body &&
          (declared.body->kind == Kind::Integer || declared.body->kind == Kind::Real) &&
          !StringRef(declared.body->text).getAsDouble(number))
        program.written_[declared.name] = number;
      else if (declared.name == kLazyRows)
        return Status(StatusCode::InvalidModel,
                      program.name_ + ":" + std::to_string(declared.place.line) + ": " + kLazyRows +
                          " must be written as a number, 0 or 1, since it is asked before the "
                          "program is evaluated");
      continue;
    }
    std::vector<std::string> &parameters = program.functions_[declared.name];
    for (const text::Parameter &parameter : declared.params)
      parameters.push_back(parameter.name);
  }
  if (!program.call(function))
    return Status(StatusCode::InvalidModel, program.name_ + ": has no function " + function +
                                                ", which is what of a program the " + kind + " is");
  for (const auto &[name, value] : settings)
    if (llvm::is_contained(program.settings_, name))
      program.constants_[name] = value;
  return program;
}

double UpdateProgram::setting(const std::string &name) const {
  for (const auto *known : {&constants_, &written_})
    if (auto found = known->find(name); found != known->end())
      return found->second;
  return 0;
}

bool UpdateProgram::call(const std::string &function) {
  auto found = functions_.find(function);
  if (found == functions_.end())
    return false;
  function_ = function;
  parameters_ = found->second;
  return true;
}

std::unique_ptr<UpdateProgram> UpdateProgram::other(const std::string &function) const {
  std::unique_ptr<UpdateProgram> program(new UpdateProgram);
  program->name_ = name_;
  program->text_ = text_;
  program->folder_ = folder_;
  program->settings_ = settings_;
  program->functions_ = functions_;
  program->constants_ = constants_;
  program->written_ = written_;
  program->context_ = context_;
  return program->call(function) ? std::move(program) : nullptr;
}

/// The procedure that the function is, for arguments of those types.
Result<func::FuncOp> UpdateProgram::instance(const std::vector<Type> &arguments) {
  std::string parameters;
  for (auto [name, type] : llvm::zip_equal(parameters_, arguments))
    parameters += (parameters.empty() ? "" : ", ") + name + ": " + typeText(type);
  OwningOpRef<ModuleOp> &known = instances_[parameters];
  if (known)
    return procedureOf(*known);
  std::string text =
      text_ + "\nfn main(" + parameters + ") = " + function_ + "(" + joined(parameters_) + ")\n";
  text::ImportOptions options;
  options.folder = folder_;
  options.constants = constants_;
  if (llvm::any_of(arguments, isDouble))
    options.reals = DataType::F64;
  auto imported = text::import(text, name_, *context_, options);
  if (!imported.ok())
    return inFunction(imported.status(), name_, text_, function_);
  program::evaluatePartially(**imported);
  known = std::move(*imported);
  return procedureOf(*known);
}

Result<std::vector<Value>> UpdateProgram::inOrder(const NamedValues &arguments) const {
  std::vector<Value> given;
  for (const std::string &name : parameters_) {
    auto found = llvm::find_if(arguments, [&](auto &argument) { return argument.first == name; });
    if (found == arguments.end())
      return invalidArgument(name_ + ": " + function_ + " has a parameter '" + name +
                             "', which is nothing that it is given");
    given.push_back(found->second);
  }
  return given;
}

Result<SmallVector<Value>> UpdateProgram::apply(const NamedValues &arguments, OpBuilder &builder) {
  auto given = inOrder(arguments);
  if (!given.ok())
    return given.status();
  std::vector<Type> types;
  for (Value value : *given)
    types.push_back(value.getType());
  auto procedure = instance(types);
  if (!procedure.ok())
    return procedure.status();
  SmallVector<Value> results = resultsOf(*procedure);
  IRMapping mapping;
  mapping.map(procedure->getBody().front().getArguments(), *given);
  for (Operation &op : procedure->getBody().front().without_terminator()) {
    if (isa<program::ConstructOp>(op))
      continue;
    if (!graph::isOperator(&op))
      return unsupported(name_ + ": " + function_ +
                         " does not come to tensor code alone: a loop, a branch or a reference is "
                         "left of it when its types are known");
    Operation *copy = builder.clone(op, mapping);
    if (failed(nameSizes(copy)))
      return unsupported(name_ + ": " + function_ +
                         " can't be applied to as many rows as the run tells");
    if (!isa<graph::Elementwise>(copy))
      graph::keepPrecision(copy);
  }
  for (Value &result : results) {
    if (!isa<TensorType>(result.getType()))
      return unsupported(name_ + ": " + function_ + " gives a value that is no tensor");
    result = mapping.lookupOrDefault(result);
  }
  return results;
}

/// Seen for any number of rows, so that what depends on their number or places (sizes, places,
/// random numbers, sums) is there as an operator, and no constant that came of it.
bool UpdateProgram::goesByRows(const NamedValues &arguments, RankedTensorType table) {
  auto given = inOrder(arguments);
  if (!given.ok())
    return false;
  SmallVector<int64_t> rows(table.getShape());
  rows[0] = ShapedType::kDynamic;
  std::vector<Type> types;
  for (Value value : *given) {
    auto type = cast<RankedTensorType>(value.getType());
    types.push_back(type.getShape() == table.getShape() ? type.clone(rows) : type);
  }
  auto procedure = instance(types);
  if (!procedure.ok())
    return false;
  SmallVector<Value> results = resultsOf(*procedure);
  llvm::SetVector<Value> values(results.begin(), results.end());
  for (size_t next = 0; next < values.size(); ++next) {
    Operation *op = values[next].getDefiningOp();
    if (!op) // an argument
      continue;
    bool isSame = op->hasTrait<OpTrait::ConstantLike>() &&
                  isSameForRows(values[next].getType(), table.getRank());
    if (!isSame && !isa<graph::Elementwise>(op))
      return false;
    values.insert(op->operand_begin(), op->operand_end());
  }
  return true;
}

} // namespace tensmith::training
