// A recursive descent over sums, products and atoms; see SizeExpression.h.
//
// Texts come from outside, so their length, the depth of parentheses and the terms of products
// are limited, and a number must be one that a size can be.
#include "compiler/api/SizeExpression.h"

#include "base/HostTensor.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace tensmith {
namespace {

constexpr int kDeepest = 100;      // parentheses in one another
constexpr size_t kMostTerms = 256; // of a product of sums, which is multiplied out
constexpr size_t kLongest = 4096;  // characters; a sum is as deep as it has parts

bool isNamed(char c) { return llvm::isAlnum(c) || c == '_' || c == '.'; }

class Parser {
public:
  Parser(StringRef text, graph::ShapeContext &shapes) : text_(text), rest_(text), shapes_(shapes) {}

  Result<AffineExpr> parse() {
    AffineExpr size = sum();
    if (error_.empty() && !rest_.ltrim().empty())
      (void)fail("'" + rest_.ltrim().str() + "' is left over");
    if (!error_.empty())
      return invalidArgument("the size '" + text_.str() + "': " + error_);
    return shapes_.simplify(size);
  }

private:
  AffineExpr fail(const std::string &why) {
    if (error_.empty())
      error_ = why;
    rest_ = {};
    return shapes_.constant(1);
  }

  bool take(StringRef sign) {
    rest_ = rest_.ltrim();
    return rest_.consume_front(sign);
  }

  AffineExpr sum() {
    AffineExpr left = take("-") ? -product() : product();
    size_t terms = terms_;
    while (true) {
      if (take("+"))
        left = left + product();
      else if (take("-"))
        left = left - product();
      else
        break;
      terms += terms_;
    }
    terms_ = terms;
    return left;
  }

  AffineExpr product() {
    AffineExpr left = atom();
    size_t terms = terms_;
    while (true) {
      if (take("*"))
        left = times(left, terms);
      else if (take("/"))
        left = left.floorDiv(divisor());
      else if (take("%"))
        left = left % divisor();
      else
        break;
    }
    terms_ = terms;
    return left;
  }

  /// `terms`: of `left`, and then of the product.
  AffineExpr times(AffineExpr left, size_t &terms) {
    AffineExpr right = atom();
    bool isLonger = terms > 1 && terms_ > 1;
    terms *= terms_;
    return isLonger && terms > kMostTerms
               ? fail("it multiplies out to more than " + std::to_string(kMostTerms) + " terms")
               : left * right;
  }

  AffineExpr divisor() {
    AffineExpr by = shapes_.simplify(atom());
    auto known = graph::constantOf(by);
    return known && *known < 1 ? fail("it is divided by " + std::to_string(*known)) : by;
  }

  AffineExpr within(AffineExpr (Parser::*inner)()) {
    if (++depth_ > kDeepest)
      return fail("parentheses are nested more than " + std::to_string(kDeepest) + " deep");
    AffineExpr size = (this->*inner)();
    --depth_;
    return size;
  }

  AffineExpr closed(AffineExpr size) {
    return take(")") ? size : fail("a parenthesis is not closed");
  }

  AffineExpr atom() {
    terms_ = 1;
    if (take("("))
      return closed(within(&Parser::sum));
    if (take("ceil("))
      return closed(within(&Parser::ceilQuotient));
    if (take("max("))
      return closed(within(&Parser::broadcast));
    if (!rest_.empty() && llvm::isDigit(rest_[0]))
      return number();
    StringRef name = rest_.take_while(isNamed);
    if (name.empty())
      return fail(rest_.empty() ? "something is missing at its end"
                                : "'" + rest_.take_front(20).str() + "' is no number and no name");
    rest_ = rest_.drop_front(name.size());
    return shapes_.symbol(StringAttr::get(shapes_.mlirContext(), name));
  }

  AffineExpr number() {
    int64_t value = 0;
    if (rest_.consumeInteger(10, value) || value > kMostElements)
      return fail("a number is too large");
    return shapes_.constant(value);
  }

  AffineExpr ceilQuotient() {
    AffineExpr above = atom();
    return take("/") ? above.ceilDiv(divisor()) : fail("ceil is of a quotient, as ceil(n/2)");
  }

  AffineExpr broadcast() {
    AffineExpr a = sum();
    if (!take(","))
      return fail("max is of two sizes, as max(a, b)");
    auto both = shapes_.broadcast(shapes_.simplify(a), shapes_.simplify(sum()));
    return both ? *both : fail("the two sizes of max don't broadcast");
  }

  StringRef text_, rest_;
  graph::ShapeContext &shapes_;
  std::string error_;
  int depth_ = 0;
  size_t terms_ = 1; // of what was parsed last, multiplied out
};

} // namespace

Result<AffineExpr> parseSize(std::string_view given, graph::ShapeContext &shapes) {
  if (given.size() > kLongest)
    return invalidArgument("the size '" + std::string(given.substr(0, 40)) + "...' has " +
                           std::to_string(given.size()) + " characters; " +
                           std::to_string(kLongest) + " are possible");
  return Parser(StringRef(given.data(), given.size()), shapes).parse();
}

} // namespace tensmith
