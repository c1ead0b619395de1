// Types under inference: terms with variables, and their unification.
//
// A tensor's type is made of terms too: its element type, and its shape, which is a variable or a
// list of sizes. A size is an expression over the symbols of the program's inputs, a variable, or
// unknown (`?`), which agrees with any size: the run checks it. Variables are generalised by levels
// (Rémy 1992): those deeper than the binding that is left become generic.
#pragma once

#include "base/DataType.h"
#include "frontends/text/Ast.h"

#include "compiler/graph/Shape.h"

#include <deque>
#include <map>
#include <set>

namespace tensmith::text {

struct Term {
  enum class Kind : uint8_t {
    Variable,
    Tensor,
    Element,
    Shape,
    Size,
    Unknown,
    Tuple,
    Function,
    Data
  };
  enum class Sort : uint8_t { Type, Element, Shape, Size };
  /// Of a variable that stands for a number's element type: what the number is.
  enum class Literal : uint8_t { None, Integer, Real };

  Kind kind = Kind::Variable;
  Sort sort = Sort::Type;
  Literal literal = Literal::None;
  int level = 0;
  Term *link = nullptr;      // of a variable that is bound
  std::vector<Term *> parts; // Tensor: element, shape; Function: parameters, then the result
  std::string name;          // of a data type; of a variable, where the text names it
  DataType element = DataType::Undefined;
  mlir::AffineExpr size;
};

constexpr int kGeneric = 1 << 30;

class Types {
public:
  /// `reals`: what numbers with a point are where nothing else says it.
  explicit Types(mlir::MLIRContext *context, DataType reals = DataType::F32)
      : shapes(context), reals_(reals) {}

  Term *variable(Term::Sort sort = Term::Sort::Type);
  Term *tensor(Term *element, Term *shape) { return make(Term::Kind::Tensor, {element, shape}); }
  Term *element(DataType type);
  Term *shape(std::vector<Term *> sizes) { return make(Term::Kind::Shape, std::move(sizes)); }
  Term *size(mlir::AffineExpr size);
  /// What arithmetic on two sizes that are known comes to.
  Term *computed(DimExpr::Kind kind, Term *a, Term *b);
  /// The type of a number that the compiler knows, which attributes and sizes are computed from.
  Term *staticSize(Term *size) { return data("Size", {size}); }
  static bool isStaticSize(Term *type) {
    Term *found = find(type);
    return found->kind == Term::Kind::Data && found->name == "Size";
  }
  Term *unknown() { return make(Term::Kind::Unknown, {}); }
  Term *tuple(std::vector<Term *> parts) { return make(Term::Kind::Tuple, std::move(parts)); }
  Term *function(std::vector<Term *> parts) { return make(Term::Kind::Function, std::move(parts)); }
  Term *data(const std::string &name, std::vector<Term *> parts);
  Term *scalar(DataType type) { return tensor(element(type), shape({})); }

  /// What the term is by now.
  static Term *find(Term *term);
  /// Makes both the same; false where they can't be.
  bool unify(Term *a, Term *b);
  /// Variables deeper than the current level become generic.
  void generalize(Term *term);
  using Copies = std::map<Term *, Term *>;
  /// The term with new variables in the place of generic ones.
  Term *instantiate(Term *term, Copies &copies);
  /// Whether no variable is left in it.
  static bool isKnown(Term *term);
  /// Gives numbers their own types (i64, `reals`), and whatever else is open the empty tuple or
  /// `?`.
  void settle(Term *term);

  std::string print(Term *term);
  std::string print(mlir::AffineExpr size);

  int level = 0;
  bool cyclic = false; // the last unification failed since a type would contain itself
  graph::ShapeContext shapes;
  std::set<std::string> symbols; // of the program's inputs: sizes that mean the same everywhere

private:
  Term *make(Term::Kind kind, std::vector<Term *> parts);
  bool bind(Term *variable, Term *term);
  bool occurs(Term *variable, Term *term);

  std::deque<Term> terms_;
  DataType reals_;
};

} // namespace tensmith::text
