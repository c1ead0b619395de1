// Tensors and values between Python and the C API.
//
// Nothing is copied on the way in (a NumPy array or any DLPack tensor that is dense and row-major
// is borrowed) or out (outputs are NumPy arrays on the library's memory).
#pragma once

#include "tensmith/tensmith.h"

#include <nanobind/nanobind.h>

#include <memory>
#include <stdexcept>
#include <string>

namespace nb = nanobind;

/// Beside the codes of ts_status_code: a run of training has failed.
inline constexpr int kFailed = TS_INTERNAL + 1;

struct Error : std::runtime_error {
  explicit Error(const std::string &message, int code = TS_INVALID_ARGUMENT)
      : std::runtime_error(message), code(code) {}
  int code; // a ts_status_code, or kFailed
};

/// Throws the error that there is, if any.
void check(ts_status *status);

struct Release {
  void operator()(ts_tensor *tensor) const { ts_tensor_free(tensor); }
  void operator()(ts_module *module) const { ts_module_free(module); }
  void operator()(ts_session *session) const { ts_session_free(session); }
};
template <typename T> using Owned = std::unique_ptr<T, Release>;

/// `type` is that of the values of maps, which Python's numbers do not have.
Owned<ts_tensor> toTensor(nb::handle value, ts_type type = TS_UNDEFINED);
nb::object fromTensor(ts_tensor *tensor);

/// A NumPy array of any type that the library has, those of ml_dtypes included, as a DLPack
/// capsule.
nb::object toDlpack(nb::object array);
nb::object dlpackOf(ts_tensor *tensor);

/// A tensor that is converted once, as a capsule that stands for it wherever one is given to a
/// model. It keeps the array's memory.
nb::object convertArray(nb::handle array);

/// A list of arrays as a value of List; None for one that has anything else. The capsule stands for
/// the value where one is given to a model.
nb::object convertList(nb::list elements, uint32_t cons, uint32_t nil);
