// The public C API over the runtime: handles, statuses, and the boundary that no exception crosses.
#include <tensmith/tensmith.h>

#include "runtime/DLPack.h"
#include "runtime/Describe.h"
#include "runtime/Device.h"
#include "runtime/Evaluators.h"
#include "runtime/Session.h"
#include "runtime/States.h"

#include <cstdlib>
#include <new>

using namespace tensmith;
using runtime::Tensor;
using runtime::TensorKind;
using runtime::TensorRef;

struct ts_status {
  ts_status_code code;
  std::string message;
};

/// What ts_module_input and its like give out, which must stay in place.
struct Port {
  const char *name;
  ts_value_kind kind;
  ts_type type;
  int64_t rank;
  std::vector<const char *> dims;
};

struct ts_module {
  std::shared_ptr<const runtime::Module> module;
  std::vector<Port> inputs, outputs;
};

struct ts_memory_pool {
  std::shared_ptr<runtime::MemoryPool> pool;
};
struct ts_session {
  runtime::Session session;
  bool checkFinite = false;
};

namespace {

// Given where there is not even memory for a status of its own; ts_status_free knows it.
ts_status kNoMemory{TS_RESOURCE_EXHAUSTED, "there is not enough memory"};

ts_status *fromStatus(const Status &status) {
  return status.ok() ? nullptr : new ts_status{ts_status_code(status.code()), status.message()};
}

ts_status *internalError(const char *what) {
  try {
    return new ts_status{TS_INTERNAL, std::string("internal error: ") + what};
  } catch (...) {
    return &kNoMemory;
  }
}

/// Runs what may fail, and turns whatever it throws into a status.
template <typename Work> ts_status *guarded(Work work) noexcept {
  try {
    return fromStatus(work());
  } catch (const std::bad_alloc &) {
    return &kNoMemory;
  } catch (const std::exception &error) {
    return internalError(error.what());
  } catch (...) {
    return internalError("what was thrown is no exception");
  }
}

Tensor *unwrap(ts_tensor *tensor) { return reinterpret_cast<Tensor *>(tensor); }
const Tensor *unwrap(const ts_tensor *tensor) { return reinterpret_cast<const Tensor *>(tensor); }
ts_tensor *wrap(Tensor *tensor) { return reinterpret_cast<ts_tensor *>(tensor); }

Status give(Result<TensorRef> tensor, ts_tensor **out) {
  if (!tensor)
    return tensor.status();
  *out = wrap(tensor->release());
  return {};
}

Status missing(const char *what) {
  return invalidArgument(std::string(what) + " is a null pointer");
}

Result<DataType> typeOf(ts_type type) {
  if (type <= TS_UNDEFINED || type >= kDataTypeCount)
    return invalidArgument("there is no element type " + std::to_string(int(type)));
  return DataType(type);
}

/// Null: the host's.
Result<runtime::Device *> memoryOf(const char *device) {
  if (!device)
    return static_cast<runtime::Device *>(nullptr);
  if (runtime::Device *opened = runtime::openDevice(device))
    return opened;
  return unsupported("the device '" + std::string(device) +
                     "' is not there, or its library is not beside the runtime's");
}

/// What a tensor is made of, and the memory that it is to lie in.
Status checkNew(const char *device, ts_type type, bool lacksShape, bool lacksResult,
                runtime::Device *&memory) {
  if (lacksResult || lacksShape)
    return missing(lacksResult ? "the result" : "the shape");
  auto found = memoryOf(device);
  if (!found.ok())
    return found.status();
  memory = *found;
  return typeOf(type).status();
}

Status assign(const Tensor &to, const Tensor &from) {
  bool fits = to.kind() == runtime::TensorKind::Tensor && from.kind() == to.kind() &&
              from.type() == to.type() && from.type() != DataType::String &&
              from.size() == to.size();
  if (!fits)
    return invalidArgument(describe(from) + " can't be copied into " + describe(to));
  if (!runtime::copyBetween(to.device(), to.data(), from.device(), from.data(), from.bytes()))
    return {StatusCode::ResourceExhausted, "there is not enough memory to copy a tensor"};
  return {};
}

/// The caller's options, as far as its version of the structure goes; the rest are zeros.
template <typename Options> Result<Options> optionsOf(const Options *given) {
  Options options = {};
  if (!given)
    return options;
  if (given->size < sizeof(size_t))
    return invalidArgument("the options' size is not set");
  std::memcpy(&options, given, std::min(given->size, sizeof(Options)));
  return options;
}

std::optional<uint64_t> numberOf(const uint64_t *given) {
  return given ? std::optional(*given) : std::nullopt;
}

/// Makes room for the times of the session's steps.
void prepare(runtime::Profile &profile, const ts_session &session, runtime::Trace *trace) {
  const runtime::Program &program = session.session.module().program();
  for (const auto &function : program.functions)
    profile.functions.emplace_back(function.steps.size());
  for (const auto &procedure : program.procedures)
    profile.procedures.emplace_back(procedure.code.size());
  profile.trace = trace;
}

ts_value_kind kindOf(plan::ValueKind kind) {
  switch (kind) {
  case plan::ValueKind::Sequence:
    return TS_SEQUENCE;
  case plan::ValueKind::Optional:
    return TS_OPTIONAL;
  case plan::ValueKind::None:
    return TS_NONE;
  case plan::ValueKind::Object:
    return TS_DATA;
  case plan::ValueKind::Map:
    return TS_MAP;
  default:
    return TS_TENSOR;
  }
}

std::vector<Port> portsOf(const runtime::Module &module, bool inputs) {
  const auto *ports = inputs ? module.plan().inputs() : module.plan().outputs();
  std::vector<Port> result;
  for (uint32_t i = 0; ports && i < ports->size(); ++i) {
    const auto *port = ports->Get(i);
    const auto &value = module.program().functions[0].values[port->value()];
    bool sequence = value.kind == plan::ValueKind::Sequence;
    Port one = {port->name()->c_str(),
                kindOf(value.kind),
                ts_type(value.type),
                value.ranked && !sequence ? int64_t(value.dims.size()) : -1,
                {}};
    for (uint32_t j = 0; one.rank > 0 && port->dims() && j < port->dims()->size(); ++j)
      one.dims.push_back(port->dims()->Get(j)->c_str());
    if (one.rank > int64_t(one.dims.size()))
      one.rank = -1;
    result.push_back(std::move(one));
  }
  return result;
}

ts_port portAt(const std::vector<Port> &ports, size_t index) {
  if (index >= ports.size())
    return {"", TS_NONE, TS_UNDEFINED, -1, nullptr};
  const Port &port = ports[index];
  return {port.name, port.kind, port.type, port.rank, port.dims.data()};
}

Status makeModule(Result<std::shared_ptr<const runtime::Module>> loaded, ts_module **out) {
  if (!loaded)
    return loaded.status();
  auto module = std::make_unique<ts_module>();
  module->module = std::move(*loaded);
  module->inputs = portsOf(*module->module, true);
  module->outputs = portsOf(*module->module, false);
  *out = module.release();
  return {};
}

Status copyText(const std::string &text, char **out) {
  *out = static_cast<char *>(std::malloc(text.size() + 1));
  if (!*out)
    return {StatusCode::ResourceExhausted, "there is not enough memory"};
  std::memcpy(*out, text.c_str(), text.size() + 1);
  return {};
}

std::vector<TensorRef> retained(ts_tensor *const *tensors, size_t count) {
  std::vector<TensorRef> result;
  result.reserve(count);
  for (size_t i = 0; i < count; ++i)
    result.push_back(TensorRef::retain(unwrap(tensors[i])));
  return result;
}

} // namespace

extern "C" {

ts_status *ts_status_create(ts_status_code code, const char *message) {
  try {
    return new ts_status{code, message ? message : ""};
  } catch (...) {
    return &kNoMemory;
  }
}

ts_status_code ts_status_get_code(const ts_status *status) { return status ? status->code : TS_OK; }
const char *ts_status_message(const ts_status *status) {
  return status ? status->message.c_str() : "";
}
void ts_status_free(ts_status *status) {
  if (status != &kNoMemory)
    delete status;
}

ts_status *ts_add_evaluators(const reference::Entry *const *rows, size_t count) {
  return guarded([&] { return reference::evaluators().add({rows, count}); });
}

const char *ts_version(void) { return TENSMITH_VERSION_TEXT; }

const char *ts_type_name(ts_type type) {
  auto known = typeOf(type);
  return known ? name(*known).data() : "undefined";
}
size_t ts_type_bytes(ts_type type) {
  auto known = typeOf(type);
  return known ? size_t(byteSize(*known)) : 0;
}

ts_status *ts_tensor_create(ts_type type, const int64_t *shape, size_t rank, ts_tensor **out) {
  return ts_tensor_create_on(nullptr, type, shape, rank, out);
}

ts_status *ts_tensor_create_on(const char *device, ts_type type, const int64_t *shape, size_t rank,
                               ts_tensor **out) {
  return guarded([&]() -> Status {
    runtime::Device *memory = nullptr;
    if (Status status = checkNew(device, type, rank && !shape, !out, memory); !status.ok())
      return status;
    if (memory && type == TS_STRING)
      return invalidArgument("strings lie in the host's memory alone");
    return give(Tensor::create(DataType(type), {shape, rank}, memory), out);
  });
}

ts_status *ts_tensor_borrow(ts_type type, const int64_t *shape, size_t rank, void *data,
                            void (*release)(void *), void *context, ts_tensor **out) {
  return ts_tensor_borrow_on(nullptr, type, shape, rank, data, release, context, out);
}

ts_status *ts_tensor_borrow_on(const char *device, ts_type type, const int64_t *shape, size_t rank,
                               void *data, void (*release)(void *), void *context,
                               ts_tensor **out) {
  return guarded([&]() -> Status {
    runtime::Device *memory = nullptr;
    if (Status status = checkNew(device, type, rank && !shape, !out, memory); !status.ok())
      return status;
    if (type == TS_STRING)
      return invalidArgument("strings can't be borrowed; use ts_tensor_strings");
    auto known = DataType(type);
    if (reinterpret_cast<uintptr_t>(data) % uintptr_t(byteSize(known)))
      return invalidArgument("the memory of a tensor of " + std::string(name(known)) +
                             " must be aligned to its elements");
    // Checked first: from the owner's making on, `release` will be called whatever happens.
    auto tensor = Tensor::on(known, {shape, rank}, data, nullptr);
    if (!tensor)
      return tensor.status();
    if (!data && (*tensor)->size())
      return missing("the data");
    (*tensor)->setDevice(memory);
    // A memory of the caller's has an owner even where nothing is to be released: it outlives the
    // runs.
    static char caller;
    (*tensor)->keep(std::shared_ptr<const void>(static_cast<const void *>(data ? data : &caller),
                                                [release, context](const void *) {
                                                  if (release)
                                                    release(context);
                                                }));
    return give(std::move(tensor), out);
  });
}

ts_status *ts_tensor_strings(const char *const *values, const int64_t *shape, size_t rank,
                             ts_tensor **out) {
  return guarded([&]() -> Status {
    if (!out || (rank && !shape))
      return missing(out ? "the shape" : "the result");
    auto count = elementCount({shape, rank});
    if (!count)
      return invalidArgument("no tensor can have the shape " + toString({shape, rank}));
    std::vector<std::string> strings;
    for (int64_t i = 0; i < *count; ++i) {
      if (!values || !values[i])
        return missing("a string");
      strings.emplace_back(values[i]);
    }
    return give(Tensor::ofStrings(std::move(strings), {shape, rank}), out);
  });
}

ts_status *ts_tensor_sequence(ts_tensor *const *elements, size_t count, ts_tensor **out) {
  return guarded([&]() -> Status {
    if (!out || (count && !elements))
      return missing(out ? "the elements" : "the result");
    for (size_t i = 0; i < count; ++i)
      if (TensorKind kind = elements[i] ? unwrap(elements[i])->kind() : TensorKind::None;
          kind != TensorKind::Tensor && kind != TensorKind::Map)
        return invalidArgument("element " + std::to_string(i) +
                               " of the sequence is no tensor or map");
    return give(Tensor::sequence(retained(elements, count)), out);
  });
}

ts_status *ts_tensor_map(ts_tensor *keys, ts_tensor *values, ts_tensor **out) {
  return guarded([&]() -> Status {
    if (!keys || !values || !out)
      return missing(!out ? "the result" : keys ? "the values" : "the keys");
    return give(
        runtime::makeMap(TensorRef::retain(unwrap(keys)), TensorRef::retain(unwrap(values))), out);
  });
}

ts_status *ts_tensor_none(ts_tensor **out) {
  return guarded([&] { return out ? give(Tensor::none(), out) : missing("the result"); });
}

ts_status *ts_tensor_data_value(uint32_t constructor, ts_tensor *const *fields, size_t count,
                                ts_tensor **out) {
  return guarded([&]() -> Status {
    if (!out || (count && !fields))
      return missing(out ? "the fields" : "the result");
    for (size_t i = 0; i < count; ++i)
      if (!fields[i])
        return missing("a field");
    return give(Tensor::data(constructor, retained(fields, count)), out);
  });
}
uint32_t ts_tensor_constructor(const ts_tensor *tensor) { return unwrap(tensor)->tag(); }

ts_status *ts_tensor_from_dlpack(struct DLManagedTensor *managed, ts_tensor **out) {
  return guarded([&] {
    return managed && out ? give(runtime::fromDlpack(managed), out)
                          : missing(out ? "the DLPack tensor" : "the result");
  });
}

ts_status *ts_tensor_to_dlpack(ts_tensor *tensor, struct DLManagedTensor **out) {
  return guarded([&]() -> Status {
    if (!tensor || !out)
      return missing(out ? "the tensor" : "the result");
    auto managed = runtime::toDlpack(TensorRef::retain(unwrap(tensor)));
    if (!managed)
      return managed.status();
    *out = *managed;
    return {};
  });
}

ts_status *ts_tensor_copy(const ts_tensor *tensor, ts_tensor **out) {
  return guarded([&]() -> Status {
    return tensor && out ? give(unwrap(tensor)->copy(), out)
                         : missing(out ? "the tensor" : "the result");
  });
}

const char *ts_tensor_device(const ts_tensor *tensor) {
  const runtime::Device *device = unwrap(tensor)->device();
  return device ? nameOf(*device).c_str() : nullptr;
}

ts_status *ts_tensor_copy_to(const ts_tensor *tensor, const char *device, ts_tensor **out) {
  return guarded([&]() -> Status {
    if (!tensor || !out)
      return missing(out ? "the tensor" : "the result");
    auto memory = memoryOf(device);
    if (!memory.ok())
      return memory.status();
    const Tensor &from = *unwrap(tensor);
    if (from.device() == *memory)
      return give(from.copy(), out);
    if (from.kind() != runtime::TensorKind::Tensor || from.type() == DataType::String)
      return invalidArgument("a " + describe(from) + " lies in the host's memory alone");
    auto copy = Tensor::create(from.type(), from.shape(), *memory);
    if (!copy)
      return copy.status();
    if (Status status = assign(**copy, from); !status.ok())
      return status;
    return give(std::move(copy), out);
  });
}

ts_status *ts_tensor_assign(ts_tensor *to, const ts_tensor *from) {
  return guarded([&]() -> Status {
    return to && from ? assign(*unwrap(to), *unwrap(from)) : missing("a tensor");
  });
}

void ts_tensor_retain(ts_tensor *tensor) {
  if (tensor)
    unwrap(tensor)->retain();
}
void ts_tensor_free(ts_tensor *tensor) {
  if (tensor)
    unwrap(tensor)->release();
}
ts_value_kind ts_tensor_kind(const ts_tensor *tensor) {
  return ts_value_kind(unwrap(tensor)->kind());
}
ts_type ts_tensor_type(const ts_tensor *tensor) { return ts_type(unwrap(tensor)->type()); }
size_t ts_tensor_rank(const ts_tensor *tensor) { return unwrap(tensor)->shape().size(); }
const int64_t *ts_tensor_shape(const ts_tensor *tensor) { return unwrap(tensor)->shape().data(); }
int64_t ts_tensor_size(const ts_tensor *tensor) { return unwrap(tensor)->size(); }
void *ts_tensor_data(const ts_tensor *tensor) { return unwrap(tensor)->data(); }
const char *ts_tensor_string(const ts_tensor *tensor, int64_t index) {
  const auto &strings = unwrap(tensor)->strings();
  return index >= 0 && index < int64_t(strings.size()) ? strings[size_t(index)].c_str() : nullptr;
}
size_t ts_tensor_sequence_length(const ts_tensor *tensor) {
  return unwrap(tensor)->elements().size();
}
ts_tensor *ts_tensor_sequence_at(const ts_tensor *tensor, size_t index) {
  const auto &elements = unwrap(tensor)->elements();
  return index < elements.size() ? wrap(elements[index].get()) : nullptr;
}

ts_status *ts_module_load(const char *path, const ts_load_options *options, ts_module **out) {
  return guarded([&]() -> Status {
    if (!path || !out)
      return missing(out ? "the path" : "the result");
    auto known = optionsOf(options);
    if (!known)
      return known.status();
    return makeModule(runtime::Module::load(path, {known->verify_weights != 0, known->module_bytes,
                                                   known->only_described != 0}),
                      out);
  });
}

ts_status *ts_module_load_bytes(const void *bytes, size_t size, const ts_load_options *options,
                                ts_module **out) {
  return guarded([&]() -> Status {
    if ((!bytes && size) || !out)
      return missing(out ? "the module" : "the result");
    auto known = optionsOf(options);
    if (!known)
      return known.status();
    return makeModule(
        runtime::Module::loadBytes({static_cast<const std::byte *>(bytes), size},
                                   {known->verify_weights != 0, 0, known->only_described != 0}),
        out);
  });
}

void ts_module_free(ts_module *module) { delete module; }
size_t ts_module_input_count(const ts_module *module) { return module->inputs.size(); }
size_t ts_module_output_count(const ts_module *module) { return module->outputs.size(); }
ts_port ts_module_input(const ts_module *module, size_t index) {
  return portAt(module->inputs, index);
}
ts_port ts_module_output(const ts_module *module, size_t index) {
  return portAt(module->outputs, index);
}
size_t ts_module_state_count(const ts_module *module) {
  const auto *states = module->module->plan().states();
  return states ? states->size() : 0;
}
ts_state ts_module_state(const ts_module *module, size_t index) {
  if (index >= ts_module_state_count(module))
    return {"", TS_STATE_STEP, SIZE_MAX, SIZE_MAX, 0};
  const auto *state = module->module->plan().states()->Get(uint32_t(index));
  size_t output = state->output() == UINT32_MAX ? TS_NO_OUTPUT : state->output();
  return {state->name()->c_str(), ts_state_kind(state->kind()), state->input(), output,
          state->in_place()};
}
ts_status *ts_module_state_initial(const ts_module *module, size_t index, ts_tensor **out) {
  return guarded([&]() -> Status {
    if (!module || !out)
      return missing(out ? "the module" : "the result");
    if (index >= ts_module_state_count(module))
      return invalidArgument("there is no state " + std::to_string(index));
    return give(runtime::initialValue(*module->module,
                                      *module->module->plan().states()->Get(uint32_t(index))),
                out);
  });
}
ts_status *ts_module_describe(const ts_module *module, char **json) {
  return guarded([&] {
    return module && json ? copyText(runtime::describeModule(*module->module), json)
                          : missing(json ? "the module" : "the result");
  });
}
void ts_string_free(char *text) { std::free(text); }
const char *ts_module_warning(const ts_module *module) {
  return module && !module->module->warning().empty() ? module->module->warning().c_str() : nullptr;
}

ts_status *ts_session_create(ts_module *module, const ts_session_options *options,
                             ts_session **out) {
  return guarded([&]() -> Status {
    if (!module || !out)
      return missing(out ? "the module" : "the result");
    auto known = optionsOf(options);
    if (!known)
      return known.status();
    if (!module->module->canRun())
      return invalidArgument("the module was loaded to be described alone; load it to be run");
    if (known->threads < 0)
      return invalidArgument("a session can't have " + std::to_string(known->threads) + " threads");
    if (known->max_depth < 0 || known->max_instructions < 0 || known->memory_limit < 0 ||
        known->keep_limit < 0)
      return invalidArgument("a session's limits can't be negative");
    runtime::Limits limits;
    if (known->max_depth)
      limits.depth = known->max_depth;
    if (known->max_instructions)
      limits.instructions = known->max_instructions;
    limits.memoryBytes = known->memory_limit;
    if (known->time_limit != 0)
      limits.seconds = known->time_limit > 0 ? known->time_limit : 0;
    if (known->keep_limit)
      limits.keepBytes = known->keep_limit;
    *out = new ts_session{{module->module, known->threads, limits, numberOf(known->seed),
                           known->memory_pool ? known->memory_pool->pool : nullptr},
                          known->check_finite != 0};
    return {};
  });
}
ts_status *ts_memory_pool_create(ts_memory_pool **out) {
  return guarded([&]() -> Status {
    if (!out)
      return missing("the result");
    *out = new ts_memory_pool{std::make_shared<runtime::MemoryPool>()};
    return {};
  });
}
void ts_memory_pool_free(ts_memory_pool *pool) { delete pool; }
int64_t ts_memory_pool_bytes(const ts_memory_pool *pool) { return pool ? pool->pool->bytes() : 0; }
void ts_session_free(ts_session *session) { delete session; }
ts_copies ts_session_copies(const ts_session *session) {
  const auto &copies = session->session.copies();
  return {copies.toDevice, copies.toHost, copies.bytesToDevice, copies.bytesToHost};
}
int ts_session_threads(const ts_session *session) {
  return const_cast<ts_session *>(session)->session.pool().threads();
}

ts_status *ts_session_run(ts_session *session, ts_tensor *const *inputs, size_t input_count,
                          ts_tensor **outputs, size_t output_count) {
  return ts_session_run_with(session, inputs, input_count, outputs, output_count, nullptr);
}

ts_status *ts_session_run_with(ts_session *session, ts_tensor *const *inputs, size_t input_count,
                               ts_tensor **outputs, size_t output_count,
                               const ts_run_options *options) {
  return guarded([&]() -> Status {
    if (!session || (input_count && !inputs) || (output_count && !outputs))
      return missing(session ? "the inputs or outputs" : "the session");
    auto known = optionsOf(options);
    if (!known)
      return known.status();
    auto given = retained(inputs, input_count), results = retained(outputs, output_count);
    std::function<void(size_t)> tell = [&](size_t output) {
      known->written(known->context, output);
    };
    runtime::Watch watch{nullptr, session->checkFinite, known->written ? &tell : nullptr};
    runtime::Profile profile;
    std::optional<runtime::Trace> trace;
    if (known->trace)
      prepare(profile, *session, &trace.emplace());
    if (Status status = session->session.run(given, results, known->trace ? &profile : nullptr,
                                             watch, numberOf(known->seed));
        !status.ok())
      return status;
    for (size_t i = 0; i < output_count; ++i)
      if (!outputs[i])
        outputs[i] = wrap(results[i].release());
    return known->trace
               ? copyText(runtime::describeTrace(session->session.module(), *trace), known->trace)
               : Status();
  });
}

ts_status *ts_session_observe(ts_session *session, ts_tensor *const *inputs, size_t input_count,
                              void (*observe)(void *, const char *, const char *, ts_tensor *),
                              void *context) {
  return guarded([&]() -> Status {
    if (!session || !observe || (input_count && !inputs))
      return missing(session ? "the inputs or the observer" : "the session");
    auto given = retained(inputs, input_count);
    std::vector<TensorRef> results(session->session.module().program().functions[0].results.size());
    runtime::Watch::Observe forward = [&](std::string_view name, std::string_view location,
                                          const TensorRef &tensor) {
      observe(context, std::string(name).c_str(), std::string(location).c_str(),
              wrap(tensor.get()));
    };
    return session->session.run(given, results, nullptr, {&forward, session->checkFinite});
  });
}
}

namespace {

/// `runs` runs whose outputs are dropped.
Status runMeasured(ts_session &session, ts_tensor *const *inputs, size_t count, size_t runs,
                   runtime::Profile &profile) {
  auto given = retained(inputs, count);
  for (size_t i = 0; i < runs; ++i) {
    std::vector<TensorRef> results(session.session.module().program().functions[0].results.size());
    if (Status status = session.session.run(given, results, &profile); !status.ok())
      return status;
  }
  return {};
}

} // namespace

extern "C" {
ts_status *ts_session_profile(ts_session *session, ts_tensor *const *inputs, size_t input_count,
                              size_t runs, char **json) {
  return guarded([&]() -> Status {
    if (!session || !json || (input_count && !inputs))
      return missing(session ? "the inputs or the result" : "the session");
    runtime::Profile profile;
    prepare(profile, *session, nullptr);
    Status status = runMeasured(*session, inputs, input_count, runs, profile);
    return status.ok()
               ? copyText(runtime::describeProfile(session->session.module(), profile), json)
               : status;
  });
}

ts_status *ts_session_trace(ts_session *session, ts_tensor *const *inputs, size_t input_count,
                            size_t runs, char **json) {
  return guarded([&]() -> Status {
    if (!session || !json || (input_count && !inputs))
      return missing(session ? "the inputs or the result" : "the session");
    runtime::Profile profile;
    runtime::Trace trace;
    prepare(profile, *session, &trace);
    Status status = runMeasured(*session, inputs, input_count, runs, profile);
    return status.ok() ? copyText(runtime::describeTrace(session->session.module(), trace), json)
                       : status;
  });
}
}
