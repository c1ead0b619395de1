// Whether two programs are the same but for the places in their texts.
#include "frontends/text/Ast.h"

#include <algorithm>

namespace tensmith::text {
namespace {

template <typename Element> bool same(const std::vector<Element> &a, const std::vector<Element> &b);
template <typename Element>
bool same(const std::unique_ptr<Element> &a, const std::unique_ptr<Element> &b);

bool same(const std::string &a, const std::string &b) { return a == b; }

bool same(const DimExpr &a, const DimExpr &b) {
  return a.kind == b.kind && a.size == b.size && a.name == b.name && same(a.parts, b.parts);
}

bool same(const TypeExpr &a, const TypeExpr &b) {
  return a.kind == b.kind && a.name == b.name && same(a.dims, b.dims) && same(a.parts, b.parts);
}

bool same(const Pattern &a, const Pattern &b) {
  return a.kind == b.kind && a.name == b.name && same(a.parts, b.parts);
}

bool same(const Parameter &a, const Parameter &b) {
  return a.name == b.name && same(a.type, b.type);
}

bool same(const Case &a, const Case &b) {
  return same(a.pattern, b.pattern) && same(a.body, b.body);
}

bool same(const Argument &a, const Argument &b) {
  return a.name == b.name && same(a.value, b.value);
}

bool same(const Expr &a, const Expr &b) {
  return a.kind == b.kind && a.text == b.text && same(a.parts, b.parts) &&
         same(a.arguments, b.arguments) && same(a.params, b.params) && same(a.cases, b.cases) &&
         same(a.type, b.type);
}

bool same(const ConstructorDecl &a, const ConstructorDecl &b) {
  return a.name == b.name && same(a.fields, b.fields);
}

bool same(const TypeDecl &a, const TypeDecl &b) {
  return a.name == b.name && same(a.params, b.params) && same(a.constructors, b.constructors);
}

bool same(const FunctionDecl &a, const FunctionDecl &b) {
  return a.name == b.name && a.constant == b.constant && same(a.params, b.params) &&
         same(a.result, b.result) && same(a.body, b.body);
}

bool same(const ImportDecl &a, const ImportDecl &b) { return a.path == b.path; }

template <typename Element>
bool same(const std::vector<Element> &a, const std::vector<Element> &b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Element &x, const Element &y) { return same(x, y); });
}

template <typename Element>
bool same(const std::unique_ptr<Element> &a, const std::unique_ptr<Element> &b) {
  return a && b ? same(*a, *b) : !a && !b;
}

} // namespace

bool equal(const Module &a, const Module &b) {
  return same(a.imports, b.imports) && same(a.types, b.types) && same(a.functions, b.functions);
}
bool equal(const Expr &a, const Expr &b) { return same(a, b); }

} // namespace tensmith::text
