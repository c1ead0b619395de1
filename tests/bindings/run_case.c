/* What the bindings of other languages must give the bits of: runs a case's module through the C
 * API on the inputs that its case.txt lists, writes the outputs, and adds a line for each to
 * case.txt (tests/bindings/drawn_cases.py has the format): `run_case FOLDER`. */
#include <tensmith/tensmith.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kMaxPorts = 16, kMaxRank = 8, kPath = 4096 };

static void fail(const char *what) {
  fprintf(stderr, "run_case: %s\n", what);
  exit(1);
}

static void check(ts_status *status) {
  if (status)
    fail(ts_status_message(status));
}

static FILE *openIn(const char *folder, const char *name, const char *mode) {
  char path[kPath];
  snprintf(path, sizeof(path), "%s/%s", folder, name);
  FILE *file = fopen(path, mode);
  if (!file)
    fail(path);
  return file;
}

static ts_tensor *readTensor(const char *folder, ts_type type, char *dims, const char *name) {
  int64_t shape[kMaxRank];
  size_t rank = 0;
  for (char *dim = strtok(dims, ",-"); dim && rank < kMaxRank; dim = strtok(NULL, ",-"))
    shape[rank++] = strtoll(dim, NULL, 10);
  ts_tensor *tensor = NULL;
  check(ts_tensor_create(type, shape, rank, &tensor));
  size_t bytes = (size_t)ts_tensor_size(tensor) * ts_type_bytes(type);
  FILE *file = openIn(folder, name, "rb");
  if (fread(ts_tensor_data(tensor), 1, bytes, file) != bytes)
    fail("an input has too few bytes");
  fclose(file);
  return tensor;
}

static void writeTensor(const char *folder, FILE *list, size_t number, const char *name,
                        const ts_tensor *tensor) {
  char file[32];
  snprintf(file, sizeof(file), "output-%zu.bin", number);
  fprintf(list, "output %s %s ", name, ts_type_name(ts_tensor_type(tensor)));
  for (size_t i = 0; i < ts_tensor_rank(tensor); ++i)
    fprintf(list, "%s%" PRId64, i ? "," : "", ts_tensor_shape(tensor)[i]);
  fprintf(list, "%s %s\n", ts_tensor_rank(tensor) ? "" : "-", file);
  FILE *bytes = openIn(folder, file, "wb");
  fwrite(ts_tensor_data(tensor), ts_type_bytes(ts_tensor_type(tensor)),
         (size_t)ts_tensor_size(tensor), bytes);
  if (fclose(bytes))
    fail("an output could not be written");
}

int main(int argc, char **argv) {
  if (argc != 2)
    fail("usage: run_case FOLDER");
  char path[kPath], dims[256], file[256];
  ts_module *module = NULL;
  ts_session *session = NULL;
  ts_tensor *inputs[kMaxPorts] = {NULL}, *outputs[kMaxPorts] = {NULL};
  snprintf(path, sizeof(path), "%s/module.so", argv[1]);
  check(ts_module_load(path, NULL, &module));
  check(ts_session_create(module, NULL, &session));
  size_t inputCount = ts_module_input_count(module), outputCount = ts_module_output_count(module);
  if (inputCount > kMaxPorts || outputCount > kMaxPorts)
    fail("the module has too many ports");

  FILE *list = openIn(argv[1], "case.txt", "r+");
  for (size_t i = 0; i < inputCount; ++i) {
    if (fscanf(list, "input %*s %*s %255s %255s ", dims, file) != 2)
      fail("case.txt has too few inputs");
    inputs[i] = readTensor(argv[1], ts_module_input(module, i).type, dims, file);
  }
  check(ts_session_run(session, inputs, inputCount, outputs, outputCount));
  fseek(list, 0, SEEK_END);
  for (size_t i = 0; i < outputCount; ++i)
    writeTensor(argv[1], list, i, ts_module_output(module, i).name, outputs[i]);
  if (fclose(list))
    fail("case.txt could not be written");

  for (size_t i = 0; i < inputCount; ++i)
    ts_tensor_free(inputs[i]);
  for (size_t i = 0; i < outputCount; ++i)
    ts_tensor_free(outputs[i]);
  ts_session_free(session);
  ts_module_free(module);
  return 0;
}
