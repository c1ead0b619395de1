// A nest's statements as sets and relations of isl: domains, accesses, the textual order.
//
// isl's C++ classes own their objects, and throw `isl::exception` where isl has an error, its limit
// of operations among them. Files of this folder may throw it among themselves; what others call
// catches it (Schedule.cpp).
//
// Source: S. Verdoolaege, isl: an integer set library for the polyhedral model, 2010.
#pragma once

#include "compiler/nest/Nest.h"

#include <isl/cpp.h>

namespace tensmith::nest {

/// isl's context with a limit of operations for each request, and errors as exceptions.
class IslContext {
public:
  IslContext();
  ~IslContext();
  IslContext(const IslContext &) = delete;
  isl::ctx get() const { return context_; }
  /// From now on so many operations; 0: without a limit.
  void limit(unsigned long operations);
  bool isExhausted() const;
  /// "isl's limit of operations was reached", or what else isl says of its last error.
  std::string error() const;

private:
  isl_ctx *context_;
};

/// What a statement does to the elements of one tensor.
struct Access {
  std::string tensor;
  isl::map elements; // { S[i...] -> T[...] }; what is not affine may be any element
  bool isWrite = false;
  /// The read of the element that a reduction accumulates into, or its write.
  bool accumulates = false;
  bool isExact = true; // all indices are affine
};

struct StatementRelations {
  isl::set domain; // { S[i...] : within the context }
  std::vector<Access> accesses;
};

/// A nest's relations; by statement.
class Relations {
public:
  Relations(isl::ctx context, const Nest &nest);

  isl::ctx context() const { return context_; }
  const isl::set &parameters() const { return parameters_; } // the context
  const StatementRelations &of(const std::string &statement) const {
    return statements_.at(statement);
  }
  const std::map<std::string, StatementRelations> &all() const { return statements_; }
  /// { S[i...] -> iterator }
  isl::pw_aff iterator(const Statement &statement, size_t number) const;
  isl::aff affine(const Affine &value, const Statement &statement) const;
  /// Elements that the tensor has.
  isl::set elements(const Tensor &tensor) const;
  /// An access that may lie outside of its tensor, in words; empty: none does.
  std::string outside(const Nest &nest) const;

private:
  isl::space space(const Statement &statement) const;
  isl::set constrain(isl::set set, const Statement &statement,
                     const std::vector<Constraint> &constraints) const;
  Access access(const Nest &nest, const Statement &statement, const std::string &tensor,
                const std::vector<Expr> &indices, size_t rank) const;
  void addLoads(const Nest &nest, const Statement &statement, StatementRelations &into) const;

  isl::ctx context_;
  isl::space parameterSpace_;
  isl::set parameters_;
  std::map<std::string, StatementRelations> statements_;
};

} // namespace tensmith::nest
