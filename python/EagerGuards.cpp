// What converted functions (tensmith.functions) read of the program's world before their graph
// runs, and assume of it: a list of steps over registers, done in one call, since reads and guards
// are a good part of a small step.
//
// A step reads a place of an object into a register (an object's own dict, a key, an element, a
// part of a function), or checks one. No step runs code of the program: places are read as they lie
// in Python's own dicts, lists and tuples, attributes are those of built-in types, and values are
// compared by identity, or have exactly the type of a constant, which is one of Python's immutable
// ones or an element type; members of enumerations are compared by identity. Keys of dicts are such
// constants, or members whose class has no __hash__ and __eq__ of the program (Recording.hashed).
// So the order of steps says only that a value is read before it is looked at.
//
// A step's own work leaves little of this in the caches, so that a check costs what it has to
// fetch. What most of them need lies side by side; of a tensor whose type and shape are those of
// the call before, by identity, these are not looked at; nor are dicts and classes whose version,
// where CPython tells one (before 3.12; later ones are built with the stable interface), is the
// last one.
#include "python/Eager.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#if !defined(Py_LIMITED_API) && PY_VERSION_HEX < 0x030C0000
#define TENSMITH_VERSIONS 1
#else
#define TENSMITH_VERSIONS 0
#endif

namespace tensmith::python {
namespace {

/// A Tensor's array; null for anything else.
const Array *arrayOf(PyObject *x) {
  static PyTypeObject *const type =
      reinterpret_cast<PyTypeObject *>(nb::type<Tensor>().inc_ref().ptr());
  if (Py_TYPE(x) != type && !nb::isinstance<Tensor>(nb::handle(x)))
    return nullptr;
  return &nb::inst_ptr<Tensor>(nb::handle(x))->array;
}

bool isSameFloat(double a, double b) { return a == b && std::signbit(a) == std::signbit(b); }

/// An attribute of an object of a built-in type, which may be made anew by each read; none: null.
nb::object partOf(PyObject *x, PyObject *name) {
  nb::object value = nb::steal(PyObject_GetAttr(x, name));
  if (!value.is_valid())
    PyErr_Clear();
  return value;
}

bool isConstant(PyObject *x, PyObject *constant);

bool areSameParts(PyObject *x, PyObject *constant) {
  static PyObject *const names[] = {PyUnicode_InternFromString("start"),
                                    PyUnicode_InternFromString("stop"),
                                    PyUnicode_InternFromString("step")};
  return std::ranges::all_of(names, [&](PyObject *name) {
    nb::object a = partOf(x, name), b = partOf(constant, name);
    return a.is_valid() && b.is_valid() && isConstant(a.ptr(), b.ptr());
  });
}

/// Of one type and equal; floats with their signs, so that -0.0 is not 0.0; tuples, slices and
/// ranges by their parts, members of enumerations by identity.
bool isConstant(PyObject *x, PyObject *constant) {
  if (x == constant)
    return true;
  if (Py_TYPE(x) != Py_TYPE(constant))
    return false;
  if (PyFloat_CheckExact(x))
    return isSameFloat(PyFloat_AsDouble(x), PyFloat_AsDouble(constant));
  if (PyComplex_CheckExact(x))
    return isSameFloat(PyComplex_RealAsDouble(x), PyComplex_RealAsDouble(constant)) &&
           isSameFloat(PyComplex_ImagAsDouble(x), PyComplex_ImagAsDouble(constant));
  if (PyTuple_CheckExact(x)) {
    Py_ssize_t count = PyTuple_Size(x);
    if (count != PyTuple_Size(constant))
      return false;
    for (Py_ssize_t i = 0; i < count; ++i)
      if (!isConstant(PyTuple_GetItem(x, i), PyTuple_GetItem(constant, i)))
        return false;
    return true;
  }
  if (Py_TYPE(x) == &PyRange_Type || Py_TYPE(x) == &PySlice_Type)
    return areSameParts(x, constant);
  if ((PyType_GetFlags(Py_TYPE(x)) & Py_TPFLAGS_HEAPTYPE) && !nb::isinstance<ElementKind>(x))
    return false; // whose comparison may be the program's
  int isEqual = PyObject_RichCompareBool(x, constant, Py_EQ);
  if (isEqual < 0)
    throw nb::python_error();
  return isEqual == 1;
}

/// Of exactly these keys, in this order.
bool hasKeys(PyObject *dict, PyObject *keys) {
  if (!PyDict_CheckExact(dict) || PyDict_Size(dict) != PyTuple_Size(keys))
    return false;
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t at = 0;
  for (Py_ssize_t i = 0; PyDict_Next(dict, &at, &key, &value); ++i)
    if (!isConstant(key, PyTuple_GetItem(keys, i)))
      return false;
  return true;
}

/// A borrowed reference; null where there is none.
PyObject *valueOf(PyObject *dict, PyObject *key) {
  PyObject *value = PyDict_GetItemWithError(dict, key);
  if (!value && PyErr_Occurred())
    throw nb::python_error();
  return value;
}

/// The dict of an object's own attributes.
PyObject *ownDict(PyObject *x) {
#if TENSMITH_VERSIONS
  PyObject **own = _PyObject_GetDictPtr(x);
  if (own && *own)
    return *own;
#endif
  PyObject *dict = PyObject_GenericGetDict(x, nullptr);
  if (!dict) {
    PyErr_Clear();
    return nullptr;
  }
  Py_DECREF(dict);
  return dict;
}

/// Something that the dict has never had before when it is next changed; 0: unknown.
uint64_t versionOf([[maybe_unused]] PyObject *dict) {
#if TENSMITH_VERSIONS
  return reinterpret_cast<PyDictObject *>(dict)->ma_version_tag;
#else
  return 0;
#endif
}

/// The same of a class and of the classes that it is derived from; 0: unknown.
uint64_t versionOfClass([[maybe_unused]] PyObject *x) {
#if TENSMITH_VERSIONS
  auto *type = reinterpret_cast<PyTypeObject *>(x);
  return PyType_HasFeature(type, Py_TPFLAGS_VALID_VERSION_TAG) ? type->tp_version_tag : 0;
#else
  return 0;
#endif
}

/// Has CPython number the class as it is now.
void numberClass([[maybe_unused]] PyObject *x, [[maybe_unused]] PyObject *name) {
#if TENSMITH_VERSIONS
  _PyType_Lookup(reinterpret_cast<PyTypeObject *>(x), name);
#endif
}

/// What is assumed of a class: its kind, the classes that it is derived from, and what these have
/// themselves under some names.
struct ClassGuard {
  struct Own {
    PyObject *dict, *name, *expected; // expected: null where there is nothing
    bool isType;                      // the type of what is there
  };
  PyObject *type, *order;
  PyTypeObject *kind;
  std::vector<Own> own;
  uint64_t version = 0;

  bool holds() {
    if (Py_TYPE(type) != kind)
      return false;
    if (version && version == versionOfClass(type))
      return true;
    // By the attribute of `type`: a class of classes may have one of that name.
    static PyObject *const ofType = [] {
      PyObject *dict =
          PyObject_GetAttrString(reinterpret_cast<PyObject *>(&PyType_Type), "__dict__");
      PyObject *descriptor = PyMapping_GetItemString(dict, "__mro__");
      return PyObject_GetAttrString(descriptor, "__get__");
    }();
    nb::object now = nb::steal(PyObject_CallFunctionObjArgs(ofType, type, nullptr));
    if (!now.is_valid())
      throw nb::python_error();
    if (now.ptr() != order)
      return false;
    for (const Own &each : own) {
      PyObject *found = valueOf(each.dict, each.name);
      if (each.isType ? !found || reinterpret_cast<PyObject *>(Py_TYPE(found)) != each.expected
                      : found != each.expected)
        return false;
    }
    if (!own.empty())
      numberClass(type, own.front().name);
    version = versionOfClass(type);
    return true;
  }
};

/// Whether tensors that are written may be, and share no memory with each other, nor with those
/// that are read. Of lists it is their elements; false where something is no tensor. Where the
/// tensors that are written are those of the call before, which is what a step of training writes,
/// only what is read and has changed is looked for. A storage is the only one on its memory, unless
/// somebody else shares that: then several may be on parts of it.
class Apart {
public:
  bool operator()(std::span<PyObject *const> written, std::span<PyObject *const> read) {
    now_.clear();
    shared_.clear();
    isWritten_ = true;
    auto addsOrItsElements = [this](PyObject *x) { return adds(x) || addsElements(x); };
    if (!std::ranges::all_of(written, addsOrItsElements))
      return false;
    isWritten_ = false;
    size_t count = now_.size();
    if (!std::ranges::all_of(read, addsOrItsElements))
      return false;
    bool isKnown = !last_.empty() && count == count_ &&
                   std::equal(last_.begin(), last_.begin() + std::ptrdiff_t(count), now_.begin());
    size_t known = isKnown ? last_.size() : 0;
    if (!isKnown) {
      last_.clear();
      own_.assign(now_.begin(), now_.begin() + std::ptrdiff_t(count));
      std::sort(own_.begin(), own_.end());
      if (std::adjacent_find(own_.begin(), own_.end()) != own_.end())
        return false;
    }
    for (size_t i = count; i < now_.size(); ++i)
      if ((i >= known || now_[i] != last_[i]) &&
          std::binary_search(own_.begin(), own_.end(), now_[i]))
        return false;
    if (shared_.size() > 1 && !isSharedApart())
      return false;
    last_.swap(now_);
    count_ = count;
    return true;
  }

private:
  bool adds(PyObject *x) {
    const Array *array = arrayOf(x);
    if (!array || (isWritten_ && !eager::checkWritable(*array).ok()))
      return false;
    const eager::Storage &storage = *array->storage();
    now_.push_back(&storage);
    if (storage.isShared())
      shared_.push_back({storage.data, storage.data + storage.bytes, isWritten_});
    return true;
  }

  bool isSharedApart() {
    std::ranges::sort(shared_, {}, &Range::begin);
    const std::byte *end = nullptr, *endOfWritten = nullptr; // of those that begin before
    for (const Range &range : shared_) {
      if (range.begin < endOfWritten || (range.isWritten && range.begin < end))
        return false;
      end = std::max(end, range.end);
      if (range.isWritten)
        endOfWritten = std::max(endOfWritten, range.end);
    }
    return true;
  }

  /// Not those of lists within it, which may be itself.
  bool addsElements(PyObject *x) {
    if (!PyList_CheckExact(x))
      return false;
    for (Py_ssize_t i = 0; i < PyList_Size(x); ++i)
      if (!adds(PyList_GetItem(x, i)))
        return false;
    return true;
  }

  // Storages of a call and of the one before it: `count_` that are written, then those that are
  // read; those that were written, sorted.
  std::vector<const void *> now_, own_, last_;
  size_t count_ = 0;
  struct Range {
    const std::byte *begin, *end;
    bool isWritten;
  };
  std::vector<Range> shared_; // memory that others have, too, of the call
  bool isWritten_ = false;    // what is added now
};

/// Whether objects are distinct. Most are those of the call before, which were: then those that
/// are not are looked for one by one. Many by a table with open addressing, at most half full,
/// whose memory stays from call to call.
class Distinct {
public:
  bool operator()(std::span<PyObject *const> objects) {
    constexpr size_t kFew = 4; // beyond that the table takes less
    changed_.clear();
    for (size_t i = 0; i < objects.size() && changed_.size() <= kFew; ++i)
      if (i >= last_.size() || objects[i] != last_[i])
        changed_.push_back(i);
    bool areFew = objects.size() == last_.size() && changed_.size() <= kFew;
    if (!(areFew ? areApart(objects) : areApartByTable(objects)))
      return false;
    last_.assign(objects.begin(), objects.end());
    return true;
  }

private:
  /// Each that has changed, from all others.
  bool areApart(std::span<PyObject *const> objects) const {
    return std::ranges::all_of(
        changed_, [&](size_t i) { return std::ranges::count(objects, objects[i]) == 1; });
  }

  bool areApartByTable(std::span<PyObject *const> objects) {
    size_t size = std::bit_ceil(2 * objects.size() + 2);
    table_.assign(size, nullptr);
    for (PyObject *object : objects) {
      size_t at = (reinterpret_cast<size_t>(object) * 0x9E3779B97F4A7C15u) >> 32;
      for (at &= size - 1; table_[at]; at = (at + 1) & (size - 1))
        if (table_[at] == object)
          return false;
      table_[at] = object;
    }
    return true;
  }

  std::vector<PyObject *> table_, last_;
  std::vector<size_t> changed_;
};

/// The steps, in an order in which each register is set before it is looked at.
class Guards {
public:
  /// Registers are the call's values, then the constants, then one for each step that reads. A step
  /// is its kind, the register that it looks at, another or an element's number, and an object:
  ///   reads   dict; key (object: the key); item (number); part (object: its name)
  ///   checks  same, equal, type (object); length (number); keys (object: a tuple); lacks (object:
  ///   a
  ///           key that a dict has not); is (another register); leaf, tensor and shape (object: a
  ///           tensor to be like); function (object: its code, defaults and named defaults); class
  ///           (object: kind, classes that it is derived from, and what their dicts have: pairs of
  ///           dict and name where they have nothing, triples with what they have, and quadruples
  ///           with its type); distinct, apart (object: tuples of registers)
  using Written = std::tuple<std::string, int, int, nb::object>;
  Guards(int values, nb::tuple constants, const std::vector<Written> &steps,
         std::vector<int> outputs)
      : values_(values), outputs_(std::move(outputs)), kept_{constants} {
    for (nb::handle each : constants)
      constants_.push_back(each.ptr());
    count_ = values_ + int(constants_.size());
    for (const Written &each : steps)
      add(each);
  }

  /// A tuple of the outputs' registers, or the number of the first step that fails.
  nb::object run(nb::tuple values) {
    if (int(values.size()) != values_)
      throw nb::value_error("as many values are needed as there are registers for");
    // A tuple may start a collection, and that code of the program: so it is there before anything
    // is looked at.
    nb::object result = nb::steal(PyTuple_New(Py_ssize_t(outputs_.size())));
    PyObject *few[256];
    std::vector<PyObject *> many(count_ > 256 ? size_t(count_) : 0);
    PyObject **at = count_ > 256 ? many.data() : few;
    std::vector<nb::object> parts; // which the objects that they are of need not keep
    if (isSettled_) {
      std::copy(settled_.begin(), settled_.end(), at);
      set(at, values);
      if (doesLeft(at, parts))
        return taken(at, std::move(result));
    }
    set(at, values);
    for (size_t i = 0; i < steps_.size(); ++i)
      if (!does(steps_[i], at, parts))
        return nb::int_(i);
    if (!isSettled_)
      settle(at);
    return taken(at, std::move(result));
  }

  /// What the steps are by may lead back to the function that they are of.
  static int visit(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    if (nb::inst_ready(self))
      for (const nb::object &each : nb::inst_ptr<Guards>(self)->kept_)
        Py_VISIT(each.ptr());
    return 0;
  }
  static int letGo(PyObject *self) {
    Guards *guards = nb::inst_ptr<Guards>(self);
    guards->values_ = -1; // it does not run again
    std::vector<nb::object>().swap(guards->kept_);
    return 0;
  }

private:
  enum class Kind : uint8_t {
    Dict,
    Key,
    Item,
    Part,
    Same,
    Equal,
    Type,
    Length,
    Keys,
    Lacks,
    Is,
    Leaf,
    Tensor,
    Shape,
    Function,
    Class,
    Distinct,
    Apart
  }; // reads first
  struct Step {
    Kind kind;
    int from, other; // registers; of a check by a table: its number there
    PyObject *with;
    int into = 0; // of a read: the register
    // Of a dict that is the same as before, by its version:
    PyObject *dict = nullptr, *value = nullptr;
    uint64_t version = 0;
    bool isLoose = false; // the dict that it looks into differs from call to call
  };
  /// What is left of the steps where a call is like the one before (`settle`): a step, or a dict in
  /// the place of all steps that look into it, which has to be of this version.
  struct Left {
    Step *step;
    PyObject *dict;
    uint64_t version;
  };
  struct OfTensor {
    Array last; // the one that was right the last time, without its storage
    DataType type;
    Shape shape;
  };
  struct OfFunction {
    PyObject *code, *defaults, *named;
  };
  struct OfSeveral {
    std::vector<int> written, read;
    python::Distinct distinct = {};
    python::Apart apart = {};
    std::vector<PyObject *> objects[2] = {}; // of the call at hand
  };

  void add(const Written &written) {
    static const std::map<std::string, Kind> kinds = {{"dict", Kind::Dict},
                                                      {"key", Kind::Key},
                                                      {"item", Kind::Item},
                                                      {"part", Kind::Part},
                                                      {"same", Kind::Same},
                                                      {"equal", Kind::Equal},
                                                      {"type", Kind::Type},
                                                      {"length", Kind::Length},
                                                      {"keys", Kind::Keys},
                                                      {"lacks", Kind::Lacks},
                                                      {"is", Kind::Is},
                                                      {"leaf", Kind::Leaf},
                                                      {"tensor", Kind::Tensor},
                                                      {"shape", Kind::Shape},
                                                      {"function", Kind::Function},
                                                      {"class", Kind::Class},
                                                      {"distinct", Kind::Distinct},
                                                      {"apart", Kind::Apart}};
    const auto &[name, from, other, with] = written;
    Step step{kinds.at(name), from, other, with.ptr()};
    kept_.push_back(with);
    if (step.kind == Kind::Leaf || step.kind == Kind::Tensor || step.kind == Kind::Shape) {
      step.other = int(tensors_.size());
      const Array &array = nb::cast<Tensor &>(with).array;
      tensors_.push_back({array.on(nullptr), array.type(), array.shape()});
    } else if (step.kind == Kind::Function) {
      step.other = int(functions_.size());
      functions_.push_back(
          {nb::handle(with[0]).ptr(), nb::handle(with[1]).ptr(), nb::handle(with[2]).ptr()});
    } else if (step.kind == Kind::Class) {
      step.other = int(classes_.size());
      classes_.push_back(classGuard(with));
    } else if (step.kind == Kind::Distinct || step.kind == Kind::Apart) {
      step.other = int(several_.size());
      several_.push_back(
          {nb::cast<std::vector<int>>(with[0]), nb::cast<std::vector<int>>(with[1])});
    }
    if (step.kind <= Kind::Part)
      step.into = count_++;
    steps_.push_back(step);
  }

  void set(PyObject **at, nb::handle values) const {
    for (int i = 0; i < values_; ++i)
      at[i] = PyTuple_GetItem(values.ptr(), i);
    std::copy(constants_.begin(), constants_.end(), at + values_);
  }

  static bool isRead(const Step &step) { return step.kind <= Kind::Part; }

  /// A step; false where what it reads is not there, or what it checks does not hold.
  bool does(Step &step, PyObject **at, std::vector<nb::object> &parts) {
    if (!isRead(step))
      return holds(step, at);
    if (step.kind == Kind::Part)
      at[step.into] = parts.emplace_back(partOf(at[step.from], step.with)).ptr();
    else
      at[step.into] = read(step, at[step.from]);
    return at[step.into] != nullptr;
  }

  // ---- calls like the one before
  //
  // Nearly all that a call looks at stands in dicts of modules and the like, which are as they were
  // at the call before: CPython gives a dict another version, which no dict has had, whenever it is
  // changed. So after a call for which all steps hold its registers are kept, with a list of what
  // decides whether they are right again: each dict's version in the place of all steps that look
  // into it, and each step of what has no version, as elements of lists, classes and tensors. Where
  // a dict has changed all steps are done, and it is not relied on again.

  static bool isOfDict(const Step &step) {
    return step.kind == Kind::Key || step.kind == Kind::Keys || step.kind == Kind::Lacks;
  }

  bool doesLeft(PyObject **at, std::vector<nb::object> &parts) {
    for (const auto &[step, dict, version] : left_) {
      if (!dict && !does(*step, at, parts))
        return false;
      if (dict && (at[step->from] != dict || !PyDict_Check(dict) || versionOf(dict) != version)) {
        for (Step &each : steps_)
          each.isLoose |= isOfDict(each) && each.from == step->from;
        isSettled_ = false;
        return false;
      }
    }
    return true;
  }

  void settle([[maybe_unused]] PyObject *const *at) {
#if TENSMITH_VERSIONS
    isSettled_ = true;
    left_.clear();
    settled_.assign(at, at + count_);
    std::vector<bool> isKnown(size_t(count_), false), isVersioned(size_t(count_), false);
    std::fill_n(isKnown.begin() + values_, constants_.size(), true);
    for (Step &step : steps_) {
      bool isSettled = false;
      if (isOfDict(step) && !step.isLoose && PyDict_Check(at[step.from])) {
        if (!isVersioned[size_t(step.from)])
          left_.push_back({&step, at[step.from], versionOf(at[step.from])});
        isVersioned[size_t(step.from)] = isSettled = true;
      } else if (step.from >= 0 && isKnown[size_t(step.from)]) {
        isSettled = isFixed(step, at[step.from], isKnown);
      }
      if (!isSettled)
        left_.push_back({&step, nullptr, 0});
      else if (isRead(step))
        isKnown[size_t(step.into)] = true;
    }
#endif
  }

  /// Whether a step of the same object gives the same whatever happens.
  static bool isFixed(const Step &step, PyObject *x, const std::vector<bool> &isKnown) {
    switch (step.kind) {
    case Kind::Same:
    case Kind::Equal: // constants are of immutable types
      return true;
    case Kind::Item:
    case Kind::Length:
      return PyTuple_Check(x);
    case Kind::Is:
      return isKnown[size_t(step.other)];
    default:
      return false;
    }
  }

  static ClassGuard classGuard(const nb::object &with) {
    ClassGuard guard{nb::handle(with[0]).ptr(),
                     nb::handle(with[2]).ptr(),
                     reinterpret_cast<PyTypeObject *>(nb::handle(with[1]).ptr()),
                     {}};
    for (nb::handle each : with[3]) {
      size_t parts = nb::len(each);
      guard.own.push_back({nb::handle(each[0]).ptr(), nb::handle(each[1]).ptr(),
                           parts > 2 ? nb::handle(each[2]).ptr() : nullptr, parts > 3});
    }
    return guard;
  }

  static PyObject *read(Step &step, PyObject *x) {
    switch (step.kind) {
    case Kind::Dict:
      return ownDict(x);
    case Kind::Key: {
      if (!PyDict_Check(x))
        return nullptr;
      uint64_t version = versionOf(x);
      if (version && x == step.dict && version == step.version)
        return step.value;
      step.dict = x, step.version = version;
      return step.value = valueOf(x, step.with);
    }
    default: { // Kind::Item
      bool isList = PyList_Check(x);
      if ((!isList && !PyTuple_Check(x)) ||
          step.other >= (isList ? PyList_Size(x) : PyTuple_Size(x)))
        return nullptr;
      return isList ? PyList_GetItem(x, step.other) : PyTuple_GetItem(x, step.other);
    }
    }
  }

  bool holds(Step &step, PyObject *const *at) {
    PyObject *x = step.from < 0 ? nullptr : at[step.from];
    switch (step.kind) {
    case Kind::Same:
      return x == step.with;
    case Kind::Equal:
      return isConstant(x, step.with);
    case Kind::Type:
      return reinterpret_cast<PyObject *>(Py_TYPE(x)) == step.with;
    case Kind::Length:
      return (PyList_Check(x)    ? PyList_Size(x)
              : PyTuple_Check(x) ? PyTuple_Size(x)
                                 : -1) == step.other;
    case Kind::Keys:
    case Kind::Lacks: {
      if (!PyDict_Check(x))
        return false;
      uint64_t version = versionOf(x);
      if (version && x == step.dict && version == step.version)
        return true;
      if (step.kind == Kind::Keys ? !hasKeys(x, step.with) : valueOf(x, step.with) != nullptr)
        return false;
      step.dict = x, step.version = version;
      return true;
    }
    case Kind::Is:
      return x == at[step.other];
    case Kind::Function:
      return isFunction(functions_[size_t(step.other)], x);
    case Kind::Class:
      return classes_[size_t(step.other)].holds();
    case Kind::Distinct:
    case Kind::Apart:
      return areApart(step.kind, several_[size_t(step.other)], at);
    default:
      return isLike(step.kind, tensors_[size_t(step.other)], x);
    }
  }

  static bool isFunction(const OfFunction &of, PyObject *x) {
    if (!PyObject_TypeCheck(x, functionType()))
      return false;
#if TENSMITH_VERSIONS
    auto *function = reinterpret_cast<PyFunctionObject *>(x);
    auto same = [](PyObject *part, PyObject *like) { return (part ? part : Py_None) == like; };
    return same(function->func_code, of.code) && same(function->func_defaults, of.defaults) &&
           same(function->func_kwdefaults, of.named);
#else
    static PyObject *const names[] = {PyUnicode_InternFromString("__code__"),
                                      PyUnicode_InternFromString("__defaults__"),
                                      PyUnicode_InternFromString("__kwdefaults__")};
    return partOf(x, names[0]).ptr() == of.code && partOf(x, names[1]).ptr() == of.defaults &&
           partOf(x, names[2]).ptr() == of.named;
#endif
  }

  static PyTypeObject *functionType() {
    static PyTypeObject *const type = reinterpret_cast<PyTypeObject *>(
        nb::object(nb::module_::import_("types").attr("FunctionType")).release().ptr());
    return type;
  }

  static bool areApart(Kind kind, OfSeveral &of, PyObject *const *at) {
    auto objectsOf = [at](const std::vector<int> &registers, std::vector<PyObject *> &objects) {
      objects.clear();
      for (int each : registers)
        objects.push_back(at[each]);
    };
    objectsOf(of.written, of.objects[0]);
    if (kind == Kind::Distinct)
      return of.distinct(of.objects[0]);
    objectsOf(of.read, of.objects[1]);
    return of.apart(of.objects[0], of.objects[1]);
  }

  static bool isLike(Kind kind, OfTensor &of, PyObject *x) {
    const Array *array = arrayOf(x);
    if (!array)
      return false;
    if (kind != Kind::Shape && (array->storage()->leaf != nullptr) != (kind == Kind::Leaf))
      return false;
    if (array->hasForm(of.last))
      return true;
    bool isRight = kind == Kind::Shape ? array->shape() == of.shape : array->type() == of.type;
    if (isRight)
      of.last = array->on(nullptr);
    return isRight;
  }

  nb::object taken(PyObject *const *at, nb::object result) const {
    for (size_t i = 0; i < outputs_.size(); ++i)
      PyTuple_SetItem(result.ptr(), Py_ssize_t(i), Py_NewRef(at[outputs_[i]]));
    return result;
  }

  int values_, count_ = 0;
  std::vector<int> outputs_;
  std::vector<PyObject *> constants_;
  std::vector<Step> steps_;
  std::vector<PyObject *> settled_; // the registers of the last call for which all steps held
  std::vector<Left> left_;
  bool isSettled_ = false; // else all steps are to be done
  std::vector<OfTensor> tensors_;
  std::vector<OfFunction> functions_;
  std::vector<ClassGuard> classes_;
  std::vector<OfSeveral> several_;
  std::vector<nb::object> kept_; // what the steps are by
};

/// Of tensors in tuples: whether those that are written share no memory with any other.
bool apart(nb::tuple written, nb::tuple read) {
  std::vector<PyObject *> objects[2];
  for (nb::handle each : written)
    objects[0].push_back(each.ptr());
  for (nb::handle each : read)
    objects[1].push_back(each.ptr());
  return Apart()(objects[0], objects[1]);
}

} // namespace

void bindGuards(nb::module_ &m) {
  static PyType_Slot slots[] = {{Py_tp_traverse, reinterpret_cast<void *>(Guards::visit)},
                                {Py_tp_clear, reinterpret_cast<void *>(Guards::letGo)},
                                {0, nullptr}};
  nb::class_<Guards>(m, "Guards", nb::type_slots(slots))
      .def(nb::init<int, nb::tuple, const std::vector<Guards::Written> &, std::vector<int>>())
      .def("run", &Guards::run);
  m.def("apart", apart);
}

} // namespace tensmith::python
