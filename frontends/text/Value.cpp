// Making values, and letting go of them; see Value.h.
#include "frontends/text/Value.h"

namespace tensmith::text {

ValueRef Value::of(HostTensor tensor) {
  auto value = std::make_shared<Value>();
  value->tensor = std::move(tensor);
  return value;
}

ValueRef Value::data(uint32_t tag, std::vector<ValueRef> fields) {
  auto value = std::make_shared<Value>();
  value->kind = Kind::Data;
  value->tag = tag;
  value->fields = std::move(fields);
  return value;
}

ValueRef Value::binding(const std::string &name, ValueRef bound, ValueRef around) {
  auto value = std::make_shared<Value>();
  value->kind = Kind::Binding;
  value->name = &name;
  value->fields = {std::move(bound), std::move(around)};
  return value;
}

/// What the outermost value that goes leads to is let go of here, one after another.
Value::~Value() {
  thread_local std::vector<ValueRef> leaving;
  thread_local bool busy = false;
  for (ValueRef &field : fields)
    if (field && field.use_count() == 1 && !field->fields.empty())
      leaving.push_back(std::move(field));
  if (busy)
    return;
  busy = true;
  while (!leaving.empty()) {
    ValueRef next = std::move(leaving.back());
    leaving.pop_back();
  }
  busy = false;
}

} // namespace tensmith::text
