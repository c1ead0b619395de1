// A verified plan in the form in which it is executed: what each step needs, found out once at
// load.
//
// The plan's arrays are used in place (spans into the FlatBuffer). What is added: for each value
// the places where kernels take its address, so that giving a value an address is a few stores and
// a kernel's operands never have to be gathered; and for each expression the time at which it is
// known.
#pragma once

#include "base/Attributes.h"
#include "runtime/KernelAbi.h"
#include "runtime/plan_generated.h"

#include <climits>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tensmith::runtime {

/// When an expression (or a symbol) is known: before the first instruction, after instruction i, or
/// never.
inline constexpr int32_t kAtEntry = -1;
inline constexpr int32_t kNever = INT32_MAX;

struct KnownTimes {
  std::vector<int32_t> symbols;
  std::vector<int32_t> exprs;
};

/// Of a function whose indices are in bounds.
KnownTimes knownTimes(const plan::Function &function);

/// Whether a result of this instruction may give a symbol its value.
bool bindsSymbols(plan::Opcode opcode);

using Indices = std::span<const uint32_t>;

struct ValueCode {
  plan::ValueKind kind;
  DataType type;
  bool ranked;
  plan::Storage storage;
  Indices dims;
  uint64_t offset;
  std::string_view name;
  uint32_t reserved;   // expression of bytes, where the size is late
  uint8_t device;      // in whose memory: the module's device of that number, or 0: the host's
  uint64_t pitch;      // bytes between its rows, where it is a part of another one; 0: dense
  bool late = false;   // its size is not known at entry
  bool isPart = false; // of what a join gives
  uint32_t firstUse, useCount; // in FunctionCode::uses
};

/// As messages call it: 'logits'; a place in a model, as node 'conv1', has its quotes already.
inline std::string named(const ValueCode &value) {
  bool hasQuotes = value.name.find_first_of("'\"") != std::string_view::npos;
  return hasQuotes ? std::string(value.name) : "'" + std::string(value.name) + "'";
}

/// Whether its address is known before the function runs.
inline bool fixedAddress(const ValueCode &value) {
  return value.storage == plan::Storage::Arena || value.storage == plan::Storage::Constant;
}

/// One instruction.
struct Step {
  plan::Opcode opcode;
  uint32_t target;
  TensmithKernel entry = nullptr;
  Indices operands, results, sizes, releases, functions;
  uint32_t carried;
  uint32_t location;
  uint32_t flops, bytes;     // expressions, or kAbsent
  uint32_t message;          // of a check
  uint32_t firstPointer = 0; // of a kernel's operands, in Frame::pointers
  uint32_t firstSize = 0;    // of a kernel's sizes, in Frame::sizes
  uint32_t call = 0;         // in Frame::calls
  bool bare = false;         // a kernel whose addresses and sizes are all known before it runs
  bool lateSizes = false;
  uint8_t device = 0;            // of a kernel or a copy: whose stream it is put on; 0: none
  uint32_t stream;               // of the device
  Indices waits;                 // earlier steps
  bool settled = false;          // a view whose address, or a check whose sizes are known at entry
  std::vector<uint32_t> learned; // expressions that are known after it
};

/// A result that may be written over an argument that nothing else refers to.
struct Overwrite {
  uint32_t param;  // its number
  uint32_t result; // the value
};
inline constexpr size_t kMostOverwrites = 64;
inline constexpr size_t kMostInBlock = 8; // results in one block

struct FunctionCode {
  std::string_view name;
  uint32_t symbolCount;
  std::span<const plan::Expr> exprs;
  std::vector<uint32_t> entryExprs; // known at entry, in order
  std::vector<ValueCode> values;
  Indices params, results;
  std::vector<Step> steps;
  std::vector<uint32_t> uses;        // positions in Frame::pointers
  std::vector<uint32_t> transient;   // values that hold a tensor during a run
  std::vector<uint32_t> together;    // results of kernels, all alike, that get memory in one block
  std::vector<Overwrite> overwrites; // the first is taken of those of a result, or of a parameter
  KnownTimes times;
  bool hasArena = false, hasDeviceArena = false;
  bool hasStreams = false;
  uint32_t arenaBytes;                        // expression
  Indices deviceArenas;                       // the same of the devices' memories
  std::span<const plan::ArenaBuffer> buffers; // that are placed when sizes are known
  uint32_t firstPlace;                        // the symbol that is the first one's offset
  uint32_t pointerCount = 0, sizeCount = 0, callCount = 0;
  uint32_t batched = 0; // the function that does several calls of this one at once, or 0
  const plan::Function *plan;
};

struct RoutineCode {
  std::string name;
  Attributes attributes;
};

/// A verified procedure; its code is used in place.
struct ProcedureCode {
  std::string_view name;
  uint32_t params, registers;
  Indices code, places;
  bool batches = false; // it may come to a function that has a batched version
};

struct Program {
  std::vector<FunctionCode> functions;
  std::vector<ProcedureCode> procedures;
  std::vector<RoutineCode> routines;
  bool closuresBatch = false; // one of the procedures that are closures may, as above
  bool readsRunKey = false;
};

/// What to do where a library that a module calls is missing.
std::string missingLibrary(const std::string &name);

using FindKernel = std::function<TensmithKernel(const char *symbol)>;

/// Decodes a plan that verifyPlan has passed. Errors: InvalidModule for a kernel that the image
/// does not export.
Result<Program> decodePlan(const plan::Module &module, const FindKernel &find);

/// The value of an expression that can't be had: overflow, or division by zero.
inline constexpr int64_t kPoison = INT64_MIN;

/// One expression over known symbols and earlier expressions.
int64_t evaluate(const plan::Expr &expr, const int64_t *symbols, const int64_t *exprs);

/// "2*batch+1", for messages and descriptions.
std::string expressionText(const plan::Function &function, uint32_t index);

} // namespace tensmith::runtime
