// One walk over a procedure's words finds its instructions; then each is held to what it refers to.
#include "runtime/VerifyProcedures.h"

#include "base/HostTensor.h"
#include "runtime/ModuleFormat.h"
#include "runtime/Scalars.h"

#include <optional>
#include <vector>

namespace tensmith::runtime {
namespace {

constexpr uint32_t kMaxRegisters = 1 << 16;

template <typename T> uint32_t sizeOf(const flatbuffers::Vector<T> *vector) {
  return vector ? vector->size() : 0;
}

class ProcedureVerifier {
public:
  ProcedureVerifier(const plan::Module &module, const plan::Procedure &procedure)
      : module_(module), procedure_(procedure), code_(procedure.code()->data()),
        size_(procedure.code()->size()) {}

  std::string verify() {
    if (procedure_.registers() > kMaxRegisters || procedure_.params() > procedure_.registers())
      return "it has too many registers, or more parameters than registers";
    starts_.resize(size_);
    uint32_t last = 0;
    for (uint32_t at = 0; at < size_;) {
      starts_[at] = true;
      last = at;
      uint32_t length = instructionLength(code_, size_, at);
      if (length == 0)
        return "its code breaks off or is unknown at " + std::to_string(at);
      at += length;
    }
    if (!endsControl(plan::Code(code_[last] & 0xff)))
      return "its code runs past its end";
    noteTargets();
    for (uint32_t at = 0; at < size_; ++at)
      if (starts_[at])
        if (std::string what = verifyAt(at); !what.empty())
          return "at " + std::to_string(at) + ": " + what;
    return verifyPlaces();
  }

private:
  void noteTargets() {
    isTargetOfBranch_.resize(size_);
    auto note = [&](uint32_t target) {
      if (target < size_)
        isTargetOfBranch_[target] = true;
    };
    for (uint32_t at = 0; at < size_; at += instructionLength(code_, size_, at)) {
      auto code = plan::Code(code_[at] & 0xff);
      if (code == plan::Code::Jump)
        note(code_[at + 1]);
      if (code == plan::Code::Branch)
        note(code_[at + 2]);
      for (uint32_t i = 0; code == plan::Code::Switch && i < code_[at] >> 8; ++i)
        note(code_[at + 2 + i]);
    }
  }

  static bool endsControl(plan::Code code) {
    return code == plan::Code::TailCall || code == plan::Code::TailApply ||
           code == plan::Code::Switch || code == plan::Code::Jump || code == plan::Code::Return;
  }

  bool isWritten(uint32_t word) const { return word < procedure_.registers(); }
  bool areRead(uint32_t at, uint32_t count) const {
    for (uint32_t i = 0; i < count; ++i)
      if ((code_[at + i] & ~kTake) >= procedure_.registers())
        return false;
    return true;
  }
  bool isTarget(uint32_t word) const { return word < size_ && starts_[word]; }
  const plan::Procedure *procedureAt(uint32_t index) const {
    return index < module_.procedures()->size() ? module_.procedures()->Get(index) : nullptr;
  }

  std::string verifyAt(uint32_t at) const {
    const uint32_t *word = code_ + at;
    uint32_t count = word[0] >> 8;
    constexpr const char *kNoRegister = "there is no such register";
    switch (plan::Code(word[0] & 0xff)) {
    case plan::Code::Move:
      return isWritten(word[1]) && areRead(at + 2, 1) ? "" : kNoRegister;
    case plan::Code::Constant:
      if (word[2] >= sizeOf(module_.constants()))
        return "there is no such constant";
      return isWritten(word[1]) ? "" : kNoRegister;
    case plan::Code::Invoke:
      return verifyInvoke(at, count);
    case plan::Code::Call:
      if (!isWritten(word[2]) || !areRead(at + 3, count))
        return kNoRegister;
      return verifyCallee(word[1], count, false);
    case plan::Code::TailCall:
      return areRead(at + 2, count) ? verifyCallee(word[1], count, false) : kNoRegister;
    case plan::Code::Closure:
      if (!isWritten(word[2]) || !areRead(at + 3, count))
        return kNoRegister;
      return verifyCallee(word[1], count, true);
    case plan::Code::Apply:
      return isWritten(word[1]) && areRead(at + 2, 1 + count) ? "" : kNoRegister;
    case plan::Code::TailApply:
      return areRead(at + 1, 1 + count) ? "" : kNoRegister;
    case plan::Code::Construct:
      return isWritten(word[2]) && areRead(at + 3, count) ? "" : kNoRegister;
    case plan::Code::Field:
      return isWritten(word[1]) && areRead(at + 2, 1) ? "" : kNoRegister;
    case plan::Code::Switch:
      for (uint32_t i = 0; i < count; ++i)
        if (!isTarget(word[2 + i]))
          return "it branches to what is no instruction";
      return areRead(at + 1, 1) ? "" : kNoRegister;
    case plan::Code::Branch:
      if (!isTarget(word[2]))
        return "it branches to what is no instruction";
      return areRead(at + 1, 1) ? "" : kNoRegister;
    case plan::Code::Jump:
      return isTarget(word[1]) ? "" : "it branches to what is no instruction";
    case plan::Code::Return:
      return areRead(at + 1, 1) ? "" : kNoRegister;
    case plan::Code::Immediate:
      if (word[2] >= uint32_t(kScalarTypes))
        return "there is no such type of scalars";
      if (plan::ScalarType(word[2]) == plan::ScalarType::Bool && (word[3] > 1 || word[4] != 0))
        return "it is neither true nor false";
      return isWritten(word[1]) ? "" : kNoRegister;
    case plan::Code::Scalar:
      if (!scalarCode(word[1]).function || scalarCode(word[1]).operands != count)
        return "there is no such operator on scalars";
      return isWritten(word[2]) && areRead(at + 3, count) ? "" : kNoRegister;
    case plan::Code::Fork:
      return verifyFork(at, count);
    case plan::Code::Reference:
    case plan::Code::Read:
      return isWritten(word[1]) && areRead(at + 2, 1) ? "" : kNoRegister;
    case plan::Code::Write:
      return areRead(at + 1, 2) ? "" : kNoRegister;
    }
    return "its code is unknown";
  }

  std::string verifyCallee(uint32_t index, uint32_t given, bool partial) const {
    const plan::Procedure *callee = procedureAt(index);
    if (!callee)
      return "there is no such procedure";
    return given == callee->params() || (partial && given < callee->params())
               ? ""
               : "the procedure takes another number of values";
  }

  /// Tensors of the same types, with one dimension more in front or a row for each call.
  std::string verifyBatched(const plan::Function &function) const {
    uint32_t index = function.batched();
    if (index == 0)
      return {};
    constexpr const char *kWrong = "the function's batched version does not fit it";
    if (index >= module_.functions()->size())
      return kWrong;
    const plan::Function *batched = module_.functions()->Get(index);
    if (batched->given_symbols() != 0 || sizeOf(function.params()) == 0)
      return kWrong;
    auto fits = [&](const auto *one, const auto *several) {
      if (sizeOf(one) != sizeOf(several))
        return false;
      for (uint32_t i = 0; i < sizeOf(one); ++i) {
        const plan::Value *a = function.values()->Get(one->Get(i));
        const plan::Value *b = batched->values()->Get(several->Get(i));
        bool tensors = a->kind() == plan::ValueKind::Tensor &&
                       b->kind() == plan::ValueKind::Tensor && a->ranked() && b->ranked() &&
                       DataType(a->type()) != DataType::String;
        uint32_t rank = sizeOf(a->dims()), more = sizeOf(b->dims());
        if (!tensors || a->type() != b->type() || more == 0 || (more != rank && more != rank + 1))
          return false;
      }
      return true;
    };
    return fits(function.params(), batched->params()) &&
                   fits(function.results(), batched->results())
               ? ""
               : kWrong;
  }

  std::string verifyInvoke(uint32_t at, uint32_t count) const {
    uint32_t index = code_[at + 1], results = code_[at + 2];
    if (index == 0 || index >= module_.functions()->size())
      return "there is no such function";
    const plan::Function *function = module_.functions()->Get(index);
    if (sizeOf(function->params()) != count || sizeOf(function->results()) != results ||
        function->given_symbols() != 0)
      return "the function takes or gives another number of values";
    if (std::string what = verifyBatched(*function); !what.empty())
      return what;
    for (uint32_t i = 0; i < results; ++i)
      if (!isWritten(code_[at + 3 + i]))
        return "there is no such register";
    return areRead(at + 3 + results, count) ? "" : "there is no such register";
  }

  /// The register that a call gives its result to, or none.
  std::optional<uint32_t> resultOfCall(uint32_t at) const {
    if (at >= size_)
      return std::nullopt;
    auto code = plan::Code(code_[at] & 0xff);
    return code == plan::Code::Call    ? std::optional(code_[at + 2])
           : code == plan::Code::Apply ? std::optional(code_[at + 1])
                                       : std::nullopt;
  }

  bool reads(uint32_t at, uint32_t reg) const {
    uint32_t first = plan::Code(code_[at] & 0xff) == plan::Code::Apply ? 2 : 3;
    uint32_t length = instructionLength(code_, size_, at);
    for (uint32_t i = first; i < length; ++i)
      if ((code_[at + i] & ~kTake) == reg)
        return true;
    return false;
  }

  std::string verifyFork(uint32_t at, uint32_t count) const {
    if (count > kMostForked)
      return "it forks too many calls";
    std::vector<uint32_t> results;
    for (uint32_t next = at + 1; count > 0; --count) {
      auto result = resultOfCall(next);
      if (!result)
        return "what it forks are no calls";
      if (isTargetOfBranch_[next])
        return "a branch leads into a fork";
      for (uint32_t earlier : results)
        if (earlier == *result || reads(next, earlier))
          return "calls that are forked use one another's results";
      results.push_back(*result);
      next += instructionLength(code_, size_, next);
    }
    return {};
  }

  std::string verifyPlaces() const {
    uint32_t count = sizeOf(procedure_.places());
    if (count % 2)
      return "its places are not in pairs";
    for (uint32_t i = 0; i < count; i += 2)
      if (procedure_.places()->Get(i + 1) >= sizeOf(module_.locations()) ||
          (i && procedure_.places()->Get(i) <= procedure_.places()->Get(i - 2)))
        return "its places are out of order or have no text";
    return {};
  }

  const plan::Module &module_;
  const plan::Procedure &procedure_;
  const uint32_t *code_;
  uint32_t size_;
  std::vector<bool> starts_, isTargetOfBranch_;
};

std::string verifyConstant(const plan::ConstantTensor &constant, uint64_t weightsBytes) {
  std::vector<int64_t> shape;
  for (uint32_t i = 0; i < sizeOf(constant.dims()); ++i)
    shape.push_back(constant.dims()->Get(i));
  auto type = DataType(constant.type());
  if (type == DataType::Undefined || constant.type() >= kDataTypeCount || type == DataType::String)
    return "its type can't be that of a constant";
  auto count = elementCount(shape);
  if (shape.size() > 64 || !count || constant.offset() % 64 || constant.offset() > weightsBytes ||
      uint64_t(*count) > (weightsBytes - constant.offset()) / uint64_t(byteSize(type)))
    return "it lies outside the weights";
  return {};
}

} // namespace

uint32_t instructionLength(const uint32_t *code, uint32_t size, uint32_t position) {
  uint64_t count = code[position] >> 8, length = 0;
  bool counted = true;
  switch (plan::Code(code[position] & 0xff)) {
  case plan::Code::Move:
  case plan::Code::Constant:
  case plan::Code::Branch:
  case plan::Code::Reference:
  case plan::Code::Read:
  case plan::Code::Write:
    length = 3, counted = false;
    break;
  case plan::Code::Invoke:
    length = position + 2 < size ? 3 + uint64_t(code[position + 2]) : 0;
    break;
  case plan::Code::Call:
  case plan::Code::Closure:
  case plan::Code::Apply:
  case plan::Code::Construct:
    length = 3;
    break;
  case plan::Code::TailCall:
  case plan::Code::TailApply:
  case plan::Code::Switch:
    length = 2;
    break;
  case plan::Code::Field:
    length = 4, counted = false;
    break;
  case plan::Code::Jump:
  case plan::Code::Return:
    length = 2, counted = false;
    break;
  case plan::Code::Immediate:
    length = 5, counted = false;
    break;
  case plan::Code::Scalar:
    length = 3;
    break;
  case plan::Code::Fork:
    return 1; // of the calls behind it, its count is the number
  }
  if (length == 0 || (!counted && count != 0))
    return 0;
  length += count;
  return length <= size - position ? uint32_t(length) : 0;
}

std::string verifyProcedures(const plan::Module &module, uint64_t weightsBytes) {
  for (uint32_t i = 0; i < sizeOf(module.constants()); ++i)
    if (std::string what = verifyConstant(*module.constants()->Get(i), weightsBytes); !what.empty())
      return "constant " + std::to_string(i) + ": " + what;
  for (uint32_t i = 0; i < sizeOf(module.procedures()); ++i) {
    const plan::Procedure *procedure = module.procedures()->Get(i);
    std::string what = sizeOf(procedure->code()) == 0
                           ? "it has no code"
                           : ProcedureVerifier(module, *procedure).verify();
    if (!what.empty())
      return "procedure " + std::to_string(i) + ": " + what;
  }
  return {};
}

} // namespace tensmith::runtime
