// Unification, generalisation and printing of types; see Types.h.
#include "frontends/text/Types.h"

using namespace mlir;

namespace tensmith::text {

Term *Types::make(Term::Kind kind, std::vector<Term *> parts) {
  Term &term = terms_.emplace_back();
  term.kind = kind;
  term.parts = std::move(parts);
  return &term;
}

Term *Types::variable(Term::Sort sort) {
  Term *term = make(Term::Kind::Variable, {});
  term->sort = sort;
  term->level = level;
  return term;
}

Term *Types::element(DataType type) {
  Term *term = make(Term::Kind::Element, {});
  term->element = type;
  return term;
}

Term *Types::size(AffineExpr size) {
  Term *term = make(Term::Kind::Size, {});
  term->size = shapes.simplify(size);
  return term;
}

Term *Types::computed(DimExpr::Kind kind, Term *a, Term *b) {
  a = find(a), b = find(b);
  if (a->kind != Term::Kind::Size || b->kind != Term::Kind::Size)
    return unknown();
  switch (kind) {
  case DimExpr::Kind::Add:
    return size(a->size + b->size);
  case DimExpr::Kind::Sub:
    return size(a->size - b->size);
  case DimExpr::Kind::Mul:
    return size(a->size * b->size);
  default:
    return size(a->size.floorDiv(b->size));
  }
}

Term *Types::data(const std::string &name, std::vector<Term *> parts) {
  Term *term = make(Term::Kind::Data, std::move(parts));
  term->name = name;
  return term;
}

Term *Types::find(Term *term) {
  while (term->kind == Term::Kind::Variable && term->link)
    term = term->link;
  return term;
}

/// Whether the variable is in the term, whose variables are brought to its level on the way.
bool Types::occurs(Term *variable, Term *term) {
  term = find(term);
  if (term == variable)
    return true;
  if (term->kind == Term::Kind::Variable)
    term->level = std::min(term->level, variable->level);
  for (Term *part : term->parts)
    if (occurs(variable, part))
      return true;
  return false;
}

bool Types::bind(Term *variable, Term *term) {
  if (term->kind == Term::Kind::Variable) {
    if (term->sort != variable->sort && variable->sort != Term::Sort::Type)
      return bind(term, variable);
    if (variable->literal != Term::Literal::None && term->literal != Term::Literal::Real)
      term->literal = variable->literal;
    if (term->name.empty())
      term->name = variable->name;
  }
  if (variable->literal != Term::Literal::None && term->kind == Term::Kind::Element &&
      (term->element == DataType::Bool || term->element == DataType::String ||
       (variable->literal == Term::Literal::Real && isInteger(term->element))))
    return false;
  if (occurs(variable, term)) {
    cyclic = true;
    return false;
  }
  variable->link = term;
  return true;
}

bool Types::unify(Term *a, Term *b) {
  a = find(a), b = find(b);
  if (a == b)
    return true;
  if (a->kind == Term::Kind::Variable)
    return bind(a, b);
  if (b->kind == Term::Kind::Variable)
    return bind(b, a);
  if (a->kind == Term::Kind::Unknown || b->kind == Term::Kind::Unknown)
    return (a->kind == Term::Kind::Unknown || a->kind == Term::Kind::Size) &&
           (b->kind == Term::Kind::Unknown || b->kind == Term::Kind::Size);
  if (a->kind != b->kind || a->parts.size() != b->parts.size() || a->element != b->element ||
      a->name != b->name)
    return false;
  if (a->kind == Term::Kind::Size)
    return shapes.equal(a->size, b->size);
  for (size_t i = 0; i < a->parts.size(); ++i)
    if (!unify(a->parts[i], b->parts[i]))
      return false;
  return true;
}

void Types::generalize(Term *term) {
  term = find(term);
  if (term->kind == Term::Kind::Variable && term->level > level)
    term->level = kGeneric;
  for (Term *part : term->parts)
    generalize(part);
}

Term *Types::instantiate(Term *term, Copies &copies) {
  term = find(term);
  if (term->kind == Term::Kind::Variable) {
    if (term->level != kGeneric)
      return term;
    Term *&copy = copies[term];
    if (!copy) {
      copy = variable(term->sort);
      copy->literal = term->literal;
      copy->name = term->name;
    }
    return copy;
  }
  if (isKnown(term))
    return term;
  Term copy = *term;
  for (Term *&part : copy.parts)
    part = instantiate(part, copies);
  return &terms_.emplace_back(std::move(copy));
}

bool Types::isKnown(Term *term) {
  term = find(term);
  if (term->kind == Term::Kind::Variable)
    return false;
  for (Term *part : term->parts)
    if (!isKnown(part))
      return false;
  return true;
}

void Types::settle(Term *term) {
  term = find(term);
  for (Term *part : term->parts)
    settle(part);
  if (term->kind != Term::Kind::Variable)
    return;
  switch (term->sort) {
  case Term::Sort::Element:
    term->link = element(term->literal == Term::Literal::Integer ? DataType::I64 : reals_);
    return;
  case Term::Sort::Shape:
    term->link = shape({});
    return;
  case Term::Sort::Size:
    term->link = unknown();
    return;
  case Term::Sort::Type:
    term->link = tuple({});
  }
}

std::string Types::print(AffineExpr size) {
  if (auto constant = dyn_cast<AffineConstantExpr>(size))
    return std::to_string(constant.getValue());
  if (auto symbol = dyn_cast<AffineSymbolExpr>(size))
    return shapes.symbols()[symbol.getPosition()].str();
  auto pair = cast<AffineBinaryOpExpr>(size);
  const char *sign = pair.getKind() == AffineExprKind::Add   ? " + "
                     : pair.getKind() == AffineExprKind::Mul ? " * "
                     : pair.getKind() == AffineExprKind::Mod ? " % "
                                                             : " / ";
  auto part = [&](AffineExpr inner) {
    bool closed = isa<AffineBinaryOpExpr>(inner) && pair.getKind() != AffineExprKind::Add;
    return closed ? '(' + print(inner) + ')' : print(inner);
  };
  return part(pair.getLHS()) + sign + part(pair.getRHS());
}

std::string Types::print(Term *term) {
  term = find(term);
  auto list = [&](size_t count) {
    std::string text;
    for (size_t i = 0; i < count; ++i)
      text += (i ? ", " : "") + print(term->parts[i]);
    return text;
  };
  switch (term->kind) {
  case Term::Kind::Variable:
    return term->literal != Term::Literal::None ? "number" : !term->name.empty() ? term->name : "_";
  case Term::Kind::Tensor: {
    Term *shape = find(term->parts[1]);
    return print(term->parts[0]) + (shape->kind == Term::Kind::Shape ? print(shape) : "[...]");
  }
  case Term::Kind::Element:
    return std::string(name(term->element));
  case Term::Kind::Shape:
    return '[' + list(term->parts.size()) + ']';
  case Term::Kind::Size:
    return print(term->size);
  case Term::Kind::Unknown:
    return "?";
  case Term::Kind::Tuple:
    return '(' + list(term->parts.size()) + (term->parts.size() == 1 ? ",)" : ")");
  case Term::Kind::Function:
    return '(' + list(term->parts.size() - 1) + ") -> " + print(term->parts.back());
  case Term::Kind::Data:
    break;
  }
  return term->name + (term->parts.empty() ? "" : '[' + list(term->parts.size()) + ']');
}

} // namespace tensmith::text
