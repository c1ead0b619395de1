/* The native half of the Java package: each function of Native.java in terms of the C API. Handles
 * are addresses in a long. Text crosses as bytes in UTF-8, since JNI's own strings are not quite
 * that. A failure becomes an exception, and the function's result is then of no meaning. */
#include <jni.h>
#include <tensmith/tensmith.h>

#include <string.h>

#define NATIVE(type, name) JNIEXPORT type JNICALL Java_tensmith_Native_##name
#define UNUSED __attribute__((unused))

/* JNI's integers and the API's are of one size. */
_Static_assert(sizeof(jlong) == sizeof(int64_t) && sizeof(jlong) >= sizeof(void *), "64 bits");

static void *pointer(jlong address) { return (void *)(intptr_t)address; }
static jlong address(const void *pointer) { return (jlong)(intptr_t)pointer; }

static jbyteArray bytesOf(JNIEnv *env, const char *text) {
  jsize size = text ? (jsize)strlen(text) : 0;
  jbyteArray bytes = (*env)->NewByteArray(env, size);
  if (bytes && size)
    (*env)->SetByteArrayRegion(env, bytes, 0, size, (const jbyte *)text);
  return bytes;
}

static void raise(JNIEnv *env, int code, const char *message) {
  jclass type = (*env)->FindClass(env, "tensmith/TensmithException");
  jmethodID make = type ? (*env)->GetMethodID(env, type, "<init>", "(I[B)V") : NULL;
  jbyteArray text = make ? bytesOf(env, message) : NULL;
  jobject exception = text ? (*env)->NewObject(env, type, make, (jint)code, text) : NULL;
  if (exception)
    (*env)->Throw(env, exception);
}

/* Whether it went well; otherwise an exception is pending. */
static int check(JNIEnv *env, ts_status *status) {
  if (!status)
    return 1;
  raise(env, (int)ts_status_get_code(status), ts_status_message(status));
  ts_status_free(status);
  return 0;
}

NATIVE(jbyteArray, version)(JNIEnv *env, UNUSED jclass type) { return bytesOf(env, ts_version()); }

/* ---- Modules ---- */

NATIVE(jlong, moduleLoad)(JNIEnv *env, UNUSED jclass type, jbyteArray path) {
  jbyte *text = (*env)->GetByteArrayElements(env, path, NULL); /* ends in a zero byte */
  ts_module *module = NULL;
  if (text) {
    ts_status *status = ts_module_load((const char *)text, NULL, &module);
    (*env)->ReleaseByteArrayElements(env, path, text, JNI_ABORT);
    check(env, status);
  }
  return address(module);
}

NATIVE(jlong, moduleLoadBytes)(JNIEnv *env, UNUSED jclass type, jbyteArray bytes) {
  jbyte *data = (*env)->GetByteArrayElements(env, bytes, NULL);
  ts_module *module = NULL;
  if (data) {
    ts_status *status =
        ts_module_load_bytes(data, (size_t)(*env)->GetArrayLength(env, bytes), NULL, &module);
    (*env)->ReleaseByteArrayElements(env, bytes, data, JNI_ABORT);
    check(env, status);
  }
  return address(module);
}

NATIVE(void, moduleFree)(UNUSED JNIEnv *env, UNUSED jclass type, jlong module) {
  ts_module_free(pointer(module));
}

static ts_port portAt(jlong module, jboolean outputs, jint index) {
  return outputs ? ts_module_output(pointer(module), (size_t)index)
                 : ts_module_input(pointer(module), (size_t)index);
}

NATIVE(jint, portCount)(UNUSED JNIEnv *env, UNUSED jclass type, jlong module, jboolean outputs) {
  return (jint)(outputs ? ts_module_output_count(pointer(module))
                        : ts_module_input_count(pointer(module)));
}

NATIVE(jbyteArray, portName)(JNIEnv *env, UNUSED jclass type, jlong module, jboolean outputs,
                             jint index) {
  return bytesOf(env, portAt(module, outputs, index).name);
}

static jlongArray longsOf(JNIEnv *env, const jlong *values, size_t count) {
  jlongArray array = (*env)->NewLongArray(env, (jsize)count);
  if (array && count)
    (*env)->SetLongArrayRegion(env, array, 0, (jsize)count, values);
  return array;
}

NATIVE(jlongArray, portFacts)(JNIEnv *env, UNUSED jclass type, jlong module, jboolean outputs,
                              jint index) {
  ts_port port = portAt(module, outputs, index);
  jlong facts[] = {port.kind, port.type, port.rank};
  return longsOf(env, facts, 3);
}

NATIVE(jbyteArray, portDim)(JNIEnv *env, UNUSED jclass type, jlong module, jboolean outputs,
                            jint index, jint dim) {
  return bytesOf(env, portAt(module, outputs, index).dims[dim]);
}

NATIVE(jbyteArray, describe)(JNIEnv *env, UNUSED jclass type, jlong module) {
  char *json = NULL;
  if (!check(env, ts_module_describe(pointer(module), &json)))
    return NULL;
  jbyteArray bytes = bytesOf(env, json);
  ts_string_free(json);
  return bytes;
}

/* ---- Sessions ---- */

NATIVE(jlong, sessionCreate)(JNIEnv *env, UNUSED jclass type, jlong module, jint threads,
                             jboolean checkFinite, jlong memoryLimit, jdouble timeLimit,
                             jlongArray seed) {
  ts_session_options options = {.size = sizeof(options),
                                .threads = threads,
                                .check_finite = checkFinite,
                                .memory_limit = memoryLimit,
                                .time_limit = timeLimit};
  jlong given = 0;
  uint64_t value;
  if (seed) {
    (*env)->GetLongArrayRegion(env, seed, 0, 1, &given);
    value = (uint64_t)given;
    options.seed = &value;
  }
  ts_session *session = NULL;
  check(env, ts_session_create(pointer(module), &options, &session));
  return address(session);
}

NATIVE(void, sessionFree)(UNUSED JNIEnv *env, UNUSED jclass type, jlong session) {
  ts_session_free(pointer(session));
}

NATIVE(jint, sessionThreads)(UNUSED JNIEnv *env, UNUSED jclass type, jlong session) {
  return ts_session_threads(pointer(session));
}

/* Arrays of addresses are arrays of pointers. */
NATIVE(void, sessionRun)(JNIEnv *env, UNUSED jclass type, jlong session, jlongArray inputs,
                         jlongArray outputs) {
  jlong *given = (*env)->GetLongArrayElements(env, inputs, NULL);
  jlong *results = given ? (*env)->GetLongArrayElements(env, outputs, NULL) : NULL;
  ts_status *status = NULL;
  if (results)
    status =
        ts_session_run(pointer(session), (ts_tensor *const *)(void *)given,
                       (size_t)(*env)->GetArrayLength(env, inputs), (ts_tensor **)(void *)results,
                       (size_t)(*env)->GetArrayLength(env, outputs));
  if (results)
    (*env)->ReleaseLongArrayElements(env, outputs, results, status ? JNI_ABORT : 0);
  if (given)
    (*env)->ReleaseLongArrayElements(env, inputs, given, JNI_ABORT);
  check(env, status);
}

/* ---- Tensors ---- */

NATIVE(jlong, tensorCreate)(JNIEnv *env, UNUSED jclass type, jint element, jlongArray shape) {
  jlong *dims = (*env)->GetLongArrayElements(env, shape, NULL);
  ts_tensor *tensor = NULL;
  if (dims) {
    ts_status *status = ts_tensor_create((ts_type)element, (const int64_t *)dims,
                                         (size_t)(*env)->GetArrayLength(env, shape), &tensor);
    (*env)->ReleaseLongArrayElements(env, shape, dims, JNI_ABORT);
    check(env, status);
  }
  return address(tensor);
}

NATIVE(jlong, tensorBorrow)(JNIEnv *env, UNUSED jclass type, jint element, jlongArray shape,
                            jobject memory, jint alignment) {
  void *data = (*env)->GetDirectBufferAddress(env, memory);
  if ((uintptr_t)data % (uintptr_t)alignment)
    return -1;
  jlong *dims = (*env)->GetLongArrayElements(env, shape, NULL);
  ts_tensor *tensor = NULL;
  if (dims) {
    ts_status *status =
        ts_tensor_borrow((ts_type)element, (const int64_t *)dims,
                         (size_t)(*env)->GetArrayLength(env, shape), data, NULL, NULL, &tensor);
    (*env)->ReleaseLongArrayElements(env, shape, dims, JNI_ABORT);
    check(env, status);
  }
  return address(tensor);
}

NATIVE(void, tensorRetain)(UNUSED JNIEnv *env, UNUSED jclass type, jlong tensor) {
  ts_tensor_retain(pointer(tensor));
}

NATIVE(void, tensorFree)(UNUSED JNIEnv *env, UNUSED jclass type, jlong tensor) {
  ts_tensor_free(pointer(tensor));
}

NATIVE(jint, tensorType)(UNUSED JNIEnv *env, UNUSED jclass type, jlong tensor) {
  return (jint)ts_tensor_type(pointer(tensor));
}

NATIVE(jlongArray, tensorShape)(JNIEnv *env, UNUSED jclass type, jlong tensor) {
  return longsOf(env, (const jlong *)ts_tensor_shape(pointer(tensor)),
                 ts_tensor_rank(pointer(tensor)));
}

NATIVE(jobject, tensorBuffer)(JNIEnv *env, UNUSED jclass type, jlong tensor, jlong bytes) {
  void *data = ts_tensor_data(pointer(tensor));
  return data ? (*env)->NewDirectByteBuffer(env, data, bytes) : NULL;
}
