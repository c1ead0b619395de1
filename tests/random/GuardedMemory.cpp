// Pages by mmap; see GuardedMemory.h.
#include "tests/random/GuardedMemory.h"

#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace tensmith::random_graphs {

Result<runtime::TensorRef> guarded(DataType type, const Shape &shape) {
  const auto page = size_t(sysconf(_SC_PAGESIZE));
  auto bytes = size_t(elementCount(shape).value_or(0) * byteSize(type));
  size_t inside = (bytes + page - 1) / page * page, all = inside + 2 * page;
  void *begin = mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (begin == MAP_FAILED)
    return Status(StatusCode::ResourceExhausted, "no memory between guards");
  std::shared_ptr<const void> owner(
      begin, [all](const void *memory) { munmap(const_cast<void *>(memory), all); });
  auto *first = static_cast<std::byte *>(begin) + page;
  if (inside && mprotect(first, inside, PROT_READ | PROT_WRITE) != 0)
    return Status(StatusCode::ResourceExhausted, "no memory between guards");
  return runtime::Tensor::on(type, shape, first + inside - bytes, std::move(owner));
}

Result<runtime::TensorRef> guarded(const HostTensor &tensor) {
  if (tensor.type() == DataType::Undefined || tensor.type() == DataType::String)
    return runtime::fromHostTensor(tensor);
  auto result = guarded(tensor.type(), tensor.shape());
  if (result.ok() && (*result)->bytes() > 0)
    std::memcpy((*result)->data(), tensor.data(), size_t((*result)->bytes()));
  return result;
}

} // namespace tensmith::random_graphs
