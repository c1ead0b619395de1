// A thin C++ API over tensmith.h: handles that free themselves, and failures as exceptions.
//
// Header-only, C++17, nothing but the C API underneath, so that a program and the library need not
// share a C++ compiler. A `Tensor` is a counted reference: copies are cheap and share the memory.
#ifndef TENSMITH_TENSMITH_HPP
#define TENSMITH_TENSMITH_HPP

#include <tensmith/tensmith.h>

#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace tensmith {

/// What a ts_status says.
class Error : public std::runtime_error {
public:
  Error(ts_status_code code, const char *message) : std::runtime_error(message), code_(code) {}
  ts_status_code code() const { return code_; }

private:
  ts_status_code code_;
};

namespace detail {

inline void check(ts_status *status) {
  if (!status)
    return;
  Error error(ts_status_get_code(status), ts_status_message(status));
  ts_status_free(status);
  throw error;
}

struct Deleter {
  void operator()(ts_module *module) const { ts_module_free(module); }
  void operator()(ts_session *session) const { ts_session_free(session); }
  void operator()(ts_memory_pool *pool) const { ts_memory_pool_free(pool); }
  void operator()(char *text) const { ts_string_free(text); }
};

template <typename T> struct TypeOf;
template <> struct TypeOf<float> {
  static constexpr ts_type value = TS_F32;
};
template <> struct TypeOf<double> {
  static constexpr ts_type value = TS_F64;
};
template <> struct TypeOf<bool> {
  static constexpr ts_type value = TS_BOOL;
};
template <> struct TypeOf<int8_t> {
  static constexpr ts_type value = TS_I8;
};
template <> struct TypeOf<uint8_t> {
  static constexpr ts_type value = TS_U8;
};
template <> struct TypeOf<int16_t> {
  static constexpr ts_type value = TS_I16;
};
template <> struct TypeOf<uint16_t> {
  static constexpr ts_type value = TS_U16;
};
template <> struct TypeOf<int32_t> {
  static constexpr ts_type value = TS_I32;
};
template <> struct TypeOf<uint32_t> {
  static constexpr ts_type value = TS_U32;
};
template <> struct TypeOf<int64_t> {
  static constexpr ts_type value = TS_I64;
};
template <> struct TypeOf<uint64_t> {
  static constexpr ts_type value = TS_U64;
};

} // namespace detail

class Tensor {
public:
  Tensor() = default;
  /// Takes over one count of the handle.
  explicit Tensor(ts_tensor *handle) : handle_(handle) {}
  /// Uninitialised memory.
  Tensor(ts_type type, const std::vector<int64_t> &shape) {
    detail::check(ts_tensor_create(type, shape.data(), shape.size(), &handle_));
  }
  Tensor(const Tensor &other) : handle_(other.handle_) { ts_tensor_retain(handle_); }
  Tensor(Tensor &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Tensor &operator=(Tensor other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Tensor() { ts_tensor_free(handle_); }

  /// On memory of the caller's, which must be dense, row-major and outlive the tensor.
  template <typename T> static Tensor borrow(T *data, const std::vector<int64_t> &shape) {
    ts_tensor *handle = nullptr;
    detail::check(ts_tensor_borrow(detail::TypeOf<T>::value, shape.data(), shape.size(), data,
                                   nullptr, nullptr, &handle));
    return Tensor(handle);
  }

  explicit operator bool() const { return handle_ != nullptr; }
  ts_value_kind kind() const { return ts_tensor_kind(handle_); }
  ts_type type() const { return ts_tensor_type(handle_); }
  std::vector<int64_t> shape() const {
    const int64_t *begin = ts_tensor_shape(handle_);
    return std::vector<int64_t>(begin, begin + ts_tensor_rank(handle_));
  }
  int64_t size() const { return ts_tensor_size(handle_); }
  void *data() const { return ts_tensor_data(handle_); }
  /// The elements; throws where they are of another type.
  template <typename T> T *as() const {
    if (type() != detail::TypeOf<T>::value)
      throw Error(TS_INVALID_ARGUMENT,
                  (std::string("the tensor's elements are ") + ts_type_name(type()) + ", not " +
                   ts_type_name(detail::TypeOf<T>::value))
                      .c_str());
    return static_cast<T *>(data());
  }

  ts_tensor *handle() const { return handle_; }
  /// Gives the count up to the caller.
  ts_tensor *release() { return std::exchange(handle_, nullptr); }

private:
  ts_tensor *handle_ = nullptr;
};

/// One input or output of a module, by value.
struct Port {
  std::string name;
  ts_value_kind kind;
  ts_type type;
  bool ranked;
  std::vector<std::string> dims; // a number, a symbol or an expression over symbols
};

class Module {
public:
  /// `bytes`: of the file that are the module, with which it begins; 0: all of them.
  static Module load(const std::string &path, bool verifyWeights = false, uint64_t bytes = 0) {
    ts_load_options options = {sizeof(options), verifyWeights, bytes, 0};
    ts_module *handle = nullptr;
    detail::check(ts_module_load(path.c_str(), &options, &handle));
    return Module(handle);
  }
  /// Of any machine: to be described, and not run.
  static Module loadDescribed(const std::string &path, bool verifyWeights = false,
                              uint64_t bytes = 0) {
    ts_load_options options = {sizeof(options), verifyWeights, bytes, 1};
    ts_module *handle = nullptr;
    detail::check(ts_module_load(path.c_str(), &options, &handle));
    return Module(handle);
  }
  static Module load(const void *bytes, size_t size, bool verifyWeights = false) {
    ts_load_options options = {sizeof(options), verifyWeights, 0, 0};
    ts_module *handle = nullptr;
    detail::check(ts_module_load_bytes(bytes, size, &options, &handle));
    return Module(handle);
  }

  std::vector<Port> inputs() const {
    return ports(ts_module_input_count(handle_.get()), ts_module_input);
  }
  std::vector<Port> outputs() const {
    return ports(ts_module_output_count(handle_.get()), ts_module_output);
  }
  /// JSON.
  std::string describe() const {
    char *json = nullptr;
    detail::check(ts_module_describe(handle_.get(), &json));
    return std::unique_ptr<char, detail::Deleter>(json).get();
  }
  /// What it has to do without here, in words; empty: nothing.
  std::string warning() const {
    const char *text = ts_module_warning(handle_.get());
    return text ? text : "";
  }
  ts_module *handle() const { return handle_.get(); }

private:
  explicit Module(ts_module *handle) : handle_(handle) {}

  std::vector<Port> ports(size_t count, ts_port (*at)(const ts_module *, size_t)) const {
    std::vector<Port> result;
    for (size_t i = 0; i < count; ++i) {
      ts_port port = at(handle_.get(), i);
      result.push_back({port.name, port.kind, port.type, port.rank >= 0, {}});
      for (int64_t j = 0; j < port.rank; ++j)
        result.back().dims.emplace_back(port.dims[j]);
    }
    return result;
  }

  std::unique_ptr<ts_module, detail::Deleter> handle_;
};

/// Memory for intermediate results that sessions share which do not run at once.
class MemoryPool {
public:
  MemoryPool() {
    ts_memory_pool *handle = nullptr;
    detail::check(ts_memory_pool_create(&handle));
    handle_.reset(handle);
  }
  /// While none of its sessions runs.
  int64_t bytes() const { return ts_memory_pool_bytes(handle_.get()); }
  ts_memory_pool *handle() const { return handle_.get(); }

private:
  std::unique_ptr<ts_memory_pool, detail::Deleter> handle_;
};

/// As ts_session_options says of each; 0: its default.
struct SessionOptions {
  int threads = 0;
  bool checkFinite = false;
  int64_t maxDepth = 0, maxInstructions = 0;
  int64_t memoryLimit = 0; // bytes
  double timeLimit = 0;    // seconds
  int64_t keepLimit = 0;   // bytes
  std::optional<uint64_t> seed;
  const MemoryPool *memoryPool = nullptr; // read when the session is made
};

/// May run on several threads at once.
class Session {
public:
  explicit Session(const Module &module, const SessionOptions &settings = {})
      : outputs_(ts_module_output_count(module.handle())) {
    ts_session_options options = {sizeof(options),
                                  settings.threads,
                                  settings.checkFinite,
                                  settings.maxDepth,
                                  settings.maxInstructions,
                                  settings.memoryLimit,
                                  settings.timeLimit,
                                  settings.keepLimit,
                                  settings.seed ? &*settings.seed : nullptr,
                                  settings.memoryPool ? settings.memoryPool->handle() : nullptr};
    ts_session *handle = nullptr;
    detail::check(ts_session_create(module.handle(), &options, &handle));
    handle_.reset(handle);
  }

  int threads() const { return ts_session_threads(handle_.get()); }
  ts_session *handle() const { return handle_.get(); }

  /// One tensor for each input, in order; one for each output.
  std::vector<Tensor> run(const std::vector<Tensor> &inputs) const {
    std::vector<Tensor> outputs(outputs_);
    run(inputs, outputs);
    return outputs;
  }
  /// Writes into those of `outputs` that are not null.
  void run(const std::vector<Tensor> &inputs, std::vector<Tensor> &outputs) const {
    std::vector<ts_tensor *> given = handles(inputs), results = handles(outputs);
    detail::check(
        ts_session_run(handle_.get(), given.data(), given.size(), results.data(), results.size()));
    for (size_t i = 0; i < outputs.size(); ++i)
      if (!outputs[i])
        outputs[i] = Tensor(results[i]);
  }

  /// As ts_run_options says of each; `trace` takes JSON. `written` must not throw.
  struct RunOptions {
    std::function<void(size_t output)> written;
    std::string *trace = nullptr;
    std::optional<uint64_t> seed;
  };
  void run(const std::vector<Tensor> &inputs, std::vector<Tensor> &outputs,
           const RunOptions &settings) const {
    std::vector<ts_tensor *> given = handles(inputs), results = handles(outputs);
    char *json = nullptr;
    ts_run_options options = {sizeof(options), nullptr, nullptr, settings.trace ? &json : nullptr,
                              settings.seed ? &*settings.seed : nullptr};
    if (settings.written) {
      options.written = [](void *context, size_t output) {
        (*static_cast<const std::function<void(size_t)> *>(context))(output);
      };
      options.context = const_cast<std::function<void(size_t)> *>(&settings.written);
    }
    detail::check(ts_session_run_with(handle_.get(), given.data(), given.size(), results.data(),
                                      results.size(), &options));
    for (size_t i = 0; i < outputs.size(); ++i)
      if (!outputs[i])
        outputs[i] = Tensor(results[i]);
    if (settings.trace)
      *settings.trace = std::unique_ptr<char, detail::Deleter>(json).get();
  }

  using Observer = std::function<void(const std::string &name, const std::string &location,
                                      const Tensor &tensor)>;
  /// One run, each instruction's results of which go to `observe`, as ts_session_observe says; the
  /// tensors are copies.
  void observe(const std::vector<Tensor> &inputs, const Observer &observe) const {
    std::vector<ts_tensor *> given = handles(inputs);
    auto forward = [](void *context, const char *name, const char *location, ts_tensor *tensor) {
      ts_tensor *copy = nullptr;
      detail::check(ts_tensor_copy(tensor, &copy));
      (*static_cast<const Observer *>(context))(name, location, Tensor(copy));
    };
    detail::check(ts_session_observe(handle_.get(), given.data(), given.size(), forward,
                                     const_cast<Observer *>(&observe)));
  }

  /// Times of the instructions of so many runs, as JSON.
  std::string profile(const std::vector<Tensor> &inputs, size_t runs) const {
    std::vector<ts_tensor *> given = handles(inputs);
    char *json = nullptr;
    detail::check(ts_session_profile(handle_.get(), given.data(), given.size(), runs, &json));
    return std::unique_ptr<char, detail::Deleter>(json).get();
  }

  /// When the instructions of so many runs, and the parts of their loops, ran on which thread, as
  /// JSON.
  std::string trace(const std::vector<Tensor> &inputs, size_t runs) const {
    std::vector<ts_tensor *> given = handles(inputs);
    char *json = nullptr;
    detail::check(ts_session_trace(handle_.get(), given.data(), given.size(), runs, &json));
    return std::unique_ptr<char, detail::Deleter>(json).get();
  }

private:
  static std::vector<ts_tensor *> handles(const std::vector<Tensor> &tensors) {
    std::vector<ts_tensor *> result;
    for (const Tensor &tensor : tensors)
      result.push_back(tensor.handle());
    return result;
  }

  size_t outputs_;
  std::unique_ptr<ts_session, detail::Deleter> handle_;
};

} // namespace tensmith
#endif
