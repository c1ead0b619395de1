/* The native half of the Node package: sessions of the C API as Node-API values.
 *
 * A synchronous run borrows the typed arrays that it is given, for the length of the call. A run on
 * another thread copies them, since a script may write or transfer an array meanwhile. Results are
 * array buffers on the library's memory, which they keep alive. Sessions are counted by the engine:
 * a run holds a reference to its own. */
#include <node_api.h>
#include <tensmith/tensmith.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct Opened {
  ts_module *module;
  ts_session *session;
} Opened;

typedef struct Run {
  napi_env env;
  napi_deferred deferred;
  napi_async_work work;
  napi_ref holder; /* of the session */
  Opened *opened;
  size_t inputCount, outputCount;
  ts_tensor **inputs, **outputs;
  ts_status *status;
} Run;

/* ---- Values ---- */

static const char *const kCodes[] = {"INTERNAL",       "INVALID_ARGUMENT", "INVALID_MODEL",
                                     "INVALID_MODULE", "UNSUPPORTED",      "RESOURCE_EXHAUSTED",
                                     "IO_ERROR",       "INTERNAL"};

static napi_value textOf(napi_env env, const char *text) {
  napi_value value = NULL;
  napi_create_string_utf8(env, text ? text : "", NAPI_AUTO_LENGTH, &value);
  return value;
}

/* An Error with the code in its property `tensmith`. */
static napi_value errorOf(napi_env env, unsigned code, const char *message) {
  napi_value error = NULL;
  napi_create_error(env, NULL, textOf(env, message), &error);
  napi_set_named_property(env, error, "tensmith", textOf(env, kCodes[code < 8 ? code : 7]));
  return error;
}

/* Whether it went well; otherwise an exception is pending. */
static int check(napi_env env, ts_status *status) {
  if (!status)
    return 1;
  napi_throw(env, errorOf(env, ts_status_get_code(status), ts_status_message(status)));
  ts_status_free(status);
  return 0;
}

static napi_value refuse(napi_env env, const char *message) {
  napi_throw(env, errorOf(env, TS_INVALID_ARGUMENT, message));
  return NULL;
}

static int argumentsOf(napi_env env, napi_callback_info info, size_t count, napi_value *values) {
  size_t given = count;
  if (napi_get_cb_info(env, info, &given, values, NULL, NULL) == napi_ok && given >= count)
    return 1;
  refuse(env, "too few arguments");
  return 0;
}

static const napi_type_tag kTag = {0x74656e736d697468, 0x73657373696f6e00};

static Opened *openedOf(napi_env env, napi_value value) {
  bool ours = false;
  void *opened = NULL;
  if (napi_check_object_type_tag(env, value, &kTag, &ours) != napi_ok || !ours ||
      napi_unwrap(env, value, &opened) != napi_ok) {
    refuse(env, "the first argument is no session");
    return NULL;
  }
  return opened;
}

/* ---- Opening ---- */

static void freeOpened(napi_env env, void *data, void *hint) {
  (void)env, (void)hint;
  Opened *opened = data;
  ts_session_free(opened->session);
  ts_module_free(opened->module);
  free(opened);
}

/* By a path or by bytes. */
static int loadModule(napi_env env, napi_value from, ts_module **module) {
  size_t length = 0;
  if (napi_get_value_string_utf8(env, from, NULL, 0, &length) == napi_ok) {
    char *path = malloc(length + 1);
    if (!path)
      return refuse(env, "there is no memory for the path"), 0;
    napi_get_value_string_utf8(env, from, path, length + 1, &length);
    ts_status *status = NULL;
    int whole = strlen(path) == length;
    if (whole)
      status = ts_module_load(path, NULL, module);
    free(path);
    return whole ? check(env, status) : (refuse(env, "the path has a zero byte in it"), 0);
  }
  napi_typedarray_type type;
  void *data = NULL;
  bool is = false;
  if (napi_is_typedarray(env, from, &is) != napi_ok || !is ||
      napi_get_typedarray_info(env, from, &type, &length, &data, NULL, NULL) != napi_ok ||
      type != napi_uint8_array)
    return refuse(env, "a module is given by its path, or as a Uint8Array"), 0;
  return check(env, ts_module_load_bytes(data ? data : "", length, NULL, module));
}

/* open(module, threads, checkFinite, memoryLimit, timeLimit, seed or null) */
static napi_value openSession(napi_env env, napi_callback_info info) {
  napi_value given[6], holder = NULL;
  if (!argumentsOf(env, info, 6, given))
    return NULL;
  ts_session_options options = {.size = sizeof(options)};
  bool checkFinite = false, whole = true;
  uint64_t seed = 0;
  napi_get_value_int32(env, given[1], &options.threads);
  napi_get_value_bool(env, given[2], &checkFinite);
  options.check_finite = checkFinite;
  napi_get_value_int64(env, given[3], &options.memory_limit);
  napi_get_value_double(env, given[4], &options.time_limit);
  if (napi_get_value_bigint_uint64(env, given[5], &seed, &whole) == napi_ok)
    options.seed = &seed;
  Opened *opened = calloc(1, sizeof(*opened));
  if (!opened)
    return refuse(env, "there is no memory for a session");
  if (!loadModule(env, given[0], &opened->module) ||
      !check(env, ts_session_create(opened->module, &options, &opened->session)) ||
      napi_create_object(env, &holder) != napi_ok ||
      napi_wrap(env, holder, opened, freeOpened, NULL, NULL) != napi_ok) {
    freeOpened(env, opened, NULL);
    return NULL;
  }
  napi_type_tag_object(env, holder, &kTag);
  return holder;
}

static napi_value portOf(napi_env env, ts_port port) {
  napi_value object, flag, dims;
  napi_create_object(env, &object);
  napi_set_named_property(env, object, "name", textOf(env, port.name));
  napi_set_named_property(env, object, "type", textOf(env, ts_type_name(port.type)));
  napi_get_boolean(env, port.kind == TS_TENSOR && port.type != TS_STRING, &flag);
  napi_set_named_property(env, object, "isTensor", flag);
  if (port.rank < 0)
    napi_get_null(env, &dims);
  else
    napi_create_array(env, &dims);
  for (int64_t i = 0; i < port.rank; ++i)
    napi_set_element(env, dims, (uint32_t)i, textOf(env, port.dims[i]));
  napi_set_named_property(env, object, "dims", dims);
  return object;
}

/* ports(session, outputs) */
static napi_value ports(napi_env env, napi_callback_info info) {
  napi_value given[2], list;
  bool outputs = false;
  Opened *opened;
  if (!argumentsOf(env, info, 2, given) || !(opened = openedOf(env, given[0])))
    return NULL;
  napi_get_value_bool(env, given[1], &outputs);
  size_t count =
      outputs ? ts_module_output_count(opened->module) : ts_module_input_count(opened->module);
  napi_create_array(env, &list);
  for (size_t i = 0; i < count; ++i)
    napi_set_element(env, list, (uint32_t)i,
                     portOf(env, outputs ? ts_module_output(opened->module, i)
                                         : ts_module_input(opened->module, i)));
  return list;
}

static napi_value threads(napi_env env, napi_callback_info info) {
  napi_value given[1], count = NULL;
  Opened *opened;
  if (argumentsOf(env, info, 1, given) && (opened = openedOf(env, given[0])))
    napi_create_int32(env, ts_session_threads(opened->session), &count);
  return count;
}

static napi_value describe(napi_env env, napi_callback_info info) {
  napi_value given[1], result;
  Opened *opened;
  char *json = NULL;
  if (!argumentsOf(env, info, 1, given) || !(opened = openedOf(env, given[0])) ||
      !check(env, ts_module_describe(opened->module, &json)))
    return NULL;
  result = textOf(env, json);
  ts_string_free(json);
  return result;
}

static napi_value version(napi_env env, napi_callback_info info) {
  (void)info;
  return textOf(env, ts_version());
}

/* ---- Running ---- */

static void freeRun(napi_env env, Run *run) {
  for (size_t i = 0; run->inputs && i < run->inputCount; ++i)
    ts_tensor_free(run->inputs[i]);
  for (size_t i = 0; run->outputs && i < run->outputCount; ++i)
    ts_tensor_free(run->outputs[i]);
  if (run->work)
    napi_delete_async_work(env, run->work);
  if (run->holder)
    napi_delete_reference(env, run->holder);
  ts_status_free(run->status);
  free(run->inputs);
  free(run->outputs);
  free(run);
}

/* A tensor on the typed array, or a copy of it; the shape's product must be the array's size. */
static int tensorOf(napi_env env, napi_value input, ts_type type, int copied, ts_tensor **tensor) {
  napi_value array, shape;
  napi_typedarray_type arrayType, shapeType;
  size_t length = 0, rank = 0, offset = 0, bytes = 0, expected = ts_type_bytes(type);
  void *data = NULL, *dims = NULL;
  napi_value buffer;
  if (napi_get_named_property(env, input, "data", &array) != napi_ok ||
      napi_get_named_property(env, input, "shape", &shape) != napi_ok ||
      napi_get_typedarray_info(env, array, &arrayType, &length, &data, &buffer, &offset) !=
          napi_ok ||
      napi_get_typedarray_info(env, shape, &shapeType, &rank, &dims, NULL, NULL) != napi_ok ||
      shapeType != napi_bigint64_array)
    return refuse(env, "an input is { data: typed array, shape: BigInt64Array }"), 0;
  static const size_t kElementBytes[] = {1, 1, 1, 2, 2, 4, 4, 4, 8, 8, 8};
  bytes = length * ((unsigned)arrayType < 11 ? kElementBytes[arrayType] : 0);
  for (size_t i = 0; i < rank; ++i)
    if (((int64_t *)dims)[i] < 0 ||
        __builtin_mul_overflow(expected, (size_t)((int64_t *)dims)[i], &expected))
      return refuse(env, "no tensor can have such a shape"), 0;
  if (bytes != expected)
    return refuse(env, "an input has another number of elements than its shape says"), 0;
  if (!copied)
    return check(env, ts_tensor_borrow(type, dims, rank, data, NULL, NULL, tensor));
  if (!check(env, ts_tensor_create(type, dims, rank, tensor)))
    return 0;
  if (bytes)
    memcpy(ts_tensor_data(*tensor), data, bytes);
  return 1;
}

static void freeTensor(napi_env env, void *data, void *tensor) {
  (void)env, (void)data;
  ts_tensor_free(tensor);
}

/* An array buffer that takes the tensor over; a copy where the engine allows no memory of others.
 */
static napi_value bufferOf(napi_env env, ts_tensor *tensor) {
  size_t bytes = (size_t)ts_tensor_size(tensor) * ts_type_bytes(ts_tensor_type(tensor));
  napi_value buffer = NULL;
  if (bytes && napi_create_external_arraybuffer(env, ts_tensor_data(tensor), bytes, freeTensor,
                                                tensor, &buffer) == napi_ok)
    return buffer;
  void *data = NULL;
  if (napi_create_arraybuffer(env, bytes, &data, &buffer) == napi_ok && bytes)
    memcpy(data, ts_tensor_data(tensor), bytes);
  ts_tensor_free(tensor);
  return buffer;
}

/* {type, shape, data} of each output, which are taken from the run. */
static napi_value resultsOf(napi_env env, Run *run) {
  napi_value list;
  napi_create_array(env, &list);
  for (size_t i = 0; i < run->outputCount; ++i) {
    ts_tensor *tensor = run->outputs[i];
    run->outputs[i] = NULL;
    napi_value object, shape;
    napi_create_object(env, &object);
    napi_set_named_property(env, object, "type", textOf(env, ts_type_name(ts_tensor_type(tensor))));
    napi_create_array(env, &shape);
    for (size_t j = 0; j < ts_tensor_rank(tensor); ++j) {
      napi_value size;
      napi_create_int64(env, ts_tensor_shape(tensor)[j], &size);
      napi_set_element(env, shape, (uint32_t)j, size);
    }
    napi_set_named_property(env, object, "shape", shape);
    napi_set_named_property(env, object, "data", bufferOf(env, tensor));
    napi_set_element(env, list, (uint32_t)i, object);
  }
  return list;
}

static void execute(napi_env env, void *data) {
  (void)env;
  Run *run = data;
  run->status = ts_session_run(run->opened->session, run->inputs, run->inputCount, run->outputs,
                               run->outputCount);
}

static void complete(napi_env env, napi_status status, void *data) {
  Run *run = data;
  if (status != napi_ok)
    napi_reject_deferred(env, run->deferred, errorOf(env, TS_INTERNAL, "the run was cancelled"));
  else if (run->status)
    napi_reject_deferred(
        env, run->deferred,
        errorOf(env, ts_status_get_code(run->status), ts_status_message(run->status)));
  else
    napi_resolve_deferred(env, run->deferred, resultsOf(env, run));
  freeRun(env, run);
}

static Run *newRun(napi_env env, Opened *opened, napi_value inputs, int copied) {
  uint32_t count = 0;
  Run *run = calloc(1, sizeof(*run));
  if (!run || napi_get_array_length(env, inputs, &count) != napi_ok ||
      count != ts_module_input_count(opened->module)) {
    free(run);
    return refuse(env, "there is to be a tensor for each input"), NULL;
  }
  *run = (Run){.env = env,
               .opened = opened,
               .inputCount = count,
               .outputCount = ts_module_output_count(opened->module)};
  run->inputs = calloc(run->inputCount + 1, sizeof(*run->inputs));
  run->outputs = calloc(run->outputCount + 1, sizeof(*run->outputs));
  int fine = run->inputs && run->outputs;
  for (uint32_t i = 0; fine && i < count; ++i) {
    napi_value input;
    fine = napi_get_element(env, inputs, i, &input) == napi_ok &&
           tensorOf(env, input, ts_module_input(opened->module, i).type, copied, &run->inputs[i]);
  }
  if (fine)
    return run;
  freeRun(env, run);
  return NULL;
}

/* run(session, inputs, onAnotherThread): results, or a promise of them. */
static napi_value runSession(napi_env env, napi_callback_info info) {
  napi_value given[3], result = NULL;
  bool apart = false;
  Opened *opened;
  Run *run;
  if (!argumentsOf(env, info, 3, given) || !(opened = openedOf(env, given[0])))
    return NULL;
  napi_get_value_bool(env, given[2], &apart);
  if (!(run = newRun(env, opened, given[1], apart)))
    return NULL;
  if (!apart) {
    execute(env, run);
    ts_status *status = run->status;
    run->status = NULL;
    if (check(env, status))
      result = resultsOf(env, run);
    freeRun(env, run);
    return result;
  }
  if (napi_create_reference(env, given[0], 1, &run->holder) != napi_ok ||
      napi_create_async_work(env, NULL, textOf(env, "tensmith"), execute, complete, run,
                             &run->work) != napi_ok ||
      napi_create_promise(env, &run->deferred, &result) != napi_ok) {
    freeRun(env, run);
    return refuse(env, "the run could not be started");
  }
  if (napi_queue_async_work(env, run->work) != napi_ok) {
    napi_reject_deferred(env, run->deferred,
                         errorOf(env, TS_INTERNAL, "the run could not be started"));
    freeRun(env, run);
  }
  return result;
}

NAPI_MODULE_INIT() {
  const napi_property_descriptor functions[] = {
      {"open", NULL, openSession, NULL, NULL, NULL, napi_enumerable, NULL},
      {"ports", NULL, ports, NULL, NULL, NULL, napi_enumerable, NULL},
      {"threads", NULL, threads, NULL, NULL, NULL, napi_enumerable, NULL},
      {"describe", NULL, describe, NULL, NULL, NULL, napi_enumerable, NULL},
      {"run", NULL, runSession, NULL, NULL, NULL, napi_enumerable, NULL},
      {"version", NULL, version, NULL, NULL, NULL, napi_enumerable, NULL}};
  napi_define_properties(env, exports, sizeof(functions) / sizeof(*functions), functions);
  return exports;
}
