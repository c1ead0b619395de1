// Closures by their types, calls as matches; see Defunctionalization.h.
#include "compiler/program/Defunctionalization.h"

#include "compiler/program/Effects.h"
#include "compiler/program/Structures.h"

using namespace mlir;

namespace tensmith::program {
namespace {

/// An object type's text but for the sizes of tensors, of which `?` agrees with any.
std::string withoutSizes(StringRef text) {
  std::string result;
  while (!text.empty()) {
    StringRef word = text.take_while([](char c) { return llvm::isAlnum(c); });
    size_t length = std::max<size_t>(word.size(), 1);
    result += text.take_front(length);
    text = text.drop_front(length);
    if (word.empty() || !llvm::isLower(word[0]) || !text.starts_with("["))
      continue;
    auto [sizes, rest] = text.split(']');
    result.append(size_t(sizes.count(',')), ',');
    text = rest;
  }
  return result;
}

std::string kindOf(Type type) {
  if (auto object = dyn_cast<ObjectType>(type))
    return withoutSizes(object.getText()) + ";";
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << getElementTypeOrSelf(type);
  if (auto ranked = dyn_cast<RankedTensorType>(type))
    stream << ranked.getRank();
  return text + ";";
}

class Defunctionalization {
public:
  explicit Defunctionalization(ModuleOp module)
      : module_(module), symbols_(module), structures_(module) {}

  void run() {
    SmallVector<ClosureOp> closures;
    SmallVector<ApplyOp> applies;
    module_.walk([&](ClosureOp closure) { closures.push_back(closure); });
    module_.walk([&](ApplyOp apply) { applies.push_back(apply); });
    if (closures.empty() && applies.empty())
      return;
    for (ClosureOp closure : closures)
      note(closure);
    for (ClosureOp closure : closures)
      structures_.add(closure.getType(), structureOf(codes_[keyOf(closure)]));
    for (ApplyOp apply : applies)
      structures_.add(cast<ObjectType>(apply.getFunction().getType()),
                      structureOf(codes_[keyOf(apply)]));
    for (ClosureOp closure : closures)
      construct(closure);
    for (ApplyOp apply : applies)
      choose(apply);
    structures_.store(module_);
    markEffects(module_);
  }

private:
  struct Code {
    func::FuncOp procedure;
    size_t captured;
  };
  using Codes = SmallVector<Code>;

  func::FuncOp procedureOf(ClosureOp closure) {
    return symbols_.lookup<func::FuncOp>(closure.getProcedure());
  }
  static std::string keyOf(TypeRange parameters, Type result) {
    std::string key;
    for (Type type : parameters)
      key += kindOf(type);
    return key + "->" + kindOf(result);
  }
  std::string keyOf(ClosureOp closure) {
    func::FuncOp procedure = procedureOf(closure);
    return keyOf(TypeRange(procedure.getArgumentTypes()).drop_front(closure.getCaptured().size()),
                 procedure.getResultTypes()[0]);
  }
  static std::string keyOf(ApplyOp apply) {
    return keyOf(apply.getInputs().getTypes(), apply.getType());
  }

  uint64_t note(ClosureOp closure) {
    Codes &codes = codes_[keyOf(closure)];
    func::FuncOp procedure = procedureOf(closure);
    size_t captured = closure.getCaptured().size();
    for (auto [tag, code] : llvm::enumerate(codes))
      if (code.procedure == procedure)
        return tag;
    codes.push_back({procedure, captured});
    return codes.size() - 1;
  }

  static SmallVector<Type> capturedTypes(const Code &code) {
    func::FuncOp procedure = code.procedure;
    return llvm::map_to_vector(procedure.getArgumentTypes().take_front(code.captured),
                               withoutLocalSizes);
  }
  static Constructors structureOf(const Codes &codes) {
    return llvm::map_to_vector(codes, capturedTypes);
  }

  void construct(ClosureOp closure) {
    OpBuilder builder(closure);
    Value data = builder.create<ConstructOp>(closure.getLoc(), closure.getType(),
                                             closure.getCaptured(), note(closure));
    closure.replaceAllUsesWith(data);
    closure.erase();
  }

  void choose(ApplyOp apply) {
    const Codes &codes = codes_[keyOf(apply)];
    if (codes.empty())
      return; // there is no such function, and so no such call
    Location location = apply.getLoc();
    OpBuilder builder(apply);
    Value function = apply.getFunction();
    auto match =
        builder.create<MatchOp>(location, apply.getType(), function, unsigned(codes.size()));
    for (auto [tag, code] : llvm::enumerate(codes)) {
      builder.createBlock(&match->getRegion(unsigned(tag)));
      SmallVector<Value> inputs;
      for (auto [index, type] : llvm::enumerate(capturedTypes(code)))
        inputs.push_back(builder.create<FieldOp>(location, type, function, index, tag));
      llvm::append_range(inputs, apply.getInputs());
      func::FuncOp procedure = code.procedure;
      Value result = builder.create<CallOp>(location, apply.getType(), inputs, procedure.getName());
      builder.create<YieldOp>(location, result);
    }
    apply.replaceAllUsesWith(match.getResult());
    apply.erase();
  }

  ModuleOp module_;
  SymbolTable symbols_;
  Structures structures_;
  llvm::StringMap<Codes> codes_; // by what they take and give
};

} // namespace

void defunctionalize(ModuleOp module) { Defunctionalization(module).run(); }

} // namespace tensmith::program
