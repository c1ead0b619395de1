// Texts of the probes' modules. Each has the same entry, which shares items out among threads, and
// an inner function of its own.
#include "compiler/targets/cpu/machine/Probes.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/FormatVariadic.h"

namespace tensmith::targets::cpu {
namespace {

constexpr char kEntry[] = R"(
llvm.func @tensmith_kernel(%call: !llvm.ptr) -> i32 {
  %sizesAt = llvm.getelementptr %call[8] : (!llvm.ptr) -> !llvm.ptr, i8
  %sizes = llvm.load %sizesAt : !llvm.ptr -> !llvm.ptr
  %rounds = llvm.load %sizes : !llvm.ptr -> i64
  %itemsAt = llvm.getelementptr %sizes[1] : (!llvm.ptr) -> !llvm.ptr, i64
  %items = llvm.load %itemsAt : !llvm.ptr -> i64
  %servicesAt = llvm.getelementptr %call[16] : (!llvm.ptr) -> !llvm.ptr, i8
  %services = llvm.load %servicesAt : !llvm.ptr -> !llvm.ptr
  %for = llvm.load %services : !llvm.ptr -> !llvm.ptr
  %one = llvm.mlir.constant(1 : i64) : i64
  %none = llvm.mlir.constant(0 : i64) : i64
  %body = llvm.mlir.addressof @tensmith_kernel.body : !llvm.ptr
  llvm.br ^loop(%none : i64)
^loop(%round: i64):
  %more = llvm.icmp "slt" %round, %rounds : i64
  llvm.cond_br %more, ^next, ^end
^next:
  llvm.call %for(%call, %items, %one, %body, %call)
      : !llvm.ptr, (!llvm.ptr, i64, i64, !llvm.ptr, !llvm.ptr) -> ()
  %following = llvm.add %round, %one : i64
  llvm.br ^loop(%following : i64)
^end:
  %zero = llvm.mlir.constant(0 : i32) : i32
  llvm.return %zero : i32
}
llvm.func internal @tensmith_kernel.body(%call: !llvm.ptr, %first: i64, %last: i64) {
  %operands = llvm.load %call : !llvm.ptr -> !llvm.ptr
  %buffer = llvm.load %operands : !llvm.ptr -> !llvm.ptr
  %sizesAt = llvm.getelementptr %call[8] : (!llvm.ptr) -> !llvm.ptr, i8
  %sizes = llvm.load %sizesAt : !llvm.ptr -> !llvm.ptr
  %passesAt = llvm.getelementptr %sizes[2] : (!llvm.ptr) -> !llvm.ptr, i64
  %passes = llvm.load %passesAt : !llvm.ptr -> i64
  %countAt = llvm.getelementptr %sizes[3] : (!llvm.ptr) -> !llvm.ptr, i64
  %count = llvm.load %countAt : !llvm.ptr -> i64
  %strideAt = llvm.getelementptr %sizes[4] : (!llvm.ptr) -> !llvm.ptr, i64
  %stride = llvm.load %strideAt : !llvm.ptr -> i64
  %one = llvm.mlir.constant(1 : i64) : i64
  llvm.br ^loop(%first : i64)
^loop(%item: i64):
  %more = llvm.icmp "slt" %item, %last : i64
  llvm.cond_br %more, ^next, ^end
^next:
  %offset = llvm.mul %item, %stride : i64
  %own = llvm.getelementptr %buffer[%offset] : (!llvm.ptr, i64) -> !llvm.ptr, i8
  func.call @tensmith_kernel.inner(%own, %passes, %count) : (!llvm.ptr, i64, i64) -> ()
  %following = llvm.add %item, %one : i64
  llvm.br ^loop(%following : i64)
^end:
  llvm.return
}
func.func private @tensmith_kernel.inner(%own: !llvm.ptr, %passes64: i64, %count64: i64)
    attributes {passthrough = ["noinline"]} {
  %passes = arith.index_cast %passes64 : i64 to index
  %count = arith.index_cast %count64 : i64 to index
  %first = arith.constant 0 : index
  %one = arith.constant 1 : index
  %two = arith.constant 2 : index
)";

/// The lines of an inner function.
class Inner {
public:
  explicit Inner(const Cpu &machine) : machine_(machine) {}

  int64_t lanes(int64_t elementBits) const { return machine_.vectorBits / elementBits; }
  std::string vector(int64_t elementBits, const char *type) const {
    return llvm::formatv("vector<{0}x{1}>", lanes(elementBits), type);
  }

  template <typename... Parts> void line(const char *format, Parts &&...parts) {
    text_ += llvm::formatv(format, std::forward<Parts>(parts)...).str() + '\n';
  }

  /// %NAME is the address of vector `index` (a value of type index).
  void address(const std::string &name, const std::string &index, const std::string &vector) {
    line("%{0}64 = arith.index_cast {1} : index to i64", name, index);
    line("%{0} = llvm.getelementptr %own[%{0}64] : (!llvm.ptr, i64) -> !llvm.ptr, {1}", name,
         vector);
  }
  void load(const std::string &name, const std::string &address, const std::string &vector) {
    line("%{0} = llvm.load {1} {{alignment = {3} : i64} : !llvm.ptr -> {2}", name, address, vector,
         machine_.vectorBits / 8);
  }
  void store(const std::string &value, const std::string &address, const std::string &vector) {
    line("llvm.store {0}, {1} {{alignment = {3} : i64} : {2}, !llvm.ptr", value, address, vector,
         machine_.vectorBits / 8);
  }

  /// "prefix0 = init, prefix1 = init, ..."
  static std::string list(int64_t count, llvm::function_ref<std::string(int64_t)> item) {
    std::string text;
    for (int64_t i = 0; i < count; ++i)
      text += (i ? ", " : "") + item(i);
    return text;
  }

  std::string module() const { return kEntry + text_ + "return\n}\n"; }

private:
  const Cpu &machine_;
  std::string text_;
};

std::string numbered(const char *prefix, int64_t number) { return prefix + std::to_string(number); }

/// A loop that carries `count` vectors: `body` writes %NAME_outI from %NAME_inI, the results are
/// %NAME#I.
void carriedLoop(Inner &inner, const std::string &name, const std::string &turns,
                 const std::string &step, int64_t count, const std::string &vector,
                 llvm::function_ref<std::string(int64_t)> initial,
                 llvm::function_ref<void()> body) {
  auto types = Inner::list(count, [&](int64_t) { return vector; });
  inner.line("%{0}:{1} = scf.for %{0}_turn = %first to {2} step {3} iter_args({4}) -> ({5}) {{",
             name, count, turns, step,
             Inner::list(count,
                         [&](int64_t i) {
                           return "%" + name + "_in" + std::to_string(i) + " = " + initial(i);
                         }),
             types);
  body();
  inner.line("scf.yield {0} : {1}",
             Inner::list(count, [&](int64_t i) { return "%" + name + "_out" + std::to_string(i); }),
             types);
  inner.line("}");
}

/// Stores what a loop carried, so that none of it is left out as unused.
void keepResults(Inner &inner, const std::string &result, int64_t count,
                 const std::string &vector) {
  for (int64_t i = 0; i < count; ++i) {
    inner.line("%keep{0} = arith.constant {0} : index", i);
    inner.address(numbered("keepAt", i), numbered("%keep", i), vector);
    inner.store("%" + result + "#" + std::to_string(i), numbered("%keepAt", i), vector);
  }
}

} // namespace

Probe readProbe(const Cpu &machine) {
  Inner inner(machine);
  std::string vector = inner.vector(32, "i32");
  inner.line("%zero = arith.constant dense<0> : {0}", vector);
  inner.line("%shift = arith.constant dense<1> : {0}", vector);
  inner.line("%unroll = arith.constant {0} : index", kProbeUnroll);
  auto zero = [](int64_t) { return std::string("%zero"); };
  auto before = [](int64_t i) { return numbered("%pass_in", i); };
  carriedLoop(inner, "pass", "%passes", "%one", kProbeUnroll, vector, zero, [&] {
    carriedLoop(inner, "sum", "%count", "%unroll", kProbeUnroll, vector, before, [&] {
      for (int64_t i = 0; i < kProbeUnroll; ++i) {
        inner.line("%k{0} = arith.constant {0} : index", i);
        inner.line("%at{0} = arith.addi %sum_turn, %k{0} : index", i);
        inner.address(numbered("from", i), numbered("%at", i), vector);
        inner.load(numbered("x", i), numbered("%from", i), vector);
        inner.line("%sum_out{0} = arith.addi %sum_in{0}, %x{0} : {1}", i, vector);
      }
    });
    // Not the sum itself, which would be the number of passes times one pass's.
    for (int64_t i = 0; i < kProbeUnroll; ++i)
      inner.line("%pass_out{0} = arith.shrui %sum#{0}, %shift : {1}", i, vector);
  });
  keepResults(inner, "pass", kProbeUnroll, vector);
  return {inner.module(), {}, {}, 0};
}

Probe writeProbe(const Cpu &machine) {
  Inner inner(machine);
  std::string vector = inner.vector(32, "i32");
  inner.line("%unroll = arith.constant {0} : index", kProbeUnroll);
  inner.line("scf.for %pass = %first to %passes step %one {{");
  inner.line("%number = arith.index_cast %pass : index to i32");
  inner.line("%value = vector.splat %number : {0}", vector);
  inner.line("scf.for %i = %first to %count step %unroll {{");
  for (int64_t i = 0; i < kProbeUnroll; ++i) {
    inner.line("%k{0} = arith.constant {0} : index", i);
    inner.line("%at{0} = arith.addi %i, %k{0} : index", i);
    inner.address(numbered("to", i), numbered("%at", i), vector);
    inner.store("%value", numbered("%to", i), vector);
  }
  inner.line("}");
  inner.line("}");
  return {inner.module(), {}, {}, 0};
}

Probe copyProbe(const Cpu &machine) {
  Inner inner(machine);
  std::string vector = inner.vector(32, "i32");
  constexpr int64_t kPairs = kProbeUnroll / 2;
  inner.line("%half = arith.divui %count, %two : index");
  inner.line("%unroll = arith.constant {0} : index", kPairs);
  inner.line("scf.for %pass = %first to %passes step %one {{");
  inner.line("scf.for %i = %first to %half step %unroll {{");
  for (int64_t i = 0; i < kPairs; ++i) {
    inner.line("%k{0} = arith.constant {0} : index", i);
    inner.line("%at{0} = arith.addi %i, %k{0} : index", i);
    inner.line("%there{0} = arith.addi %at{0}, %half : index", i);
    inner.address(numbered("from", i), numbered("%at", i), vector);
    inner.address(numbered("to", i), numbered("%there", i), vector);
    inner.load(numbered("x", i), numbered("%from", i), vector);
  }
  for (int64_t i = 0; i < kPairs; ++i)
    inner.store(numbered("%x", i), numbered("%to", i), vector);
  inner.line("}");
  inner.line("}");
  return {inner.module(), {}, {}, 0};
}

namespace {

/// One multiply-add of the type: how %acc_out follows from %acc_in, with %x and %y from memory.
struct MultiplyAdd {
  const char *type, *instruction;
  int64_t accumulatorBits;
  const char *accumulator; // its type
  int64_t products;        // summed in one element of the accumulator
  const char *operand;     // type of x's and y's elements
  /// {0}: the number, {1}: the accumulator's vector, {2}: the operand's, {3}: the width in bits
  std::vector<const char *> lines;
  std::vector<const char *> before = {}; // of the loop
};

/// Elements that wrap around: the accumulator is also a factor, so that no product is the same in
/// every turn and could be kept.
std::vector<MultiplyAdd> multiplyAdds(const Cpu &machine) {
  std::vector<MultiplyAdd> all;
  bool fused = machine.has("fma");
  for (auto [type, bits] : {std::pair("f32", 32), std::pair("f64", 64)})
    if (fused)
      all.push_back({type,
                     "fma",
                     bits,
                     type,
                     1,
                     type,
                     {"%acc_out{0} = vector.fma %x, %y, %acc_in{0} : {1}"}});
    else
      all.push_back({type,
                     "mul, add",
                     bits,
                     type,
                     1,
                     type,
                     {"%product{0} = arith.mulf %acc_in{0}, %x : {1}",
                      "%acc_out{0} = arith.addf %product{0}, %y : {1}"}});
  bool wide = machine.vectorBits == 512;
  bool vnni =
      wide ? machine.has("avx512vnni")
           : machine.has("avxvnni") || (machine.has("avx512vnni") && machine.has("avx512vl"));
  if (vnni) {
    all.push_back({"i16",
                   "vpdpwssd",
                   32,
                   "i32",
                   2,
                   "i32",
                   {"%acc_out{0} = llvm.call_intrinsic \"llvm.x86.avx512.vpdpwssd.{3}\"(%acc_in{0},"
                    " %x, %y) : ({1}, {1}, {1}) -> {1}"}});
    all.push_back({"i8",
                   "vpdpbusd",
                   32,
                   "i32",
                   4,
                   "i32",
                   {"%acc_out{0} = llvm.call_intrinsic \"llvm.x86.avx512.vpdpbusd.{3}\"(%acc_in{0},"
                    " %x, %y) : ({1}, {1}, {1}) -> {1}"}});
  } else if (machine.vectorBits == 256 && machine.has("avx2")) {
    all.push_back({"i16",
                   "vpmaddwd, vpaddd",
                   32,
                   "i32",
                   2,
                   "i16",
                   {"%f{0} = llvm.bitcast %acc_in{0} : {1} to {2}",
                    "%p{0} = llvm.call_intrinsic \"llvm.x86.avx2.pmadd.wd\"(%f{0}, %y)"
                    " : ({2}, {2}) -> {1}",
                    "%acc_out{0} = arith.addi %acc_in{0}, %p{0} : {1}"}});
    all.push_back({"i8",
                   "vpmaddubsw, vpmaddwd, vpaddd",
                   32,
                   "i32",
                   4,
                   "i8",
                   {"%f{0} = llvm.bitcast %acc_in{0} : {1} to {2}",
                    "%s{0} = llvm.call_intrinsic \"llvm.x86.avx2.pmadd.ub.sw\"(%f{0}, %y)"
                    " : ({2}, {2}) -> vector<16xi16>",
                    "%p{0} = llvm.call_intrinsic \"llvm.x86.avx2.pmadd.wd\"(%s{0}, %ones)"
                    " : (vector<16xi16>, vector<16xi16>) -> {1}",
                    "%acc_out{0} = arith.addi %acc_in{0}, %p{0} : {1}"},
                   {"%ones = arith.constant dense<1> : vector<16xi16>"}});
  }
  if (wide && machine.has("avx512bf16"))
    all.push_back({"bf16",
                   "vdpbf16ps",
                   32,
                   "f32",
                   2,
                   "bf16",
                   {"%acc_out{0} = llvm.call_intrinsic \"llvm.x86.avx512bf16.dpbf16ps.{3}\""
                    "(%acc_in{0}, %x, %y) : ({1}, {2}, {2}) -> {1}"}});
  return all;
}

int64_t bitsOf(llvm::StringRef type) {
  int64_t bits = 0;
  type.drop_while([](char c) { return !llvm::isDigit(c); }).getAsInteger(10, bits);
  return bits;
}

Probe arithmeticProbe(const Cpu &machine, const MultiplyAdd &step) {
  // As many chains as hide the latency of an instruction or three, with registers left for factors
  // and products.
  int64_t chains = machine.vectorRegisters * 3 / 4;
  Inner inner(machine);
  std::string vector = inner.vector(step.accumulatorBits, step.accumulator);
  std::string operand = inner.vector(bitsOf(step.operand), step.operand);
  inner.load("init", "%own", vector);
  inner.load("x", "%own", operand);
  inner.address("yAt", "%one", operand);
  inner.load("y", "%yAt", operand);
  for (const char *text : step.before)
    inner.line(text);
  auto initial = [](int64_t) { return std::string("%init"); };
  carriedLoop(inner, "acc", "%count", "%one", chains, vector, initial, [&] {
    for (int64_t i = 0; i < chains; ++i)
      for (const char *text : step.lines)
        inner.line(text, i, vector, operand, machine.vectorBits);
  });
  keepResults(inner, "acc", chains, vector);
  return {inner.module(), step.type, step.instruction,
          2 * chains * inner.lanes(step.accumulatorBits) * step.products};
}

/// Of a matrix unit's instruction, with tiles as a product takes them
/// (targets/cpu/templates/MatrixTile.h): four of sums, two of rows and two of columns.
Probe tileProbe(const Cpu &machine, const char *type, const char *instruction, int64_t products) {
  constexpr int64_t kTiles = 8, kLines = 16, kLineBytes = 64;
  Inner inner(machine);
  inner.line("%configuration = arith.constant dense<[{0}]> : vector<64xi8>",
             Inner::list(64, [&](int64_t byte) {
               bool isBytes = byte >= 16 && byte < 16 + 2 * kTiles && byte % 2 == 0;
               bool isLines = byte >= 48 && byte < 48 + kTiles;
               return std::to_string(byte == 0 ? 1 : isBytes ? kLineBytes : isLines ? kLines : 0);
             }));
  inner.line("llvm.store %configuration, %own {{alignment = 1 : i64} : vector<64xi8>, !llvm.ptr");
  auto call = [&](llvm::StringRef name, llvm::StringRef operands, llvm::StringRef types) {
    inner.line("llvm.call_intrinsic \"llvm.x86.{0}\"({1}) : ({2}) -> ()", name, operands, types);
  };
  call("ldtilecfg", "%own", "!llvm.ptr");
  for (int64_t tile = 0; tile < kTiles; ++tile) {
    inner.line("%tile{0} = llvm.mlir.constant({0} : i8) : i8", tile);
    call("tilezero", numbered("%tile", tile), "i8");
  }
  inner.line("scf.for %turn = %first to %count step %one {{");
  for (int64_t sum = 0; sum < 4; ++sum)
    call(instruction,
         llvm::formatv("%tile{0}, %tile{1}, %tile{2}", sum, 4 + sum / 2, 6 + sum % 2).str(),
         "i8, i8, i8");
  inner.line("}");
  call("tilerelease", "", "");
  return {inner.module(), type, instruction, 2 * 4 * kLines * kLines * kLines * products};
}

} // namespace

std::vector<Probe> arithmeticProbes(const Cpu &machine) {
  std::vector<Probe> probes;
  for (const MultiplyAdd &step : multiplyAdds(machine))
    probes.push_back(arithmeticProbe(machine, step));
  if (machine.has("amx-int8"))
    probes.push_back(tileProbe(machine, "i8", "tdpbusd", 4));
  if (machine.has("amx-bf16"))
    probes.push_back(tileProbe(machine, "bf16", "tdpbf16ps", 2));
  return probes;
}

} // namespace tensmith::targets::cpu
