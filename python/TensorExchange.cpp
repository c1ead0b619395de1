// See TensorExchange.h. The table's layout is that of DLPack's header, version 1.
#include "python/TensorExchange.h"

#include "base/DLPack.h"

#include <optional>

struct DLPackExchangeAPI {
  DLPackVersion version;
  DLPackExchangeAPI *previous; // of an earlier major version
  int (*allocate)(DLTensor *prototype, DLManagedTensorVersioned **out, void *context,
                  void (*setError)(void *, const char *, const char *));
  int (*fromObject)(void *object, DLManagedTensorVersioned **out);
  int (*toObject)(DLManagedTensorVersioned *tensor, void **object); // takes the tensor over
  int (*view)(void *object, DLTensor *out); // valid while the object is; may be null
  int (*currentStream)(int32_t deviceType, int32_t deviceId, void **stream);
};

namespace {

constexpr uint32_t kVersion = 1;
constexpr int32_t kHost = 1;
constexpr uint8_t kComplex = 5;

/// Null where the type has none, or none of a version that is known.
const DLPackExchangeAPI *tableOf(nb::handle type) {
  nb::object capsule = nb::getattr(type, "__dlpack_c_exchange_api__", nb::none());
  constexpr const char *kName = "dlpack_exchange_api";
  if (!PyCapsule_IsValid(capsule.ptr(), kName))
    return nullptr;
  auto *api = static_cast<const DLPackExchangeAPI *>(PyCapsule_GetPointer(capsule.ptr(), kName));
  while (api && api->version.major > kVersion)
    api = api->previous;
  return api && api->version.major == kVersion && api->view && api->toObject ? api : nullptr;
}

bool isTrue(const nb::object &method, nb::handle value) {
  return method(value).is(nb::handle(Py_True));
}

bool isDense(const DLTensor &tensor) {
  int64_t expected = 1;
  for (int32_t i = tensor.ndim; i-- > 0;) {
    if (tensor.shape[i] == 0)
      return true;
    if (tensor.strides && tensor.shape[i] != 1 && tensor.strides[i] != expected)
      return false;
    expected *= tensor.shape[i];
  }
  return true;
}

/// What is seen of a library's tensor, which it keeps.
struct Seen {
  DLManagedTensor managed{};
  PyObject *object = nullptr;
};

void release(DLManagedTensor *managed) {
  nb::gil_scoped_acquire lock;
  auto *seen = static_cast<Seen *>(managed->manager_ctx);
  Py_XDECREF(seen->object);
  delete seen;
}

} // namespace

TensorExchange::TensorExchange(nb::object type, nb::object toCapsule, nb::object fromCapsule,
                               nb::object isNegated, nb::object isConjugated)
    : type_(std::move(type)), toCapsule_(std::move(toCapsule)),
      fromCapsule_(std::move(fromCapsule)), isNegated_(std::move(isNegated)),
      isConjugated_(std::move(isConjugated)), api_(tableOf(type_)) {}

bool TensorExchange::takes(nb::handle value) const {
  return PyType_IsSubtype(Py_TYPE(value.ptr()), reinterpret_cast<PyTypeObject *>(type_.ptr()));
}

Owned<ts_tensor> TensorExchange::inPlace(nb::handle value) const {
  auto seen = std::make_unique<Seen>();
  DLTensor &view = seen->managed.dl_tensor;
  if (api_->view(value.ptr(), &view) != 0) {
    PyErr_Clear(); // the capsule's error says more
    return nullptr;
  }
  if (view.device.device_type != kHost || !isDense(view))
    return nullptr;
  if (isTrue(isNegated_, value) || (view.dtype.code == kComplex && isTrue(isConjugated_, value)))
    return nullptr;
  seen->managed.manager_ctx = seen.get();
  seen->managed.deleter = release;
  seen->object = value.inc_ref().ptr();
  ts_tensor *tensor = nullptr;
  ts_status *status = ts_tensor_from_dlpack(&seen->managed, &tensor);
  if (status)
    value.dec_ref();
  check(status);
  seen.release();
  return Owned<ts_tensor>(tensor);
}

Owned<ts_tensor> TensorExchange::toTensor(nb::handle value) const {
  if (api_)
    if (Owned<ts_tensor> tensor = inPlace(value))
      return tensor;
  return ::toTensor(toCapsule_(value));
}

nb::object TensorExchange::fromTensor(ts_tensor *tensor) const {
  if (!api_)
    return fromCapsule_(dlpackOf(tensor));
  DLManagedTensor *managed = nullptr;
  check(ts_tensor_to_dlpack(tensor, &managed));
  auto *versioned = new DLManagedTensorVersioned{{kVersion, 0},
                                                 managed,
                                                 [](DLManagedTensorVersioned *self) {
                                                   auto *managed = static_cast<DLManagedTensor *>(
                                                       self->manager_ctx);
                                                   managed->deleter(managed);
                                                   delete self;
                                                 },
                                                 0,
                                                 managed->dl_tensor};
  void *object = nullptr;
  if (api_->toObject(versioned, &object) != 0)
    throw nb::python_error();
  return nb::steal(static_cast<PyObject *>(object));
}
