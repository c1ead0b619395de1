/* Runs a module on random input from C: `embed_c MODULE.so`. Prints the largest elements of each
 * output. */
#include <tensmith/tensmith.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kTop = 5, kMaxRank = 16 };

static void check(ts_status *status) {
  if (!status)
    return;
  fprintf(stderr, "error: %s\n", ts_status_message(status));
  ts_status_free(status);
  exit(1);
}

/* A size of the signature: a number, or a symbol, which may be any; 1 here. */
static int64_t sizeOf(const char *text) {
  char *end;
  long long size = strtoll(text, &end, 10);
  return *text && !*end ? size : 1;
}

static ts_tensor *randomInput(ts_port port) {
  int64_t shape[kMaxRank];
  ts_tensor *tensor = NULL;
  if (port.kind != TS_TENSOR || port.rank < 0 || port.rank > kMaxRank) {
    fprintf(stderr, "error: input '%s' is no tensor of known rank\n", port.name);
    exit(1);
  }
  for (int64_t i = 0; i < port.rank; ++i)
    shape[i] = sizeOf(port.dims[i]);
  check(ts_tensor_create(port.type, shape, (size_t)port.rank, &tensor));
  if (port.type != TS_F32) {
    memset(ts_tensor_data(tensor), 0, (size_t)ts_tensor_size(tensor) * ts_type_bytes(port.type));
    return tensor;
  }
  float *values = ts_tensor_data(tensor);
  for (int64_t i = 0; i < ts_tensor_size(tensor); ++i)
    values[i] = (float)rand() / (float)RAND_MAX;
  return tensor;
}

static void printTop(const char *name, const ts_tensor *tensor) {
  printf("%s: %s, %lld elements\n", name, ts_type_name(ts_tensor_type(tensor)),
         (long long)ts_tensor_size(tensor));
  if (ts_tensor_kind(tensor) != TS_TENSOR || ts_tensor_type(tensor) != TS_F32)
    return;
  const float *values = ts_tensor_data(tensor);
  int64_t size = ts_tensor_size(tensor), shown[kTop];
  for (int rank = 0; rank < kTop && rank < size; ++rank) {
    int64_t best = -1;
    for (int64_t i = 0; i < size; ++i) {
      int before = 0;
      for (int j = 0; j < rank; ++j)
        before |= shown[j] == i;
      if (!before && (best < 0 || values[i] > values[best]))
        best = i;
    }
    shown[rank] = best;
    printf("  [%lld] %g\n", (long long)best, values[best]);
  }
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s MODULE.so\n", argv[0]);
    return 2;
  }
  ts_module *module = NULL;
  ts_session *session = NULL;
  check(ts_module_load(argv[1], NULL, &module));
  check(ts_session_create(module, NULL, &session));

  size_t inputCount = ts_module_input_count(module), outputCount = ts_module_output_count(module);
  ts_tensor **inputs = calloc(inputCount + 1, sizeof(*inputs));
  ts_tensor **outputs = calloc(outputCount + 1, sizeof(*outputs));
  for (size_t i = 0; i < inputCount; ++i)
    inputs[i] = randomInput(ts_module_input(module, i));
  check(ts_session_run(session, inputs, inputCount, outputs, outputCount));
  for (size_t i = 0; i < outputCount; ++i)
    printTop(ts_module_output(module, i).name, outputs[i]);

  for (size_t i = 0; i < inputCount; ++i)
    ts_tensor_free(inputs[i]);
  for (size_t i = 0; i < outputCount; ++i)
    ts_tensor_free(outputs[i]);
  free(inputs);
  free(outputs);
  ts_session_free(session);
  ts_module_free(module);
  return 0;
}
