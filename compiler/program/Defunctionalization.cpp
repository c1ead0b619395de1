// Closures by their types, calls as matches; see Defunctionalization.h.
#include "compiler/program/Defunctionalization.h"

#include "compiler/program/Effects.h"
#include "compiler/program/Structures.h"

using namespace mlir;

namespace tensmith::program {
namespace {

/// Types apart from the sizes of tensors, of which `?` agrees with any: their text with ranks in
/// place of sizes, and the sizes in their order.
struct Kind {
  std::string text;
  SmallVector<std::string> sizes;

  void add(Type type) {
    if (auto object = dyn_cast<ObjectType>(type))
      return addText(object.getText());
    auto ranked = dyn_cast<RankedTensorType>(type);
    llvm::raw_string_ostream(text) << getElementTypeOrSelf(type) << ':';
    if (ranked)
      text += std::to_string(ranked.getRank());
    for (int64_t size : ranked ? ranked.getShape() : ArrayRef<int64_t>())
      sizes.push_back(ShapedType::isDynamic(size) ? "?" : std::to_string(size));
    text += ';';
  }

  /// Whether a value of the one may be one of the other.
  bool agrees(const Kind &other) const {
    auto isNumber = [](StringRef size) { return llvm::all_of(size, llvm::isDigit); };
    return text == other.text && llvm::all_of(llvm::zip_equal(sizes, other.sizes), [&](auto pair) {
             auto &[a, b] = pair;
             return a == b || !isNumber(a) || !isNumber(b);
           });
  }

private:
  /// Of an object type: `List[f64[3, n]]` is `List[f64:2]` and the sizes.
  void addText(StringRef object) {
    while (!object.empty()) {
      StringRef word = object.take_while([](char c) { return llvm::isAlnum(c) || c == '_'; });
      size_t length = std::max<size_t>(word.size(), 1);
      text += object.take_front(length);
      object = object.drop_front(length);
      if (word.empty() || !llvm::isLower(word[0]) || !object.consume_front("["))
        continue;
      auto [inside, rest] = object.split(']');
      SmallVector<StringRef> dims;
      inside.split(dims, ',', -1, /*KeepEmpty=*/false);
      for (StringRef dim : dims)
        sizes.push_back(dim.trim().str());
      text += ':' + std::to_string(dims.size());
      object = rest;
    }
    text += ';';
  }
};

Kind kindOf(TypeRange parameters, Type result) {
  Kind kind;
  for (Type type : parameters)
    kind.add(type);
  kind.text += "->";
  kind.add(result);
  return kind;
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
      structures_.add(closure.getType(), structureOf(codes_[kindOf(closure).text]));
    for (ApplyOp apply : applies)
      structures_.add(cast<ObjectType>(apply.getFunction().getType()),
                      structureOf(codes_[kindOf(apply).text]));
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
    Kind kind;
  };
  using Codes = SmallVector<Code>;

  func::FuncOp procedureOf(ClosureOp closure) {
    return symbols_.lookup<func::FuncOp>(closure.getProcedure());
  }
  Kind kindOf(ClosureOp closure) {
    func::FuncOp procedure = procedureOf(closure);
    size_t captured = closure.getCaptured().size();
    return program::kindOf(TypeRange(procedure.getArgumentTypes()).drop_front(captured),
                           procedure.getResultTypes()[0]);
  }
  static Kind kindOf(ApplyOp apply) {
    return program::kindOf(apply.getInputs().getTypes(), apply.getType());
  }

  uint64_t note(ClosureOp closure) {
    Kind kind = kindOf(closure);
    Codes &codes = codes_[kind.text];
    func::FuncOp procedure = procedureOf(closure);
    size_t captured = closure.getCaptured().size();
    for (auto [tag, code] : llvm::enumerate(codes))
      if (code.procedure == procedure)
        return tag;
    codes.push_back({procedure, captured, std::move(kind)});
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

  /// Where a function can't stand, since it takes or gives other sizes, one that can takes its
  /// place: what is made of the program has values that agree everywhere.
  void choose(ApplyOp apply) {
    Kind kind = kindOf(apply);
    const Codes &codes = codes_[kind.text];
    const auto *possible = llvm::find_if(codes, [&](auto &code) { return code.kind.agrees(kind); });
    if (possible == codes.end())
      return; // there is no such function, and so no such call
    Location location = apply.getLoc();
    OpBuilder builder(apply);
    auto match = builder.create<MatchOp>(location, apply.getType(), apply.getFunction(),
                                         unsigned(codes.size()));
    for (auto [tag, code] : llvm::enumerate(codes)) {
      builder.createBlock(&match->getRegion(unsigned(tag)));
      const Code &called = code.kind.agrees(kind) ? code : *possible;
      builder.create<YieldOp>(location, call(builder, apply, called, &called - codes.begin()));
    }
    apply.replaceAllUsesWith(match.getResult());
    apply.erase();
  }

  Value call(OpBuilder &builder, ApplyOp apply, const Code &code, uint64_t tag) {
    Location location = apply.getLoc();
    SmallVector<Value> inputs;
    for (auto [index, type] : llvm::enumerate(capturedTypes(code)))
      inputs.push_back(builder.create<FieldOp>(location, type, apply.getFunction(), index, tag));
    llvm::append_range(inputs, apply.getInputs());
    func::FuncOp procedure = code.procedure;
    return builder.create<CallOp>(location, apply.getType(), inputs, procedure.getName());
  }

  ModuleOp module_;
  SymbolTable symbols_;
  Structures structures_;
  llvm::StringMap<Codes> codes_; // by what they take and give
};

} // namespace

void defunctionalize(ModuleOp module) { Defunctionalization(module).run(); }

} // namespace tensmith::program
