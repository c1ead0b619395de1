// Recording in Python: tapes, the compiled modules that their programs become, and the tensors that
// derivatives are asked for.
#include "python/Eager.h"

#include "eager/Coexecution.h"
#include "eager/Compiled.h"
#include "eager/Tape.h"

#include <tensmith/tensmith.hpp>

#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>

namespace tensmith::python {
namespace {

using eager::Compiled;
using eager::Tape;

/// (element type, shape)
using TypeOf = std::pair<ElementKind, Shape>;

Tape &usable(Tape &tape) {
  if (tape.isReleased())
    throw std::runtime_error("what was recorded has been given back after its derivatives; ask for "
                             "them with retain=True to take more");
  return tape;
}

nb::tuple programOf(Tape &tape, const std::vector<int> &outputs, bool hasOwnSizes) {
  Tape::Program program = usable(tape).program(outputs, hasOwnSizes);
  nb::list inputs, types;
  for (Array &input : program.inputs)
    inputs.append(nb::cast(Tensor{std::move(input)}));
  for (const Tape::Value &output : program.outputs)
    types.append(nb::cast(TypeOf{{output.type}, output.shape}));
  return nb::make_tuple(nb::str(program.text.c_str(), program.text.size()), inputs, types);
}

int addStep(Tape &tape, const std::string &name, const nb::dict &attributes,
            const std::vector<int> &operands, const std::vector<TypeOf> &results) {
  std::vector<Tape::Value> values;
  for (const auto &[kind, shape] : results)
    values.push_back({kind.type, shape});
  return usable(tape).add(name, attributesOf(attributes), operands, std::move(values));
}

/// Bytes of results up to which their memory is kept from one call to the next.
constexpr int64_t kMostSpare = int64_t(1) << 26;

/// Of a program's results, made once: each call of it asks for their types and shapes.
struct ResultTypes {
  explicit ResultTypes(nb::list given) : types(std::move(given)) {
    int64_t bytes = 0;
    for (const auto &[kind, shape] : nb::cast<std::vector<TypeOf>>(types)) {
      arrays.push_back(take(Array::later(kind.type, shape)));
      bytes += arrays.back().storage()->bytes;
    }
    if (bytes <= kMostSpare)
      spare = std::make_shared<eager::SpareResults>(arrays.size());
  }
  nb::list types;
  std::vector<Array> arrays; // without memory
  std::shared_ptr<eager::SpareResults> spare;
};

std::vector<Array> issued(const std::shared_ptr<Compiled> &compiled,
                          const std::vector<Tensor *> &inputs, const std::vector<Array> &types,
                          const eager::IssueOptions &options) {
  std::vector<Array> arrays;
  arrays.reserve(inputs.size());
  for (Tensor *input : inputs)
    arrays.push_back(input->array);
  return take(eager::issue(compiled, "program", arrays, types, options));
}

nb::list run(const std::shared_ptr<Compiled> &compiled, const std::vector<Tensor *> &inputs,
             const nb::list &types, bool isAwaited) {
  eager::IssueOptions options;
  options.isAwaited = isAwaited;
  nb::list list;
  for (Array &result : issued(compiled, inputs, ResultTypes(types).arrays, options))
    list.append(nb::cast(Tensor{std::move(result)}));
  return list;
}

/// Co-executed steps and tapes ask who has a tensor, and what it was, so that nothing is kept
/// beside them, and nothing written that they are not told of.
Results runPrepared(const std::shared_ptr<Compiled> &compiled, const std::vector<Tensor *> &inputs,
                    const ResultTypes &types, bool isAwaited) {
  bool isWatched = eager::Coexecution::current() || !Tape::recording().empty();
  std::shared_ptr<eager::SpareResults> spare = isWatched ? nullptr : types.spare;
  Results results(issued(compiled, inputs, types.arrays, {spare.get(), isAwaited, !isWatched}),
                  std::move(spare));
  for (const auto &[input, result] : compiled->updates())
    results.isUpdate[result] =
        !isWatched && results.arrays[result].storage() == inputs[input]->array.storage();
  return results;
}

/// As those of a list; of one that is gone there is None.
nb::object resultOf(Results &results, size_t number) {
  if (number >= results.arrays.size())
    throw nb::index_error();
  if (!results.arrays[number])
    return nb::none();
  results.isShown[number] = true;
  return nb::cast(Tensor{results.arrays[number]});
}

/// `device`: that inputs and results are resident on; empty: the host.
std::shared_ptr<Compiled> compiledOf(Module module, const std::string &device) {
  return std::make_shared<Compiled>(std::move(module),
                                    device.empty() ? nullptr : take(eager::findDevice(device)));
}

void bindResults(nb::module_ &m) {
  nb::class_<ResultTypes>(m, "ResultTypes")
      .def(nb::init<nb::list>())
      .def_ro("types", &ResultTypes::types);
  nb::class_<Results>(m, "Results")
      .def("__len__", [](const Results &results) { return results.arrays.size(); })
      .def("__getitem__", resultOf);
}

void bindCompiled(nb::module_ &m) {
  nb::class_<eager::SharedArenas>(m, "SharedArenas")
      .def(nb::init<>())
      .def_prop_ro(
          "bytes",
          [](const eager::SharedArenas &memory) {
            nb::gil_scoped_release released;
            // It never fails: no failure stays with scratch memory.
            (void)eager::Engine::ofProcess().wait(*memory.variable, /*alsoReaders=*/true);
            return memory.bytes();
          },
          "What is kept for intermediate results, once the programs on it that were issued are "
          "done.");
  nb::class_<Compiled>(m, "Compiled")
      .def("run", runPrepared, nb::arg("inputs"), nb::arg("types"), nb::arg("is_awaited") = false)
      .def("run", run, nb::arg("inputs"), nb::arg("types"), nb::arg("is_awaited") = false)
      .def("on", [](const Compiled &compiled,
                    std::shared_ptr<eager::SharedArenas> memory) { return compiled.on(memory); })
      .def_rw("source", &Compiled::source)
      .def_rw("text", &Compiled::text)
      .def_rw("derives", &Compiled::derives)
      .def_rw("repeats", &Compiled::repeats);
  m.def(
      "load_bytes",
      [](nb::bytes bytes, const std::string &device) {
        return compiledOf(Module::load(bytes.c_str(), bytes.size()), device);
      },
      nb::arg("bytes"), nb::arg("device") = "");
  m.def(
      "load_file",
      [](const std::string &path, uint64_t bytes, const std::string &device) {
        return compiledOf(Module::load(path, false, bytes), device);
      },
      nb::arg("path"), nb::arg("bytes"), nb::arg("device") = "");
}

bool isWholeStorage(const Array &array) {
  return array.isDense() && array.size() * byteSize(array.type()) == array.storage()->bytes;
}

/// Floats that are a whole storage, so that their gradient has a place.
void setWanted(Tensor &tensor, bool isWanted) {
  auto &leaf = tensor.array.storage()->leaf;
  if (!isWanted)
    leaf.reset();
  else if (!isFloat(tensor.array.type()))
    throw nb::type_error("only tensors of floats have gradients");
  else if (!isWholeStorage(tensor.array))
    throw nb::value_error("a view has the gradient of the tensor that it is of; set requires_grad "
                          "there, or of a copy");
  else if (!leaf)
    leaf = std::make_shared<eager::Leaf>(eager::Leaf{tensor.array.shape(), {}});
}

void bindLeaves(nb::class_<Tensor> &tensor) {
  tensor.def_prop_rw(
      "requires_grad", [](const Tensor &t) { return t.array.storage()->leaf != nullptr; },
      setWanted,
      "Whether gradients by this tensor are wanted wherever it is used; kept by its memory.");
  tensor.def_prop_rw(
      "grad",
      [](const Tensor &t) -> nb::object {
        const auto &leaf = t.array.storage()->leaf;
        if (!leaf || !leaf->gradient)
          return nb::none();
        return nb::cast(Tensor{leaf->gradient});
      },
      [](Tensor &t, nb::object value) {
        auto &leaf = t.array.storage()->leaf;
        if (!leaf)
          throw nb::value_error("the tensor's gradient is not asked for; set requires_grad first");
        leaf->gradient = value.is_none() ? Array() : nb::cast<Tensor &>(value).array;
      },
      nb::arg("value").none(), "The sum of the gradients so far; None before the first.");
}

} // namespace

void bindTape(nb::module_ &m, nb::class_<Tensor> &tensor) {
  nb::class_<Tape>(m, "Tape")
      .def("share_numbers", &Tape::shareNumbers)
      .def("begin", &Tape::begin)
      .def("end", &Tape::end)
      .def("watch",
           [](Tape &tape, const Tensor &t, bool isInput) {
             int number = usable(tape).watch(t.array, isInput);
             if (number < 0)
               throw nb::type_error("the tensor can't be followed: complex numbers have no "
                                    "derivative here");
             return number;
           })
      .def("read", [](Tape &tape, const Tensor &t) { return take(usable(tape).read(t.array)); })
      // Whether the tape is to be told of what is done with the tensor.
      .def("is_active",
           [](Tape &tape, const Tensor &t) { return tape.isWhole() || tape.isActive(t.array); })
      .def("is_bound", [](Tape &tape, const Tensor &t) { return tape.isActive(t.array); })
      .def("keep_for",
           [](Tape &tape, const Tensor &t, const Tensor &kept) {
             if (!isWholeStorage(t.array) || t.array.type() != kept.array.type())
               throw nb::type_error("a view is written; write the tensor that it is of");
             check(tape.keepFor(t.array, kept.array));
           })
      .def("bind", [](Tape &tape, const Tensor &t, int value) { tape.bind(t.array, value); })
      .def("renew_leaves", &Tape::renewLeaves)
      .def("unrenewed", &Tape::unrenewed)
      .def("add", addStep)
      .def("program", programOf, nb::arg("outputs"), nb::arg("has_own_sizes") = false)
      // What the inputs of such a program are, as values, in their order.
      .def("operands",
           [](Tape &tape, const std::vector<int> &outputs) {
             return usable(tape).program(outputs).operands;
           })
      // The text, and the values that are its inputs.
      .def("part",
           [](Tape &tape, int first, const std::vector<int> &outputs) {
             Tape::Program part = usable(tape).part(first, outputs);
             return nb::make_tuple(nb::str(part.text.c_str(), part.text.size()), part.operands);
           })
      .def("next", &Tape::next)
      .def("is_strict", &Tape::isStrict)
      .def("leaves",
           [](const Tape &tape) {
             nb::list list;
             for (const auto &[array, number] : tape.leaves())
               list.append(nb::make_tuple(nb::cast(Tensor{array}), number));
             return list;
           })
      .def("keep_with_results", &Tape::keepWithResults)
      .def("release", &Tape::release);
  m.def(
      "tape", [](bool isStrict, bool isWhole) { return std::make_shared<Tape>(isStrict, isWhole); },
      nb::arg("is_strict"), nb::arg("is_whole") = false);
  m.def("recording", [] { return Tape::recording(); });
  m.def("is_recorded_strictly", [] {
    return std::ranges::any_of(Tape::recording(),
                               [](const auto &tape) { return tape->isStrict(); });
  });
  m.def("is_whole", [](const Tensor &t) { return isWholeStorage(t.array); });
  m.def("history", [](const Tensor &t) { return t.array.storage()->history; });
  bindLeaves(tensor);
  bindResults(m);
  bindCompiled(m);
}

} // namespace tensmith::python
