// Memory between pages that can't be touched: compiled code is not instrumented, so that a load or
// store beyond its operands would pass any sanitizer.
#pragma once

#include "runtime/Tensor.h"

#include <csignal>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

namespace tensmith::pipeline {

enum class Against : uint8_t { Begin, End }; // the guard that the elements touch

/// `bytes` of zeros that begin or end where a guard does; freed with the last owner. Null where it
/// can't be had.
inline std::shared_ptr<std::byte> guardedMemory(size_t bytes, Against side) {
  size_t page = size_t(sysconf(_SC_PAGESIZE)), inner = (bytes + page - 1) / page * page,
         all = inner + 2 * page;
  void *mapped = mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED)
    return nullptr;
  auto *begin = static_cast<std::byte *>(mapped) + page;
  if (inner && mprotect(begin, inner, PROT_READ | PROT_WRITE) != 0)
    return nullptr;
  auto *data = side == Against::Begin ? begin : begin + (inner - bytes);
  return {data, [mapped, all](std::byte *) { munmap(mapped, all); }};
}

/// A tensor there; empty where the memory can't be had.
inline runtime::TensorRef guardedTensor(DataType type, const Shape &shape, Against side) {
  size_t bytes = size_t(*elementCount(shape) * byteSize(type));
  auto memory = guardedMemory(bytes, side);
  auto tensor = runtime::Tensor::on(type, shape, memory.get(), memory);
  return memory && tensor.ok() ? *tensor : runtime::TensorRef();
}

/// Says what was run when a guard was touched: there is no other trace of it.
class ReportOnFault {
public:
  explicit ReportOnFault(const std::string &text) {
    running() = &text;
    for (int signal : {SIGSEGV, SIGBUS})
      std::signal(signal, [](int number) {
        (void)!write(STDERR_FILENO, running()->data(), running()->size());
        std::signal(number, SIG_DFL);
        raise(number);
      });
  }
  ~ReportOnFault() {
    for (int signal : {SIGSEGV, SIGBUS})
      std::signal(signal, SIG_DFL);
  }

private:
  static const std::string *&running() {
    static const std::string *text = nullptr;
    return text;
  }
};

} // namespace tensmith::pipeline
