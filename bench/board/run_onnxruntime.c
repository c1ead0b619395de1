/* Runs a model by ONNX Runtime where there is no Python: on a board, or under an emulator of one.
 *
 *     run_onnxruntime LIBRARY MODEL REPEATS NAME:TYPE:1x3x224x224:FILE...
 *
 * TYPE is the number that ONNX has for it, FILE the elements as they lie in memory. One thread; a
 * run, and then so many more. The library's functions are found by their places in its table, which
 * keep their numbers from version to version: that is what the table is for, and all that is needed
 * of its header. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  kGetErrorMessage = 2,
  kCreateEnv = 3,
  kCreateSession = 7,
  kRun = 9,
  kCreateSessionOptions = 10,
  kSetIntraOpThreads = 24,
  kSetInterOpThreads = 25,
  kOutputCount = 31,
  kOutputName = 37,
  kCreateTensor = 48,
  kTensorData = 51,
  kDefaultAllocator = 78,
  kReleaseValue = 96,
};
enum { kApiVersion = 14, kWarnings = 2, kMostPorts = 16, kMostDims = 8 };

static void **api;

static void check(void *status) {
  if (!status)
    return;
  const char *(*message)(void *) = (const char *(*)(void *))api[kGetErrorMessage];
  fprintf(stderr, "%s\n", message(status));
  exit(1);
}

#define CALL(NUMBER, ...) check(((void *(*)())api[NUMBER])(__VA_ARGS__))

/* An emulator of a program hands on the host's /proc/cpuinfo, of another family, which the library
 * can't read. What the environment names in BOARD_CPUINFO takes its place. */
int open(const char *path, int flags, ...) {
  static int (*next)(const char *, int, ...);
  if (!next)
    next = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
  const char *other = strcmp(path, "/proc/cpuinfo") ? NULL : getenv("BOARD_CPUINFO");
  va_list rest;
  va_start(rest, flags);
  int mode = flags & O_CREAT ? va_arg(rest, int) : 0;
  va_end(rest);
  return next(other ? other : path, flags, mode);
}

static void fail(const char *what, const char *which) {
  fprintf(stderr, "%s: %s\n", which, what);
  exit(1);
}

/* Of an element, by the number of its type. */
static size_t bytesOf(int type) {
  switch (type) {
  case 2: /* uint8 */
  case 3: /* int8 */
  case 9: /* bool */
    return 1;
  case 10: /* float16 */
    return 2;
  case 1: /* float */
  case 6: /* int32 */
    return 4;
  case 7:  /* int64 */
  case 11: /* double */
    return 8;
  default:
    fail("elements of the type can't be read", "an input");
    return 0;
  }
}

/* Reads NAME:TYPE:SHAPE:FILE; the name is what is left of the text. */
static void *tensor(char *text, void *allocator) {
  char *type = strchr(text, ':'), *shape = type ? strchr(type + 1, ':') : NULL;
  char *path = shape ? strchr(shape + 1, ':') : NULL;
  if (!path)
    fail("should be NAME:TYPE:SHAPE:FILE", text);
  *type++ = *shape++ = *path++ = 0;
  int64_t dims[kMostDims];
  size_t rank = 0, bytes = bytesOf(atoi(type));
  for (char *dim = strtok(shape, "x"); dim; dim = strtok(NULL, "x")) {
    if (rank == kMostDims)
      fail("has too many dimensions", text);
    dims[rank] = strtoll(dim, NULL, 10);
    bytes *= (size_t)dims[rank++];
  }
  void *value, *data;
  CALL(kCreateTensor, allocator, dims, rank, atoi(type), &value);
  CALL(kTensorData, value, &data);
  FILE *file = fopen(path, "rb");
  if (!file)
    fail("can't be opened", path);
  if (fread(data, 1, bytes, file) != bytes || fgetc(file) != EOF)
    fail("has not as many bytes as the tensor", path);
  fclose(file);
  return value;
}

int main(int argc, char **argv) {
  if (argc < 4 || argc - 4 > kMostPorts)
    fail("LIBRARY MODEL REPEATS NAME:TYPE:SHAPE:FILE...", argv[0]);
  void *library = dlopen(argv[1], RTLD_NOW);
  if (!library)
    fail(dlerror(), argv[1]);
  void **(*base)(void) = (void **(*)(void))dlsym(library, "OrtGetApiBase");
  if (!base)
    fail("has no OrtGetApiBase", argv[1]);
  api = ((void **(*)(uint32_t))base()[0])(kApiVersion);
  void *environment, *options, *session, *allocator;
  CALL(kCreateEnv, kWarnings, "board", &environment);
  CALL(kCreateSessionOptions, &options);
  CALL(kSetIntraOpThreads, options, 1);
  CALL(kSetInterOpThreads, options, 1);
  CALL(kCreateSession, environment, argv[2], options, &session);
  CALL(kDefaultAllocator, &allocator);

  void *inputs[kMostPorts], *outputs[kMostPorts];
  char *outputNames[kMostPorts];
  size_t inputCount = (size_t)argc - 4, outputCount;
  for (size_t i = 0; i < inputCount; ++i)
    inputs[i] = tensor(argv[4 + i], allocator);
  CALL(kOutputCount, session, &outputCount);
  if (outputCount > kMostPorts)
    fail("has too many outputs", argv[2]);
  for (size_t i = 0; i < outputCount; ++i)
    CALL(kOutputName, session, i, allocator, &outputNames[i]);
  for (int run = 0; run <= atoi(argv[3]); ++run) {
    memset(outputs, 0, sizeof outputs);
    CALL(kRun, session, NULL, argv + 4, inputs, inputCount, outputNames, outputCount, outputs);
    for (size_t i = 0; i < outputCount; ++i)
      if (run < atoi(argv[3]))
        ((void (*)(void *))api[kReleaseValue])(outputs[i]);
  }
  return 0;
}
