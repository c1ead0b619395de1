// Results and states as attributes of the function, so that no pass needs to know of them; see
// StepFunction.h.
#include "compiler/training/StepFunction.h"

#include "compiler/graph/States.h"

using namespace mlir;

namespace tensmith::training {

static constexpr llvm::StringLiteral kName = "graph.name";

static std::string nameOf(StringAttr name, const char *stem, unsigned number) {
  return name && !name.empty() ? name.str() : stem + std::to_string(number);
}

StepFunction::StepFunction(func::FuncOp function)
    : function(function), own_(function.getNumArguments()) {
  for (auto [i, name] : llvm::enumerate(inputNames()))
    arguments_.try_emplace(name, unsigned(i));
}

std::vector<std::string> StepFunction::inputNames() {
  std::vector<std::string> names;
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    names.push_back(nameOf(function.getArgAttrOfType<StringAttr>(i, kName), "input", i));
  return names;
}

std::vector<StepFunction::Output> StepFunction::outputs() {
  std::vector<Output> result;
  for (auto [i, value] : llvm::enumerate(exit()->getOperands()))
    result.push_back({nameOf(function.getResultAttrOfType<StringAttr>(unsigned(i), kName), "output",
                             unsigned(i)),
                      value});
  return result;
}

void StepFunction::setOutputs(ArrayRef<Output> outputs) {
  Builder builder(function.getContext());
  SmallVector<Value> values;
  SmallVector<DictionaryAttr> attributes;
  for (const Output &output : outputs) {
    values.push_back(output.value);
    attributes.push_back(
        builder.getDictionaryAttr(builder.getNamedAttr(kName, builder.getStringAttr(output.name))));
  }
  exit()->setOperands(values);
  function.setFunctionType(
      builder.getFunctionType(block().getArgumentTypes(), ValueRange(values).getTypes()));
  function.setAllResultAttrs(attributes);
}

/// Says which name of the model's gives way: those that training adds are what others know them by.
Status StepFunction::nameIsTaken(StringRef name, std::optional<StateKind> kind) {
  unsigned number = arguments_.lookup(name);
  auto before = function.getArgAttrOfType<IntegerAttr>(number, graph::kStateKind);
  bool isInitialiser = kind == StateKind::Parameter,
       wasInitialiser = before && before.getInt() == int64_t(StateKind::Parameter);
  std::string quoted = "'" + name.str() + "'";
  if (isInitialiser && (wasInitialiser || number < own_))
    return invalidArgument("the model has an initialiser " + quoted + " and a further one, or an " +
                           "input, of that name; rename one of them");
  if (isInitialiser || wasInitialiser)
    return invalidArgument("the model has an initialiser " + quoted + ", which is the name of " +
                           "what training adds to the step; rename the initialiser");
  if (number < own_)
    return invalidArgument("the model has an input " + quoted + ", which is the name of what " +
                           "training adds to the step; rename the input");
  return invalidArgument("two states that training adds would be called " + quoted +
                         "; rename the optimiser's slot");
}

Result<BlockArgument> StepFunction::add(StringRef name, Type type, std::optional<StateKind> kind) {
  unsigned number = function.getNumArguments();
  if (!arguments_.try_emplace(name, number).second)
    return nameIsTaken(name, kind);
  Builder builder(function.getContext());
  function.insertArgument(
      number, type,
      builder.getDictionaryAttr(builder.getNamedAttr(kName, builder.getStringAttr(name))),
      function.getLoc());
  return function.getArgument(number);
}

Result<BlockArgument> StepFunction::addInput(StringRef name, Type type) {
  return add(name, type, std::nullopt);
}

Result<BlockArgument> StepFunction::addState(StringRef name, Type type, StateKind kind,
                                             Attribute initial) {
  auto argument = add(name, type, kind);
  if (!argument.ok())
    return argument;
  Builder builder(function.getContext());
  function.setArgAttr(argument->getArgNumber(), graph::kStateKind,
                      builder.getI64IntegerAttr(int64_t(kind)));
  if (initial)
    function.setArgAttr(argument->getArgNumber(), graph::kInitial, initial);
  return argument;
}

Attribute StepFunction::initial(unsigned argument) {
  return function.getArgAttr(argument, graph::kInitial);
}

void StepFunction::update(ArrayRef<Update> updates) {
  std::vector<Output> all = outputs();
  Builder builder(function.getContext());
  SmallVector<DictionaryAttr> attributes;
  function.getAllArgAttrs(attributes);
  for (auto [state, next] : updates) {
    NamedAttrList own(attributes[state.getArgNumber()]);
    own.set(graph::kState, builder.getI64IntegerAttr(int64_t(all.size())));
    all.push_back({"updated." + cast<StringAttr>(own.get(kName)).str(), next});
    attributes[state.getArgNumber()] = own.getDictionary(function.getContext());
  }
  function.setAllArgAttrs(attributes);
  setOutputs(all);
}

} // namespace tensmith::training
