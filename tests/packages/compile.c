/* Compiles a model from C: `compiles MODEL MODULE.so`. Built by try_debs.sh against the installed
 * library. */
#include <tensmith/compiler.h>

#include <stdio.h>

int main(int argc, char **argv) {
  ts_compile_options options;
  ts_compile_options_init(&options);
  ts_status *failed = argc == 3 ? ts_compile_file(argv[1], &options, argv[2]) : NULL;
  if (failed)
    fprintf(stderr, "error: %s\n", ts_status_message(failed));
  return failed || argc != 3;
}
