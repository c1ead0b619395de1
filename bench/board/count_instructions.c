/* A plug-in of qemu that counts the instructions that a program executes, and prints the number to
 * standard error when it ends. What it needs of qemu's plug-in interface (version 1) is declared
 * here: Debian's packages have no header of it. */
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define EXPORT __attribute__((visibility("default")))

struct qemu_plugin_tb; /* a translated block */
enum { kAddU64 = 0 };

void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id,
                                           void (*translated)(uint64_t, struct qemu_plugin_tb *));
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *block, int operation,
                                              void *counter, uint64_t value);
void qemu_plugin_register_atexit_cb(uint64_t id, void (*ended)(uint64_t, void *), void *data);

EXPORT int qemu_plugin_version = 1;
static uint64_t executed;

/* Whenever a block is executed, the number of its instructions is added. */
static void translated(uint64_t id, struct qemu_plugin_tb *block) {
  (void)id;
  qemu_plugin_register_vcpu_tb_exec_inline(block, kAddU64, &executed,
                                           qemu_plugin_tb_n_insns(block));
}

static void ended(uint64_t id, void *data) {
  (void)id, (void)data;
  fprintf(stderr, "instructions %" PRIu64 "\n", executed);
}

EXPORT int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv) {
  (void)info, (void)argc, (void)argv;
  qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
  qemu_plugin_register_atexit_cb(id, ended, NULL);
  return 0;
}
