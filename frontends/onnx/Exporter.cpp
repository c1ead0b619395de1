// Operators in their order, and what stands around them; see Exporter.h.
#include "frontends/onnx/Exporter.h"

#include "compiler/graph/Constants.h"
#include "compiler/graph/Dialects.h"
#include "compiler/graph/Evaluate.h"
#include "compiler/graph/States.h"
#include "frontends/onnx/Export.h"
#include "frontends/onnx/ExportRules.h"
#include "frontends/onnx/TensorData.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <limits>
#include <set>

using namespace mlir;

namespace tensmith::onnx_export {
namespace {

constexpr int64_t kIrVersion = 10; // the one that came with the opset
constexpr size_t kMaxBytes = std::numeric_limits<int32_t>::max(); // of a serialised model

/// A constant whose name is a parameter's stays apart from what is computed from it.
bool isAnonymousConstant(Value value) {
  Operation *op = value.getDefiningOp();
  return isa_and_nonnull<graph::NoneOp>(op) ||
         (isa_and_nonnull<graph::ConstantOp>(op) && !op->hasAttr(graph::kInitialiser));
}

/// Repetition makes large tensors of small ones.
bool isFoldable(Operation *op) {
  return graph::isOperator(op) && !isa<graph::ConstantOp, graph::NoneOp, graph::BroadcastOp>(op) &&
         isPure(op) && op->getNumRegions() == 0 &&
         llvm::all_of(op->getOperands(), isAnonymousConstant) &&
         llvm::all_of(op->getResultTypes(), [](Type type) {
           auto ranked = dyn_cast<RankedTensorType>(type);
           return ranked && ranked.hasStaticShape();
         });
}

} // namespace

std::string placeOf(Operation *op) {
  auto names = graph::nodeNames(op->getLoc());
  if (!names.empty())
    return names.front().str() + ": ";
  auto line = dyn_cast<FileLineColLoc>(op->getLoc());
  return line ? std::to_string(line.getLine()) + ":" + std::to_string(line.getColumn()) + ": " : "";
}

Exporter::Exporter(func::FuncOp main, const std::map<std::string, HostTensor> &values)
    : shapes(main.getContext()), main_(main), values_(values) {
  model.set_ir_version(kIrVersion);
  model.set_producer_name("tensmith");
  auto *opset = model.add_opset_import();
  opset->set_domain("");
  opset->set_version(kExportedOpset);
  model.mutable_graph()->set_name("main");
}

Status Exporter::run() {
  if (Status status = prepare(); !status.ok())
    return status;
  nameInterface();
  if (Status status = addInputs(); !status.ok())
    return status;
  for (Operation &op : main_.getBody().front().without_terminator())
    if (!isa<graph::ConstantOp, graph::NoneOp>(op) && !op.use_empty())
      if (Status status = exportOperator(&op); !status.ok())
        return status;
  return addOutputs();
}

/// What depends on no input is computed, and what ONNX has not as a whole taken apart.
Status Exporter::prepare() {
  Block &block = main_.getBody().front();
  OpBuilder builder(main_.getContext());
  for (auto it = block.begin(); it != std::prev(block.end());) {
    Operation *op = &*it;
    auto whole = dyn_cast<graph::Decomposable>(op);
    if (op->use_empty() && isPure(op)) {
      ++it;
    } else if (auto constant = dyn_cast<graph::ConstantOp>(op)) {
      if (auto tensor = graph::hostTensor(constant.getValue()); !tensor.ok())
        return Status(tensor.status().code(), placeOf(op) + tensor.status().message());
      ++it;
    } else if (isFoldable(op)) {
      if (!fold(op))
        return unsupported(placeOf(op) + "its value can't be computed");
      ++it;
    } else if (whole && !findRecord(op->getName().getStringRef())) {
      builder.setInsertionPoint(op);
      graph::GraphBuilder graph(builder, shapes, op->getLoc());
      Operation *before = op->getPrevNode();
      SmallVector<Value> results;
      if (failed(whole.decompose(graph, results)))
        return unsupported(placeOf(op) + "ONNX has it as of a later opset than " +
                           std::to_string(kExportedOpset) +
                           ", and it can't be taken apart without its sizes; fix them");
      op->replaceAllUsesWith(results);
      op->erase();
      it = before ? std::next(before->getIterator()) : block.begin();
    } else {
      ++it;
    }
  }
  return {};
}

bool Exporter::fold(Operation *op) {
  std::vector<HostTensor> operands;
  for (Value operand : op->getOperands()) {
    auto constant = operand.getDefiningOp<graph::ConstantOp>();
    auto tensor = constant ? graph::hostTensor(constant.getValue()) : Result(HostTensor());
    if (!tensor.ok())
      return false;
    operands.push_back(std::move(*tensor));
  }
  auto results = graph::evaluate(op, operands);
  if (!results.ok())
    return false;
  OpBuilder builder(op);
  for (auto [result, tensor] : llvm::zip_equal(op->getResults(), *results))
    result.replaceAllUsesWith(builder.create<graph::ConstantOp>(
        op->getLoc(), result.getType(), graph::elementsAttr(op->getContext(), tensor)));
  return true;
}

void Exporter::describe(Type type, onnx::TypeProto &proto) {
  auto &tensor = *proto.mutable_tensor_type();
  tensor.set_elem_type(int32_t(graph::dataType(getElementTypeOrSelf(type))));
  if (!isa<RankedTensorType>(type))
    return;
  auto &shape = *tensor.mutable_shape();
  for (AffineExpr size : shapes.dims(type)) {
    auto &dim = *shape.add_dim();
    if (auto constant = dyn_cast<AffineConstantExpr>(size))
      dim.set_dim_value(constant.getValue());
    else if (auto symbol = dyn_cast<AffineSymbolExpr>(size))
      dim.set_dim_param(shapes.symbols()[symbol.getPosition()].str());
  }
}

/// Before any node takes a name; those that the graph gives come first.
void Exporter::nameInterface() {
  unsigned inputs = main_.getNumArguments(), all = inputs + main_.getNumResults();
  auto given = [&](unsigned i) {
    auto name = i < inputs ? main_.getArgAttrOfType<StringAttr>(i, "graph.name")
                           : main_.getResultAttrOfType<StringAttr>(i - inputs, "graph.name");
    return name ? name.getValue() : StringRef();
  };
  ports_.resize(all);
  for (unsigned i = 0; i < all; ++i)
    if (StringRef name = given(i); !name.empty() && taken_.insert(name).second)
      ports_[i] = name.str();
  for (unsigned i = 0; i < all; ++i)
    if (ports_[i].empty())
      ports_[i] = freshName(!given(i).empty() ? given(i).str()
                            : i < inputs      ? "input" + std::to_string(i)
                                              : "result" + std::to_string(i - inputs));
}

Status Exporter::addInputs() {
  for (unsigned i = 0; i < main_.getNumArguments(); ++i) {
    const std::string &name = ports_[i];
    Type type = main_.getArgument(i).getType();
    if (!isa<TensorType>(type))
      return unsupported("input '" + name + "' is no tensor, and ONNX takes nothing else here");
    if (auto value = values_.find(name); value != values_.end()) {
      auto own = dyn_cast<RankedTensorType>(type);
      if (!own || graph::dataType(own.getElementType()) != value->second.type() ||
          own.getShape() != ArrayRef<int64_t>(value->second.shape()))
        return invalidArgument("the value of '" + name + "' is " +
                               std::string(tensmith::name(value->second.type())) +
                               toString(value->second.shape()) + ", which '" + name + "' is not");
      writeInitialiser(value->second, name);
    } else {
      auto &input = *model.mutable_graph()->add_input();
      input.set_name(name);
      describe(type, *input.mutable_type());
    }
    setName(main_.getArgument(i), name);
  }
  return {};
}

/// An output is called what the graph calls it: the node that computes it says so, unless it is
/// none's, or given twice.
Status Exporter::addOutputs() {
  std::map<std::string, std::string> renamed;
  std::set<std::string> computed;
  for (const onnx::NodeProto &node : model.graph().node())
    computed.insert(node.output().begin(), node.output().end());
  Operation *exit = main_.getBody().front().getTerminator();
  for (OpOperand &operand : exit->getOpOperands()) {
    unsigned i = operand.getOperandNumber();
    if (!isa<TensorType>(operand.get().getType()))
      return unsupported("output " + std::to_string(i) +
                         " is no tensor, and ONNX gives nothing else here");
    const std::string &name = ports_[main_.getNumArguments() + i];
    auto &output = *model.mutable_graph()->add_output();
    describe(operand.get().getType(), *output.mutable_type());
    std::string value = nameOf(operand.get());
    output.set_name(name);
    if (computed.contains(value) && renamed.try_emplace(value, name).second)
      continue;
    onnx::NodeProto &same = addNode("Identity");
    same.add_input(value);
    same.add_output(name);
    if (Status status = checkTypes(model.graph().node_size() - 1, "output '" + name + "' ");
        !status.ok())
      return status;
  }
  rename(renamed);
  return {};
}

void Exporter::rename(const std::map<std::string, std::string> &names) {
  auto change = [&](std::string &name) {
    if (auto found = names.find(name); found != names.end())
      name = found->second;
  };
  for (onnx::NodeProto &node : *model.mutable_graph()->mutable_node()) {
    for (std::string &name : *node.mutable_input())
      change(name);
    for (std::string &name : *node.mutable_output())
      change(name);
  }
}

Status Exporter::exportOperator(Operation *op) {
  const Record *record = findRecord(op->getName().getStringRef());
  NodeExport node(*this, op);
  if (!record)
    return unsupported(placeOf(op) + "'" + op->getName().stripDialect().str() +
                       "' has no operator in ONNX that computes the same");
  int first = model.graph().node_size();
  Status status = record->rule ? record->rule(node) : exportDirectly(node, *record);
  if (!status.ok())
    return status;
  return checkTypes(first, placeOf(op) + "'" + op->getName().stripDialect().str() + "' ");
}

Status Exporter::checkTypes(int firstNode, const std::string &what) {
  for (int i = firstNode; i < model.graph().node_size(); ++i)
    if (std::string fault = types_.check(model.graph().node(i)); !fault.empty())
      return unsupported(what + fault);
  return {};
}

std::string Exporter::nameOf(Value value) {
  if (isa<NoneType>(value.getType()))
    return {};
  if (auto found = names_.find(value); found != names_.end())
    return found->second;
  auto constant = value.getDefiningOp<graph::ConstantOp>();
  assert(constant && "a value is used before the operator that gives it was exported");
  auto tensor = graph::hostTensor(constant.getValue());
  auto given = constant->getAttrOfType<StringAttr>(graph::kInitialiser);
  std::string name = addInitialiser(given ? given.getValue() : "constant", *tensor);
  names_[value] = name;
  return name;
}

void Exporter::setName(Value value, const std::string &name) {
  names_[value] = name;
  types_.set(name, graph::dataType(getElementTypeOrSelf(value.getType())));
  if (!isa<RankedTensorType>(value.getType()) || name.empty())
    return;
  for (auto [dim, size] : llvm::enumerate(shapes.dims(value.getType())))
    if (!isa<AffineConstantExpr>(size))
      places_.try_emplace(size, Place{name, int64_t(dim)});
}

std::string Exporter::freshName(StringRef stem) {
  for (;;) {
    unsigned number = ++counts_[stem];
    std::string name = number == 1 ? stem.str() : (stem + "_" + Twine(number)).str();
    if (taken_.insert(name).second)
      return name;
  }
}

std::string Exporter::addInitialiser(StringRef stem, const HostTensor &tensor) {
  std::string name = freshName(stem);
  writeInitialiser(tensor, name);
  return name;
}

void Exporter::writeInitialiser(const HostTensor &tensor, const std::string &name) {
  types_.set(name, tensor.type());
  bytes_ += size_t(onnx_import::rawBytes(tensor.type(), tensor.size()));
  if (!isTooLarge())
    *model.mutable_graph()->add_initializer() = tensorProto(tensor, name);
}

bool Exporter::isTooLarge() const { return bytes_ > kMaxBytes; }

onnx::NodeProto &Exporter::addNode(StringRef type) {
  onnx::NodeProto &node = *model.mutable_graph()->add_node();
  node.set_op_type(type.str());
  return node;
}

Result<std::string> Exporter::sizeOf(AffineExpr size) {
  if (auto found = sizes_.find(size); found != sizes_.end())
    return found->second;
  auto name = computeSize(size);
  if (name.ok())
    sizes_[size] = *name;
  return name;
}

/// As of a place that has it; else from those of its parts.
Result<std::string> Exporter::computeSize(AffineExpr size) {
  auto add = [&](StringRef type, std::vector<std::string> inputs) {
    std::string name = freshName("size");
    onnx::NodeProto &node = addNode(type);
    for (const std::string &input : inputs)
      node.add_input(input);
    node.add_output(name);
    return name;
  };
  if (auto constant = dyn_cast<AffineConstantExpr>(size)) {
    int64_t value = constant.getValue();
    return addInitialiser("size", HostTensor::of<int64_t>(DataType::I64, {1}, {&value, 1}));
  }
  if (auto place = places_.find(size); place != places_.end()) {
    std::string name = add("Shape", {place->second.name});
    onnx::NodeProto &node = *model.mutable_graph()->mutable_node()->rbegin();
    for (auto [key, value] :
         {std::pair("start", place->second.dim), {"end", place->second.dim + 1}}) {
      auto &attribute = *node.add_attribute();
      attribute.set_name(key);
      attribute.set_type(onnx::AttributeProto::INT);
      attribute.set_i(value);
    }
    return name;
  }
  auto parts = dyn_cast<AffineBinaryOpExpr>(size);
  if (!parts)
    return unsupported("a size is known to the run alone");
  auto left = sizeOf(parts.getLHS()), right = sizeOf(parts.getRHS());
  if (!left.ok() || !right.ok())
    return left.ok() ? right : left;
  // Of whole numbers ONNX's Div rounds toward zero; its Mod has the divisor's sign.
  auto floored = [&](const std::string &a) {
    return add("Div", {add("Sub", {a, add("Mod", {a, *right})}), *right});
  };
  switch (size.getKind()) {
  case AffineExprKind::Add:
    return add("Add", {*left, *right});
  case AffineExprKind::Mul:
    return add("Mul", {*left, *right});
  case AffineExprKind::Mod:
    return add("Mod", {*left, *right});
  case AffineExprKind::FloorDiv:
    return floored(*left);
  default:
    return add("Neg", {floored(add("Neg", {*left}))});
  }
}

onnx::TensorProto tensorProto(const HostTensor &tensor, const std::string &name) {
  onnx::TensorProto proto;
  proto.set_name(name);
  proto.set_data_type(int32_t(tensor.type()));
  for (int64_t dim : tensor.shape())
    proto.add_dims(dim);
  if (tensor.type() == DataType::String)
    for (int64_t i = 0; i < tensor.size(); ++i)
      proto.add_string_data(tensor.getString(i));
  else
    proto.set_raw_data(onnx_import::rawData(tensor));
  return proto;
}

} // namespace tensmith::onnx_export

namespace tensmith {

Result<std::string> exportModel(ModuleOp module, const std::map<std::string, HostTensor> &values) {
  auto main = module.lookupSymbol<func::FuncOp>("main");
  if (!main)
    return Status(StatusCode::InvalidModel, "the model has no main function");
  onnx_export::Exporter exporter(main, values);
  if (Status status = exporter.run(); !status.ok())
    return status;
  std::string bytes;
  if (exporter.isTooLarge() || exporter.model.ByteSizeLong() > onnx_export::kMaxBytes ||
      !exporter.model.SerializeToString(&bytes))
    return unsupported("has more than 2 GiB with its weights, which no ONNX file can hold");
  return bytes;
}

bool canExport(llvm::StringRef operatorName) { return onnx_export::findRecord(operatorName); }

std::string tensorBytes(const HostTensor &tensor, const std::string &name) {
  return onnx_export::tensorProto(tensor, name).SerializeAsString();
}

} // namespace tensmith
