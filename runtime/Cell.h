// A register of a procedure, and the stack of them.
//
// A cell holds a counted reference, a scalar by itself, or nothing. It can be moved by copying its
// bytes, so that the stack grows by realloc; what owns cells says when they are let go of.
#pragma once

#include "runtime/Scalars.h"
#include "runtime/Tensor.h"

#include <cstdlib>
#include <cstring>

namespace tensmith::runtime {

struct Cell {
  enum Kind : uint8_t { Empty, Object, FirstScalar }; // FirstScalar + plan::ScalarType

  union {
    Tensor *object;
    Scalar scalar;
  };
  Kind kind;

  static Cell of(TensorRef value) {
    Cell cell;
    cell.object = value.release();
    cell.kind = cell.object ? Object : Empty;
    return cell;
  }
  static Cell of(plan::ScalarType type, Scalar value) {
    Cell cell;
    cell.scalar = value;
    cell.kind = Kind(FirstScalar + uint8_t(type));
    return cell;
  }
  bool isScalar() const { return kind >= FirstScalar; }
  bool isScalar(plan::ScalarType type) const { return kind == FirstScalar + uint8_t(type); }
  plan::ScalarType type() const { return plan::ScalarType(kind - FirstScalar); }

  /// A second reference to the same.
  Cell copy() const {
    if (kind == Object)
      object->retain();
    return *this;
  }
  /// What it holds; it is empty afterwards.
  Cell take() {
    Cell cell = *this;
    kind = Empty;
    return cell;
  }
  void clear() {
    if (kind == Object)
      object->release();
    kind = Empty;
  }
  void assign(Cell value) {
    clear();
    *this = value;
  }
};

class CellStack {
public:
  CellStack() = default;
  CellStack(const CellStack &) = delete;
  CellStack &operator=(const CellStack &) = delete;
  ~CellStack() {
    shrink(0);
    std::free(cells_);
  }

  void swap(CellStack &other) {
    std::swap(cells_, other.cells_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }
  Cell *data() { return cells_; }
  size_t size() const { return size_; }

  /// So many empty cells more; false where there is no memory for them.
  bool extend(size_t count) {
    if (capacity_ - size_ < count && !grow(count))
      return false;
    if (count)
      std::memset(static_cast<void *>(cells_ + size_), 0, count * sizeof(Cell));
    size_ += count;
    return true;
  }
  /// Lets go of all cells from `size` on.
  void shrink(size_t size) {
    for (size_t i = size; i < size_; ++i)
      cells_[i].clear();
    size_ = size;
  }
  /// Cells from `from` on take the place of those from `to` on, which are let go of.
  void moveDown(size_t from, size_t to) {
    for (size_t i = to; i < from; ++i)
      cells_[i].clear();
    std::memmove(static_cast<void *>(cells_ + to), cells_ + from, (size_ - from) * sizeof(Cell));
    size_ -= from - to;
  }

private:
  bool grow(size_t count) {
    size_t capacity = std::max(size_ + count, capacity_ * 2);
    Charge charge; // also for the activations, of which each has cells
    if (!charge.take(int64_t(3 * capacity * sizeof(Cell))))
      return false;
    void *cells = std::realloc(static_cast<void *>(cells_), capacity * sizeof(Cell));
    if (!cells)
      return false;
    cells_ = static_cast<Cell *>(cells);
    capacity_ = capacity;
    charge_ = std::move(charge);
    return true;
  }

  Cell *cells_ = nullptr;
  size_t size_ = 0, capacity_ = 0;
  Charge charge_;
};

} // namespace tensmith::runtime
