/* Tensmith's runtime: load a compiled module and run it. C, without exceptions, links
 * libtensmith_runtime alone.
 *
 * Handles are opaque and owned by whoever made them; `..._free(NULL)` does nothing. A function that
 * can fail returns a status: NULL is success, anything else has a code and a message and is freed
 * with ts_status_free. Functions may be called from several threads at once; one session may run on
 * several threads at once.
 *
 * Versioning: structs that the caller fills begin with their size (set it to sizeof); new fields
 * are added at their end. */
#ifndef TENSMITH_TENSMITH_H
#define TENSMITH_TENSMITH_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define TS_API
#else
#define TS_API __attribute__((visibility("default")))
#endif

#define TENSMITH_VERSION_MAJOR 0
#define TENSMITH_VERSION_MINOR 1
#define TENSMITH_VERSION_PATCH 0

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ts_status ts_status;
typedef struct ts_module ts_module;
typedef struct ts_session ts_session;
typedef struct ts_memory_pool ts_memory_pool;
typedef struct ts_tensor ts_tensor;
struct DLManagedTensor;

typedef enum ts_status_code {
  TS_OK = 0,
  TS_INVALID_ARGUMENT = 1,
  TS_INVALID_MODEL = 2,
  TS_INVALID_MODULE = 3,
  TS_UNSUPPORTED = 4,
  TS_RESOURCE_EXHAUSTED = 5,
  TS_IO_ERROR = 6,
  TS_INTERNAL = 7
} ts_status_code;

/* A failure with a copy of the message: for libraries that extend this one. Null only without
 * memory. */
TS_API ts_status *ts_status_create(ts_status_code code, const char *message);
TS_API ts_status_code ts_status_get_code(const ts_status *status);
TS_API const char *ts_status_message(const ts_status *status);
TS_API void ts_status_free(ts_status *status);

/* "0.1.0" of the library in use, which may be newer than the header. */
TS_API const char *ts_version(void);

/* Element types, numbered as ONNX numbers them. 4-bit and 2-bit elements occupy one byte each. */
typedef enum ts_type {
  TS_UNDEFINED = 0,
  TS_F32 = 1,
  TS_U8 = 2,
  TS_I8 = 3,
  TS_U16 = 4,
  TS_I16 = 5,
  TS_I32 = 6,
  TS_I64 = 7,
  TS_STRING = 8,
  TS_BOOL = 9,
  TS_F16 = 10,
  TS_F64 = 11,
  TS_U32 = 12,
  TS_U64 = 13,
  TS_C64 = 14,
  TS_C128 = 15,
  TS_BF16 = 16,
  TS_F8E4M3FN = 17,
  TS_F8E4M3FNUZ = 18,
  TS_F8E5M2 = 19,
  TS_F8E5M2FNUZ = 20,
  TS_U4 = 21,
  TS_I4 = 22,
  TS_F4E2M1 = 23,
  TS_F8E8M0 = 24,
  TS_U2 = 25,
  TS_I2 = 26
} ts_type;

/* The name ("f32") and size in bytes of a type; 0 bytes for strings. */
TS_API const char *ts_type_name(ts_type type);
TS_API size_t ts_type_bytes(ts_type type);

/* ---- Tensors: a type, a shape, and row-major elements in host memory, counted by reference. A
 * sequence, a map or an absent optional value is a ts_tensor too, of another kind. ---- */

/* A port may be TS_OPTIONAL, which takes or gives TS_NONE or a value; a ts_tensor never is. */
typedef enum ts_value_kind {
  TS_TENSOR = 0,
  TS_SEQUENCE = 1,
  TS_NONE = 2,
  TS_OPTIONAL = 3,
  TS_DATA = 4,     /* of a data type of the language, or a tuple: a constructor and fields */
  TS_FUNCTION = 5, /* of the language */
  TS_MAP = 7       /* from keys (i64 or strings) to values */
} ts_value_kind;

/* Uninitialised, 64-byte aligned memory of the library's. */
TS_API ts_status *ts_tensor_create(ts_type type, const int64_t *shape, size_t rank,
                                   ts_tensor **out);
/* On the caller's memory, which must be dense, row-major and outlive the tensor; `release(context)`
 * (may be null) is called at the end. */
TS_API ts_status *ts_tensor_borrow(ts_type type, const int64_t *shape, size_t rank, void *data,
                                   void (*release)(void *), void *context, ts_tensor **out);
/* The same in the memory of a device, "separate:1", as modules take and give it that were compiled
 * with `device` and `resident`. What ts_tensor_data gives of it, and what is borrowed here, is an
 * address that the host must not touch: elements are read and written by ts_tensor_copy_to and
 * ts_tensor_assign. TS_UNSUPPORTED where there is no such device. A null device is the host. */
TS_API ts_status *ts_tensor_create_on(const char *device, ts_type type, const int64_t *shape,
                                      size_t rank, ts_tensor **out);
TS_API ts_status *ts_tensor_borrow_on(const char *device, ts_type type, const int64_t *shape,
                                      size_t rank, void *data, void (*release)(void *),
                                      void *context, ts_tensor **out);
/* The device's name, "separate:0"; null: the tensor lies in the host's memory. */
TS_API const char *ts_tensor_device(const ts_tensor *tensor);
/* A tensor of its own memory with the same contents, on a device, or the host (null). */
TS_API ts_status *ts_tensor_copy_to(const ts_tensor *tensor, const char *device, ts_tensor **out);
/* Copies the elements of one tensor to another of the same type and as many elements, wherever
 * both lie. */
TS_API ts_status *ts_tensor_assign(ts_tensor *to, const ts_tensor *from);
TS_API ts_status *ts_tensor_strings(const char *const *values, const int64_t *shape, size_t rank,
                                    ts_tensor **out);
/* A sequence of the elements (retained). */
TS_API ts_status *ts_tensor_sequence(ts_tensor *const *elements, size_t count, ts_tensor **out);
/* A map (retains both): keys, a vector of i64 or strings in any order without repetition, and as
 * many values. As a sequence's elements, number 0 are its keys, in order, and number 1 its values.
 */
TS_API ts_status *ts_tensor_map(ts_tensor *keys, ts_tensor *values, ts_tensor **out);
TS_API ts_status *ts_tensor_none(ts_tensor **out);
/* A value of a data type: the constructor's number in its type's declaration (0 of a tuple), and
 * its fields (retained), of any kinds. What is not of the type that a program expects is refused
 * when the program looks at it. The module's description has the declarations. */
TS_API ts_status *ts_tensor_data_value(uint32_t constructor, ts_tensor *const *fields, size_t count,
                                       ts_tensor **out);
TS_API uint32_t ts_tensor_constructor(const ts_tensor *tensor);
/* The number of fields and a field (borrowed): as a sequence's. */
/* Takes over a DLPack tensor (CPU; strides that are not row-major are copied); calls its deleter
 * when done. */
TS_API ts_status *ts_tensor_from_dlpack(struct DLManagedTensor *managed, ts_tensor **out);
/* A DLPack view that keeps the tensor alive. Types that DLPack lacks, and tensors of devices, give
 * TS_UNSUPPORTED. */
TS_API ts_status *ts_tensor_to_dlpack(ts_tensor *tensor, struct DLManagedTensor **out);
/* A tensor of its own memory with the same contents, where the tensor lies. */
TS_API ts_status *ts_tensor_copy(const ts_tensor *tensor, ts_tensor **out);
TS_API void ts_tensor_retain(ts_tensor *tensor);
TS_API void ts_tensor_free(ts_tensor *tensor);
TS_API ts_value_kind ts_tensor_kind(const ts_tensor *tensor);
TS_API ts_type ts_tensor_type(const ts_tensor *tensor);
TS_API size_t ts_tensor_rank(const ts_tensor *tensor);
TS_API const int64_t *ts_tensor_shape(const ts_tensor *tensor);
TS_API int64_t ts_tensor_size(const ts_tensor *tensor); /* elements */
TS_API void *ts_tensor_data(const ts_tensor *tensor);
TS_API const char *ts_tensor_string(const ts_tensor *tensor, int64_t index);
TS_API size_t ts_tensor_sequence_length(const ts_tensor *tensor);
TS_API ts_tensor *ts_tensor_sequence_at(const ts_tensor *tensor, size_t index); /* borrowed */

/* ---- Modules ---- */

typedef struct ts_load_options {
  size_t size;
  int verify_weights;    /* also check the hash of the weights (reads them all) */
  uint64_t module_bytes; /* of a file that begins with the module, and goes on with something else;
                          * 0: all of it is the module */
  int only_described; /* it can be described, and no session be made of it: then it may be for any
                       * machine, and its code isn't mapped */
} ts_load_options;

/* Checks version, integrity and CPU features before any code is mapped. `options` may be null.
 *
 * A module is a program: to run it is to run the native code in it. Its hashes find damage, but
 * whoever can write a module can write them too, so load modules only from those you would take a
 * shared library from. */
TS_API ts_status *ts_module_load(const char *path, const ts_load_options *options, ts_module **out);
TS_API ts_status *ts_module_load_bytes(const void *bytes, size_t size,
                                       const ts_load_options *options, ts_module **out);
TS_API void ts_module_free(ts_module *module); /* sessions keep it alive */

/* The signature. Dimensions are text: a number, a symbol ("batch") or an expression over symbols;
 * `rank` is -1 where unknown. */
typedef struct ts_port {
  const char *name;
  ts_value_kind kind;
  ts_type type;
  int64_t rank;
  const char *const *dims;
} ts_port;
TS_API size_t ts_module_input_count(const ts_module *module);
TS_API size_t ts_module_output_count(const ts_module *module);
TS_API ts_port ts_module_input(const ts_module *module, size_t index);
TS_API ts_port ts_module_output(const ts_module *module, size_t index);
/* States: what one run gives and the next one takes, as weights that are trained. The input and the
 * output have the same type and shape; ts_session_run may be given one tensor as both, which is
 * then updated, and different ones. A session keeps nothing of them. A run that fails on the way
 * may have updated some, but none that ts_builder_state has made. */
typedef enum ts_state_kind {
  TS_STATE_PARAMETER = 0, /* of the model: an initialiser, under its name, or what is counted over
                           * the batches, as running means */
  TS_STATE_SLOT = 1,      /* of the optimiser for a parameter: "<slot>.<parameter>" */
  TS_STATE_STEP = 2       /* how many runs there were, and others that belong to no parameter */
} ts_state_kind;
#define TS_NO_OUTPUT                                                                               \
  SIZE_MAX /* of a state that the module reads and leaves to others to update                      \
            */
typedef struct ts_state {
  const char *name;
  ts_state_kind kind;
  size_t input, output; /* numbers of the module's inputs and outputs */
  int in_place; /* whether a run writes over the tensor that is both; else it copies at its end */
} ts_state;
TS_API size_t ts_module_state_count(const ts_module *module);
TS_API ts_state ts_module_state(const ts_module *module, size_t index);
/* A new tensor with the value that the state begins with. */
TS_API ts_status *ts_module_state_initial(const ts_module *module, size_t index, ts_tensor **out);
/* Everything else that is known of it, as JSON: producer, target, kernels, instructions, memory,
 * locations. Freed by ts_string_free. */
TS_API ts_status *ts_module_describe(const ts_module *module, char **json);
TS_API void ts_string_free(char *text);
/* What the module has to do without here, in words for its user: a library that it calls and that
 * can't be loaded, whose operators are then done by plain loops. Null: nothing. The module's own.
 */
TS_API const char *ts_module_warning(const ts_module *module);

/* ---- Sessions ---- */

/* Memory for intermediate results that sessions share which do not run at once: it becomes as large
 * as the largest run needs, and not as all together. Runs at the same time get a part each. Memory
 * of devices, and of procedures of programs, stays the sessions' own. */
TS_API ts_status *ts_memory_pool_create(ts_memory_pool **out);
TS_API void ts_memory_pool_free(ts_memory_pool *pool); /* sessions keep it alive */
/* What it holds while none of its sessions runs. */
TS_API int64_t ts_memory_pool_bytes(const ts_memory_pool *pool);

typedef struct ts_session_options {
  size_t size;
  int threads; /* 0: as many as CPUs that the process may use (affinity and cgroup) */
  /* Not 0: a run fails at the first instruction whose results hold a NaN or an infinity that none
   * of its operands does, and names it. Every element is looked at, which takes its time. */
  int check_finite;
  /* Of the language's programs: how deep calls may nest, and for how many instructions one run may
   * go on. 0: 16 million; without end. */
  int64_t max_depth;
  int64_t max_instructions;
  /* Bytes that the session's runs may hold at a time: tensors they make, what they give included
   * until it is freed, arenas and scratch. 0: the memory of the machine or its control group.
   * Beyond it a run gives TS_RESOURCE_EXHAUSTED. */
  int64_t memory_limit;
  /* Seconds that one run may take: looked at before each iteration of a loop, and each operator
   * that has no kernel. 0: an hour; negative: without limit. */
  double time_limit;
  /* Bytes that the session may keep between runs for intermediate results; 0: 4 GiB. What a run
   * needs beyond is given back after it, and taken anew by the next. */
  int64_t keep_limit;
  /* What random operators without a seed of their own draw by: every run of the session draws the
   * same numbers. Read when the session is made. Null: other numbers in each run. */
  const uint64_t *seed;
  /* Who keeps the memory for intermediate results between runs; keep_limit does not count it, and
   * memory_limit counts it where it grows. Null: the session. */
  ts_memory_pool *memory_pool;
} ts_session_options;

TS_API ts_status *ts_session_create(ts_module *module, const ts_session_options *options,
                                    ts_session **out);
TS_API void ts_session_free(ts_session *session);
TS_API int ts_session_threads(const ts_session *session);

/* Tensors that the session's runs have copied so far between the host's memory and those of devices
 * that the module was compiled for, and their bytes; zeros where it is for none. */
typedef struct ts_copies {
  int64_t to_device, to_host, bytes_to_device, bytes_to_host;
} ts_copies;
TS_API ts_copies ts_session_copies(const ts_session *session);

/* Runs once. `inputs`: one tensor for each of the module's inputs, in order. `outputs`: as many
 * entries as outputs; an entry that is not null on entry is written into (its type and shape must
 * fit), one that is null becomes a new tensor. */
TS_API ts_status *ts_session_run(ts_session *session, ts_tensor *const *inputs, size_t input_count,
                                 ts_tensor **outputs, size_t output_count);

/* What else is done in a run; what is null is not. */
typedef struct ts_run_options {
  size_t size;
  /* Told, on the thread of the run, of each output that the caller gave a tensor for, once: it lies
   * there now, and this run will not touch it again. Those that are computed on the way are told of
   * then, in the order of the program, while the rest is still being computed. */
  void (*written)(void *context, size_t output);
  void *context;
  /* Takes what ts_session_trace gives, of this run. Freed by ts_string_free. */
  char **trace;
  const uint64_t *seed; /* of this run; null: the session's, if it has one */
} ts_run_options;
TS_API ts_status *ts_session_run_with(ts_session *session, ts_tensor *const *inputs,
                                      size_t input_count, ts_tensor **outputs, size_t output_count,
                                      const ts_run_options *options);

/* Runs once, and gives each instruction's results to `observe` as they are computed, those of the
 * bodies of loops and branches included. `name` is the node that computes the tensor, `location`
 * the nodes that its instruction was made from; what a kernel computes on the way has no tensor.
 * The tensor is good for the call alone; ts_tensor_copy keeps it. */
TS_API ts_status *ts_session_observe(ts_session *session, ts_tensor *const *inputs,
                                     size_t input_count,
                                     void (*observe)(void *context, const char *name,
                                                     const char *location, ts_tensor *tensor),
                                     void *context);

/* Runs `runs` times, measuring each instruction, and drops the outputs. The result as JSON, of all
 * runs together: a list of {"label", "kind", "function", "count", "nanoseconds",
 * "own_nanoseconds", "flops", "bytes", "constant_bytes", "type", "location"}; own_nanoseconds are
 * without those of other instructions of the list, as of a loop's body, constant_bytes those of
 * `bytes` that are weights, type that of the largest tensor. Before those, what the machine did for
 * a program's functions:
 * {"label", "kind": "instruction", "procedure", "position", "count", "nanoseconds", "location"}, an
 * Invoke with the kernels that it leads to. */
TS_API ts_status *ts_session_profile(ts_session *session, ts_tensor *const *inputs,
                                     size_t input_count, size_t runs, char **json);
/* Runs `runs` times and drops the outputs. When each instruction ran, and on which thread each part
 * of its parallel loops, as JSON: a list of {"label", "kind", "function", "instruction", "thread",
 * "begin", "end"} in nanoseconds from the beginning; parts of loops have "items", [first, last),
 * too. */
TS_API ts_status *ts_session_trace(ts_session *session, ts_tensor *const *inputs,
                                   size_t input_count, size_t runs, char **json);

#ifdef __cplusplus
}
#endif
#endif
