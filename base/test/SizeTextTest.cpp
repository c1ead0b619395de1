// Sizes as text: parentheses where leaving them out would say another size.
#include "base/SizeText.h"

#include <gtest/gtest.h>

using namespace tensmith;
using namespace tensmith::size_text;

namespace {

const SizeText n{SizeText::Atom, "n"}, m{SizeText::Atom, "m"}, two{SizeText::Atom, "2"},
    minusOne{SizeText::Atom, "-1"};

TEST(SizeText, ParenthesesStandWhereTheyAreNeeded) {
  EXPECT_EQ(sum(product(n, two), minusOne).text, "2*n-1");
  EXPECT_EQ(product(sum(n, m), two).text, "2*(n+m)");
  EXPECT_EQ(quotient(product(n, m), '/', two).text, "n*m/2");
  EXPECT_EQ(quotient(n, '/', product(m, two)).text, "n/(2*m)");
  EXPECT_EQ(product(quotient(n, '/', two), m).text, "(n/2)*m");
  EXPECT_EQ(quotient(quotient(n, '/', two), '%', m).text, "(n/2)%m");
  EXPECT_EQ(sum(quotient(sum(n, m), '/', two), n).text, "(n+m)/2+n");
  EXPECT_EQ(product(ceilQuotient(sum(n, m), two), two).text, "2*ceil((n+m)/2)");
  EXPECT_EQ(call("max", sum(n, m), two).text, "max(n+m, 2)");
}

} // namespace
