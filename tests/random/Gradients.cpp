// Slopes by differences and by derivatives; see Gradients.h.
#include "tests/random/Gradients.h"

#include "compiler/autodiff/Differentiate.h"
#include "compiler/graph/Constants.h"
#include "compiler/graph/Evaluate.h"
#include "compiler/graph/Gradient.h"
#include "compiler/graph/GraphBuilder.h"
#include "tests/random/Check.h"

#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/Verifier.h"

#include <cmath>

using namespace mlir;

namespace tensmith::random_graphs {
namespace {

using Tensors = std::vector<HostTensor>;
constexpr double kDistance = 1e-5, kAgreement = 2e-6;

bool isReal(Type type) { return graph::isDifferentiable(type); }

HostTensor asDoubles(const HostTensor &tensor) {
  HostTensor result(DataType::F64, tensor.shape());
  for (int64_t i = 0; i < tensor.size(); ++i)
    result.setDouble(i, tensor.getDouble(i));
  return result;
}

/// All floats of 16 and 32 bits become f64.
void widenFloats(ModuleOp module) {
  module.walk([](graph::ConstantOp op) {
    auto tensor = graph::hostTensor(op.getValue());
    if (tensor.ok() && isReal(op.getType()))
      op.setValueAttr(graph::elementsAttr(op.getContext(), asDoubles(*tensor)));
  });
  AttrTypeReplacer replacer;
  replacer.addReplacement([](Type type) -> std::optional<std::pair<Type, WalkResult>> {
    if (type.isF16() || type.isBF16() || type.isF32())
      return std::pair(Type(Float64Type::get(type.getContext())), WalkResult::skip());
    return std::nullopt;
  });
  replacer.addReplacement(
      [](mlir::ElementsAttr value) -> std::optional<std::pair<mlir::Attribute, WalkResult>> {
        return std::pair(mlir::Attribute(value), WalkResult::skip());
      });
  // A number in an attribute stays as its record has it.
  replacer.addReplacement(
      [](mlir::FloatAttr value) -> std::optional<std::pair<mlir::Attribute, WalkResult>> {
        return std::pair(mlir::Attribute(value), WalkResult::skip());
      });
  replacer.recursivelyReplaceElementsIn(module, /*replaceAttrs=*/true, /*replaceLocs=*/false,
                                        /*replaceTypes=*/true);
}

/// Results of integers become f64 too: what only jumps has a slope of zero, and what nobody knows
/// is to be refused.
void castIntegerResults(func::FuncOp main) {
  Operation *exit = main.getBody().front().getTerminator();
  OpBuilder builder(exit);
  graph::ShapeContext shapes(main.getContext());
  graph::GraphBuilder code(builder, shapes, main.getLoc());
  for (OpOperand &result : exit->getOpOperands())
    if (isa<TensorType>(result.get().getType()) &&
        getElementTypeOrSelf(result.get().getType()).isIntOrIndex())
      result.set(code.cast(result.get(), builder.getF64Type()));
  main.setFunctionType(builder.getFunctionType(main.getArgumentTypes(), exit->getOperandTypes()));
}

HostTensor drawDirection(const Shape &shape, Random &random) {
  HostTensor result(DataType::F64, shape);
  for (int64_t i = 0; i < result.size(); ++i)
    result.setDouble(i, 2 * random.real() - 1);
  return result;
}

HostTensor moved(const HostTensor &x, const HostTensor &direction, double by) {
  HostTensor result(DataType::F64, x.shape());
  for (int64_t i = 0; i < x.size(); ++i)
    result.setDouble(i, x.getDouble(i) + by * direction.getDouble(i));
  return result;
}

double inner(const HostTensor &a, const HostTensor &b) {
  double sum = 0;
  for (int64_t i = 0; i < a.size(); ++i)
    sum += a.getDouble(i) * b.getDouble(i);
  return sum;
}

Result<Tensors> evaluated(func::FuncOp function, const Tensors &inputs) {
  auto values = graph::evaluate(function, {inputs.begin(), inputs.end()});
  if (!values.ok())
    return values.status();
  Tensors result;
  for (graph::RuntimeValue &value : *values)
    result.push_back(value.tensor);
  return result;
}

/// A graph, at a point, with a direction for each input of floats and a weight for each result.
struct Point {
  Tensors inputs, directions;
  HostTensor weights;
  unsigned result = 0;
};

/// The slope of the weighted result along the directions; nothing where two distances differ.
std::optional<double> slopeOf(func::FuncOp function, const Point &point, double &scale) {
  double slopes[2], largest = 0;
  for (int i : {0, 1}) {
    double distance = kDistance / (1 << (2 * i)), values[2];
    for (int side : {0, 1}) {
      Tensors inputs;
      for (auto [x, direction] : llvm::zip_equal(point.inputs, point.directions))
        inputs.push_back(direction.size() == x.size() && x.type() == DataType::F64
                             ? moved(x, direction, side ? -distance : distance)
                             : x);
      auto results = evaluated(function, inputs);
      if (!results.ok() || (*results)[point.result].shape() != point.weights.shape())
        return std::nullopt;
      values[side] = inner((*results)[point.result], point.weights);
      for (int64_t k = 0; k < point.weights.size(); ++k)
        largest = std::max(largest, std::abs((*results)[point.result].getDouble(k)));
    }
    slopes[i] = (values[0] - values[1]) / (2 * distance);
  }
  scale = std::max({std::abs(slopes[0]), largest, 1e-3});
  bool agree = std::abs(slopes[0] - slopes[1]) <= kAgreement * scale;
  return agree && std::isfinite(slopes[0]) ? std::optional(slopes[1]) : std::nullopt;
}

std::string inputName(func::FuncOp function, unsigned number) {
  auto name = function.getArgAttrOfType<StringAttr>(number, "graph.name");
  return name ? name.str() : "input" + std::to_string(number);
}
std::string outputName(func::FuncOp function, unsigned number) {
  auto name = function.getResultAttrOfType<StringAttr>(number, "graph.name");
  return name ? name.str() : "output" + std::to_string(number);
}

class GradientCheck {
public:
  GradientCheck(ModuleOp module, uint64_t seed, const GradientOptions &options)
      : module_(cast<ModuleOp>(module->clone())), random_(seed), options_(options) {}

  GradientReport run() {
    auto main = module_->lookupSymbol<func::FuncOp>("main");
    std::vector<Sizes> runs = runsOf(main);
    auto drawn = drawInputs(main, runs.front());
    if (!drawn.ok())
      return failed(drawn.status());
    widenFloats(*module_);
    castIntegerResults(main);
    for (HostTensor &tensor : *drawn)
      point_.inputs.push_back(isFloat(tensor.type()) ? jittered(tensor) : tensor);
    auto results = evaluated(main, point_.inputs);
    if (!results.ok())
      return failed(results.status());
    for (const HostTensor &input : point_.inputs)
      point_.directions.push_back(input.type() == DataType::F64
                                      ? drawDirection(input.shape(), random_)
                                      : HostTensor(DataType::F64, {0}));
    for (unsigned i = 0; i < main.getNumResults() && report_.error.empty(); ++i) {
      if (!isReal(main.getResultTypes()[i]))
        continue;
      point_.result = i;
      point_.weights = drawDirection((*results)[i].shape(), random_);
      checkResult(main);
    }
    return report_;
  }

private:
  GradientReport failed(const Status &status) {
    report_.error = status.message();
    return report_;
  }

  /// Not at kinks, which inputs that are whole numbers would often be.
  HostTensor jittered(const HostTensor &tensor) {
    HostTensor result = asDoubles(tensor);
    for (int64_t i = 0; i < result.size(); ++i) {
      double x = result.getDouble(i);
      result.setDouble(i, x + (x < 0 ? -1 : 1) * (0.01 + 0.02 * random_.real()));
    }
    return result;
  }

  OwningOpRef<ModuleOp> differentiated(ModuleOp module, const autodiff::Derivative &derivative) {
    OwningOpRef<ModuleOp> copy(cast<ModuleOp>(module->clone()));
    Status status = autodiff::differentiate(copy->lookupSymbol<func::FuncOp>("main"), derivative);
    if (status.ok() && mlir::failed(mlir::verify(*copy)))
      status = Status(StatusCode::Internal, "the derivative is no valid graph");
    if (!status.ok())
      report_.error = status.message();
    return status.ok() ? std::move(copy) : OwningOpRef<ModuleOp>();
  }

  void compare(func::FuncOp function, const Point &point, double derivative, const char *what) {
    double scale = 1;
    ++report_.compared;
    if (point.weights.size() == 0) // nor do means of nothing say anything
      return;
    auto slope = slopeOf(function, point, scale);
    if (!slope)
      return;
    ++report_.smooth;
    if (!(std::abs(*slope - derivative) <= 20 * kAgreement * scale) && report_.difference.empty())
      report_.difference = std::string(what) + " of result " + std::to_string(point.result) +
                           " gives a slope of " + std::to_string(derivative) + " where it is " +
                           std::to_string(*slope);
  }

  void checkResult(func::FuncOp main) {
    autodiff::Derivative reverse, forward;
    forward.mode = autodiff::Mode::Forward;
    reverse.takesCotangent = true;
    reverse.of = forward.of = {outputName(main, point_.result)};
    SmallVector<unsigned> wanted;
    for (unsigned i = 0; i < main.getNumArguments(); ++i)
      if (isReal(main.getArgumentTypes()[i]))
        wanted.push_back(i);
    for (unsigned number : wanted)
      reverse.withRespectTo.push_back(inputName(main, number));
    forward.withRespectTo = reverse.withRespectTo;
    if (wanted.empty())
      return;
    auto gradient = differentiated(*module_, reverse);
    if (!gradient)
      return;
    auto function = gradient->lookupSymbol<func::FuncOp>("main");
    Tensors inputs = point_.inputs;
    inputs.push_back(point_.weights);
    auto results = evaluated(function, inputs);
    if (!results.ok()) {
      report_.error = "the gradient: " + results.status().message();
      return;
    }
    double total = 0;
    size_t own = main.getNumResults();
    for (auto [position, number] : llvm::enumerate(wanted)) {
      if ((*results)[own + position].shape() != point_.inputs[number].shape()) {
        report_.difference = "the gradient has another shape than its input";
        return;
      }
      total += inner((*results)[own + position], point_.directions[number]);
    }
    compare(main, point_, total, "the gradient");
    checkTangent(main, forward, wanted);
    if (options_.second && report_.error.empty())
      checkSecond(*gradient, wanted, own, *results);
    if (options_.compile && report_.error.empty())
      checkCompiled(*gradient);
  }

  void checkTangent(func::FuncOp main, const autodiff::Derivative &forward,
                    ArrayRef<unsigned> wanted) {
    auto module = differentiated(*module_, forward);
    if (!module)
      return;
    Tensors inputs = point_.inputs;
    for (unsigned number : wanted)
      inputs.push_back(point_.directions[number]);
    auto results = evaluated(module->lookupSymbol<func::FuncOp>("main"), inputs);
    if (!results.ok()) {
      report_.error = "the tangent: " + results.status().message();
      return;
    }
    compare(main, point_, inner(results->back(), point_.weights), "the tangent");
  }

  /// The gradient by the first input, differentiated along all.
  void checkSecond(ModuleOp gradient, ArrayRef<unsigned> wanted, size_t own,
                   const Tensors &results) {
    auto function = gradient.lookupSymbol<func::FuncOp>("main");
    autodiff::Derivative forward;
    forward.mode = autodiff::Mode::Forward;
    forward.of = {outputName(function, unsigned(own))};
    for (unsigned number : wanted)
      forward.withRespectTo.push_back(inputName(function, number));
    auto module = differentiated(gradient, forward);
    if (!module)
      return;
    Point point = point_;
    point.result = unsigned(own);
    point.inputs.push_back(point_.weights);
    point.directions.push_back(HostTensor(DataType::F64, {0}));
    point.weights = drawDirection(results[own].shape(), random_);
    Tensors inputs = point.inputs;
    for (unsigned number : wanted)
      inputs.push_back(point_.directions[number]);
    auto second = evaluated(module->lookupSymbol<func::FuncOp>("main"), inputs);
    if (!second.ok()) {
      report_.error = "the second derivative: " + second.status().message();
      return;
    }
    compare(function, point, inner(second->back(), point.weights), "the second derivative");
  }

  /// The gradient's code gives what its reference does.
  void checkCompiled(ModuleOp gradient) {
    auto function = gradient.lookupSymbol<func::FuncOp>("main");
    Builder builder(function.getContext());
    unsigned last = function.getNumArguments() - 1;
    function.setArgAttr(last, kSeedAttribute, builder.getI64IntegerAttr(7));
    function.setArgAttr(last, kKindAttribute, builder.getStringAttr("small"));
    Report compiled = check(gradient, {});
    if (compiled.verdict != Verdict::Agrees && compiled.verdict != Verdict::NotEvaluated &&
        report_.difference.empty())
      report_.difference =
          "the gradient's code " + nameOf(compiled.verdict).str() + ": " + compiled.message;
  }

  OwningOpRef<ModuleOp> module_;
  Random random_;
  const GradientOptions &options_;
  Point point_;
  GradientReport report_;
};

} // namespace

GradientReport checkGradients(ModuleOp module, uint64_t seed, const GradientOptions &options) {
  return GradientCheck(module, seed, options).run();
}

} // namespace tensmith::random_graphs
