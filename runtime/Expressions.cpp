// Sizes as expressions over a function's symbols: values, the time when they are known, and text.
//
// A value that overflows 63 bits or divides by zero is poison, and so is what is computed from it,
// but for the smaller of it and another, which is the other; whoever uses a size checks for it.
// Division is MLIR's affine division: the divisor is positive.
#include "runtime/Program.h"

#include "base/SizeText.h"

#include <algorithm>

namespace tensmith::runtime {
namespace {

int64_t floorDiv(int64_t a, int64_t b) {
  int64_t quotient = a / b;
  return a % b < 0 ? quotient - 1 : quotient;
}

int32_t timeOf(const plan::Expr &expr, const KnownTimes &times) {
  switch (expr.kind()) {
  case plan::ExprKind::Constant:
    return kAtEntry;
  case plan::ExprKind::Symbol:
    return times.symbols[size_t(expr.a())];
  default:
    return std::max(times.exprs[size_t(expr.a())], times.exprs[size_t(expr.b())]);
  }
}

void bindSymbols(const plan::Function &function, uint32_t value, int32_t time, KnownTimes &times) {
  const plan::Value *info = function.values()->Get(value);
  if (!info->dims() || info->kind() != plan::ValueKind::Tensor)
    return;
  for (uint32_t dim : *info->dims()) {
    const plan::Expr *expr = function.exprs()->Get(dim);
    if (expr->kind() == plan::ExprKind::Symbol && times.symbols[size_t(expr->a())] == kNever)
      times.symbols[size_t(expr->a())] = time;
  }
}

/// Text that would grow without bound (expressions share parts) is cut off.
SizeText textOf(const plan::Function &function, uint32_t index, int depth) {
  const plan::Expr *expr = function.exprs()->Get(index);
  if (expr->kind() == plan::ExprKind::Constant)
    return {SizeText::Atom, std::to_string(expr->a())};
  if (expr->kind() == plan::ExprKind::Symbol)
    return {SizeText::Atom, function.symbols()->Get(uint32_t(expr->a()))->str()};
  if (depth == 0)
    return {SizeText::Atom, "..."};
  SizeText a = textOf(function, uint32_t(expr->a()), depth - 1);
  SizeText b = textOf(function, uint32_t(expr->b()), depth - 1);
  switch (expr->kind()) {
  case plan::ExprKind::Add:
    return size_text::sum(a, b);
  case plan::ExprKind::Mul:
    return size_text::product(a, b);
  case plan::ExprKind::FloorDiv:
    return size_text::quotient(a, '/', b);
  case plan::ExprKind::CeilDiv:
    return size_text::ceilQuotient(a, b);
  case plan::ExprKind::Mod:
    return size_text::quotient(a, '%', b);
  case plan::ExprKind::Max:
    return size_text::call("max", a, b);
  default:
    return size_text::call("min", a, b);
  }
}

} // namespace

int64_t evaluate(const plan::Expr &expr, const int64_t *symbols, const int64_t *exprs) {
  if (expr.kind() == plan::ExprKind::Constant)
    return expr.a();
  if (expr.kind() == plan::ExprKind::Symbol)
    return symbols[expr.a()];
  int64_t a = exprs[expr.a()], b = exprs[expr.b()], result;
  if (a == kPoison || b == kPoison)
    return expr.kind() != plan::ExprKind::Min ? kPoison : a == kPoison ? b : a;
  switch (expr.kind()) {
  case plan::ExprKind::Add:
    return __builtin_add_overflow(a, b, &result) ? kPoison : result;
  case plan::ExprKind::Mul:
    return __builtin_mul_overflow(a, b, &result) ? kPoison : result;
  case plan::ExprKind::FloorDiv:
    return b <= 0 ? kPoison : floorDiv(a, b);
  case plan::ExprKind::CeilDiv:
    return b <= 0 ? kPoison : -floorDiv(-a, b);
  case plan::ExprKind::Mod:
    return b <= 0 ? kPoison : a - floorDiv(a, b) * b;
  case plan::ExprKind::Max:
    return std::max(a, b);
  default:
    return std::min(a, b);
  }
}

bool bindsSymbols(plan::Opcode opcode) {
  return opcode == plan::Opcode::Routine || opcode == plan::Opcode::If ||
         opcode == plan::Opcode::Loop || opcode == plan::Opcode::Procedure;
}

KnownTimes knownTimes(const plan::Function &function) {
  KnownTimes times;
  times.symbols.assign(function.symbols() ? function.symbols()->size() : 0, kNever);
  std::fill_n(times.symbols.begin(), function.given_symbols(), kAtEntry);
  if (function.buffers() && function.buffers()->size() > 0)
    std::fill_n(times.symbols.begin() + function.first_place(), function.buffers()->size() + 1,
                kAtEntry);
  if (function.params())
    for (uint32_t param : *function.params())
      bindSymbols(function, param, kAtEntry, times);
  for (uint32_t i = 0; function.instructions() && i < function.instructions()->size(); ++i) {
    const plan::Instruction *instruction = function.instructions()->Get(i);
    if (bindsSymbols(instruction->opcode()) && instruction->results())
      for (uint32_t result : *instruction->results())
        bindSymbols(function, result, int32_t(i), times);
  }
  for (uint32_t i = 0; function.exprs() && i < function.exprs()->size(); ++i)
    times.exprs.push_back(timeOf(*function.exprs()->Get(i), times));
  return times;
}

std::string expressionText(const plan::Function &function, uint32_t index) {
  return textOf(function, index, 8).text;
}

} // namespace tensmith::runtime
