// Tensors of another library of Python: PyTorch's.
//
// A call of a small compiled graph takes as long as its tensors take to convert, one capsule of
// DLPack each. From version 1.2 on a library can say by a table of C functions how its tensors are
// seen and made (`__dlpack_c_exchange_api__`, PyTorch 2.10): without a capsule, and with one call
// of Python's for an input, which asks whether it is negated. A library without the table is asked
// for capsules. As for PyTorch's own operators, no other thread may give a tensor other memory
// (`tensor.data = ...`) while a call reads it.
#pragma once

#include "python/Conversion.h"

struct DLPackExchangeAPI;

class TensorExchange {
public:
  /// `type`: of the library's tensors. `toCapsule` gives a dense tensor of the host for one of
  /// them, as a capsule of DLPack, and the error where there is none; it is called for tensors that
  /// can't be read where they lie. `fromCapsule` makes one. `isNegated`, `isConjugated`: tell
  /// whether what lies in memory has yet to be before it is what a tensor says; the latter is asked
  /// of complex numbers.
  TensorExchange(nb::object type, nb::object toCapsule, nb::object fromCapsule,
                 nb::object isNegated, nb::object isConjugated);

  bool takes(nb::handle value) const;
  /// On the memory of the library's tensor, which it keeps.
  Owned<ts_tensor> toTensor(nb::handle value) const;
  /// A tensor of the library's on that memory.
  nb::object fromTensor(ts_tensor *tensor) const;
  /// Whether the library has the table.
  bool isDirect() const { return api_ != nullptr; }

private:
  /// Null where the elements don't lie in order in the host's memory, or aren't what memory holds.
  Owned<ts_tensor> inPlace(nb::handle value) const;

  nb::object type_, toCapsule_, fromCapsule_, isNegated_, isConjugated_;
  const DLPackExchangeAPI *api_ = nullptr;
};
