// One walk over the tables; see ListBytes.h.
#include "runtime/ListBytes.h"

namespace tensmith::runtime {
namespace {

using Strings = flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>;
template <typename T> using Tables = flatbuffers::Vector<flatbuffers::Offset<T>>;

class ListCounter {
public:
  explicit ListCounter(uint64_t limit) : limit_(limit) {}

  uint64_t count(const plan::Module &module) {
    add(module.features());
    add(module.locations());
    each(module.functions(), &ListCounter::addFunction);
    each(module.kernels(), &ListCounter::addKernel);
    each(module.routines(), &ListCounter::addRoutine);
    each(module.inputs(), &ListCounter::addPort);
    each(module.outputs(), &ListCounter::addPort);
    each(module.metadata(), &ListCounter::addAttribute);
    each(module.procedures(), &ListCounter::addProcedure);
    each(module.constants(), &ListCounter::addConstant);
    each(module.data_types(), &ListCounter::addDataType);
    each(module.states(), &ListCounter::addState);
    return total_;
  }

private:
  void add(const flatbuffers::String *text) { total_ += text ? text->size() : 0; }
  template <typename T> void add(const flatbuffers::Vector<T> *numbers) {
    total_ += numbers ? uint64_t(numbers->size()) * sizeof(T) : 0;
  }
  void add(const flatbuffers::Vector<const plan::Expr *> *exprs) {
    total_ += exprs ? uint64_t(exprs->size()) * sizeof(plan::Expr) : 0;
  }
  void add(const Strings *texts) { each(texts, &ListCounter::addText); }

  /// The elements are not looked at once there are too many.
  template <typename T>
  void each(const Tables<T> *tables, void (ListCounter::*visit)(const T &table)) {
    total_ += tables ? uint64_t(tables->size()) * sizeof(flatbuffers::uoffset_t) : 0;
    for (uint32_t i = 0; tables && i < tables->size() && total_ <= limit_; ++i)
      (this->*visit)(*tables->Get(i));
  }

  void addText(const flatbuffers::String &text) { add(&text); }
  void addFunction(const plan::Function &function) {
    add(function.name());
    add(function.symbols());
    add(function.exprs());
    add(function.params());
    add(function.results());
    add(function.device_arenas());
    each(function.values(), &ListCounter::addValue);
    each(function.instructions(), &ListCounter::addInstruction);
  }
  void addValue(const plan::Value &value) {
    add(value.dims());
    add(value.name());
  }
  void addInstruction(const plan::Instruction &instruction) {
    for (const auto *list : {instruction.operands(), instruction.results(), instruction.sizes(),
                             instruction.functions(), instruction.releases(), instruction.waits()})
      add(list);
  }
  void addKernel(const plan::Kernel &kernel) {
    for (const auto *text : {kernel.symbol(), kernel.label(), kernel.schedule()})
      add(text);
    add(kernel.messages());
  }
  void addRoutine(const plan::Routine &routine) {
    add(routine.operator_());
    each(routine.attributes(), &ListCounter::addAttribute);
  }
  void addPort(const plan::Port &port) {
    add(port.name());
    add(port.dims());
    add(port.type());
  }
  void addProcedure(const plan::Procedure &procedure) {
    add(procedure.name());
    add(procedure.code());
    add(procedure.places());
  }
  void addState(const plan::State &state) { add(state.name()); }
  void addConstant(const plan::ConstantTensor &constant) { add(constant.dims()); }
  void addDataType(const plan::DataDeclaration &type) {
    add(type.name());
    add(type.params());
    each(type.constructors(), &ListCounter::addConstructor);
  }
  void addConstructor(const plan::Constructor &constructor) {
    add(constructor.name());
    add(constructor.fields());
  }
  void addAttribute(const plan::Attribute &attribute) {
    add(attribute.name());
    if (const auto *text = attribute.value_as_Text())
      add(text->value());
    if (const auto *integers = attribute.value_as_Integers())
      add(integers->values());
    if (const auto *reals = attribute.value_as_Reals())
      add(reals->values());
    if (const auto *texts = attribute.value_as_Texts())
      add(texts->values());
  }

  uint64_t limit_, total_ = 0;
};

} // namespace

uint64_t listBytes(const plan::Module &module, uint64_t limit) {
  return ListCounter(limit).count(module);
}

} // namespace tensmith::runtime
