// What a program's expressions are when the language's evaluator computes them.
//
// Values are counted and immutable. Lists, and scopes that closures keep, nest as deep as a program
// recurses; letting go of them doesn't recurse on the host's stack.
#pragma once

#include "frontends/text/Ast.h"

#include "base/HostTensor.h"

#include <memory>

namespace tensmith::text {

struct Value;
struct Instance;
using ValueRef = std::shared_ptr<Value>;

struct Value {
  enum class Kind : uint8_t {
    Tensor,
    Data,        // the constructor `tag` of `fields`; of a tuple tag 0
    Function,    // `expr` or all of `instance`, in the scope fields[0]
    Constructor, // as a function
    Reference,   // to fields[0], which may change
    Binding      // in a scope: `name` for fields[0], what is around it being fields[1]
  } kind = Kind::Tensor;
  uint32_t tag = 0;
  HostTensor tensor;
  std::vector<ValueRef> fields;
  const Expr *expr = nullptr;
  Instance *instance = nullptr;
  const std::string *name = nullptr;

  Value() = default;
  Value(const Value &) = delete;
  Value &operator=(const Value &) = delete;
  ~Value();

  static ValueRef of(HostTensor tensor);
  static ValueRef data(uint32_t tag, std::vector<ValueRef> fields);
  static ValueRef binding(const std::string &name, ValueRef value, ValueRef around);
};

} // namespace tensmith::text
