// Ranges, sizes and errors of comprehensions: cases of the published semantics (the documentation's
// worked examples and its rules of inference), and those that ours adds.
#include "reference/comprehension/Analysis.h"
#include "reference/comprehension/Schedules.h"

#include <gtest/gtest.h>

using namespace tensmith;
using namespace tensmith::comprehension;

namespace {

/// "i in 0:N, k in 0:K; C(0+N)" of the last definition, or its first message.
std::string inferred(const std::string &text) {
  std::vector<Message> messages;
  Module module = parse(text, messages);
  Function function;
  if (messages.empty() && !module.definitions.empty())
    function = analyse(module, module.definitions.back(), messages);
  if (!messages.empty())
    return std::to_string(messages[0].place.line) + ":" + std::to_string(messages[0].place.column) +
           ": " + messages[0].text;
  std::string result;
  for (const Statement &statement : function.statements) {
    for (const Index &index : statement.indices)
      result += index.name + " in " + print(*index.low) + ":" + print(*index.high) + " ";
    result += "; ";
  }
  for (size_t number : function.results) {
    const Tensor &tensor = function.tensors[number];
    result += typeName(tensor.type) + " " + tensor.name + "(";
    for (size_t dim = 0; dim < tensor.extents.size(); ++dim)
      result += (dim ? ", " : "") + print(*tensor.lows[dim]) + "+" + print(*tensor.extents[dim]);
    result += ") ";
  }
  for (const Requirement &one : function.requirements)
    result += "where " + print(*one.a) + (one.isEqual ? " = " : " <= ") + print(*one.b) + " ";
  result.erase(result.find_last_not_of(' ') + 1);
  return result;
}

struct Case {
  const char *signature, *body, *expected;
};

const Case kRanges[] = {
    {"float(M, K) A, float(K, N) B", "C(m, n) +=! A(m, k) * B(k, n)",
     "m in 0:M n in 0:N k in 0:K ; float C(0+M, 0+N)"},
    {"float(B) I, float(K) W", "C(i) +=! I(i + k) * W(k)",
     "i in 0:B - K + 1 k in 0:K ; float C(0+B - K + 1)"},
    {"float(I) B", "C(i) = B(10 - i)", "i in -I + 11:11 ; float C(-I + 11+I)"},
    {"float(I) B", "C(i) = B(2 * i)", "i in 0:(I - 1) / 2 + 1 ; float C(0+(I - 1) / 2 + 1)"},
    {"float(I) B", "C(i) = B(2 * i) + B(2 * i + 1)",
     "i in 0:(I - 2) / 2 + 1 ; float C(0+(I - 2) / 2 + 1)"},
    {"float(I) B", "C(i) +=! B(2 * i + k) where k in 0:2",
     "i in 0:(I - 2) / 2 + 1 k in 0:2 ; float C(0+(I - 2) / 2 + 1)"},
    {"float(N) A, float c", "C(i) = c where exists A(i)", "i in 0:N ; float C(0+N)"},
    {"float(N, M) I", "C(i, j) = I(i, j) where i in 3:N - 1",
     "i in 3:N - 1 j in 0:M ; float C(3+N - 4, 0+M)"},
    {"float(N, M) I", "C(i, j) = I(10 + i - j, i + j) where i in 0:10",
     "i in 0:10 j in max(-N + 20, 0):min(11, M - 9) ; float C(0+10, max(-N + 20, 0)+min(11, M - 9) "
     "- max(-N + 20, 0))"},
    {"float(N, P, M) I", "C(i, j) = I(i, i + j, j)",
     "i in 0:N j in 0:M ; float C(0+N, 0+M) where N + M - 2 <= P - 1"},
    {"float(10, 19, 10) I", "C(i, j) = I(i, i + j, j)",
     "i in 0:10 j in 0:10 ; float C(0+10, 0+10)"},
    {"", "C(i, j) = 3 where i in 4:8, j in 3:20", "i in 4:8 j in 3:20 ; int32 C(4+4, 3+17)"},
    {"float(J) B, int32(I) D", "C(i) = B(D(i))", "i in 0:I ; float C(0+I)"},
    {"float(J) B, int32(I) D", "C(i) = B(max(min(D(i), J - 1), 0))", "i in 0:I ; float C(0+I)"},
    {"float(N) A, float(M) B", "C(i) = A(i) + B(i)", "i in 0:min(N, M) ; float C(0+min(N, M))"},
    {"float(N) A", "C(i) = A(i - 1) + A(i) + A(i + 1)", "i in 1:N - 1 ; float C(1+N - 2)"},
    {"float(N) A", "C(i) = i > 0 ? A(i - 1) : 0.0 where i in 0:N", "i in 0:N ; float C(0+N)"},
    {"float(N) A, int32 n", "C +=! A(i) where i in 0:n", "i in 0:n ; float C()"},
    {"float(N, N) A", "C(i) +=! A(i, j) where j in 0:i + 1",
     "i in 0:N j in 0:i + 1 ; float C(0+N)"},
    {"float(P, R) L, float(R, Q) U", "C(p, q) +=! L(p, r) * U(r, q) where r in p:R, r in 0:q + 1",
     "p in 0:P q in 0:Q r in max(p, 0):min(R, q + 1) ; float C(0+P, 0+Q)"},
    {"float(N) A", "C(i) = A(i / 3)", "i in 0:3 * N ; float C(0+3 * N)"},
    {"float(N) A", "C(i) = A(-i)", "i in -N + 1:1 ; float C(-N + 1+N)"},
    {"float(N) A", "C(i) = A(x) where x = i + 1", "i in -1:N - 1 ; float C(-1+N)"},
    {"float(N, M) A", "C(i) max=! A(i, j)", "i in 0:N j in 0:M ; float C(0+N)"},
    {"float(N) A", "C = A(0)", "; float C() where 0 <= N - 1"},
    {"float(N, M) A", "C(i) = A(i, i)", "i in 0:min(N, M) ; float C(0+min(N, M))"},
    {"half(N) A", "C(i) = A(i) * 0.5", "i in 0:N ; half C(0+N)"},
    {"uint8(N) A", "C(i) = A(i) + 1", "i in 0:N ; int32 C(0+N)"},
    {"float(N) A", "C(i) = i where exists A(i)", "i in 0:N ; int32 C(0+N)"},
    {"float(N) A", "D(i) = A(i) C(i) = D(i + 2)", "i in 0:N ; i in -2:N - 2 ; float C(-2+N)"},
    {"float(N) A", "C(i) = A(i) C(i) = C(i) * A.0", "i in 0:N ; i in 0:N ; float C(0+N)"},
    {"float(H, W) A", "C(i, j) max=! A(i + p, j + q) where p in 0:2, q in 0:3",
     "i in 0:H - 1 j in 0:W - 2 p in 0:2 q in 0:3 ; float C(0+H - 1, 0+W - 2)"},
};

const Case kErrors[] = {
    {"float(N, M) I", "C(i, j) = I(10 + i - j, i + j)", "no access tells the ranges of 'i', 'j'"},
    {"", "C(i, j) = 3", "no access tells the ranges of 'i', 'j'"},
    {"float(I) B, int32(1) S", "C(i) = B(S(0) * i)", "no access tells the range of 'i'"},
    {"", "C(i, j) = 3 where i in 8:4, j in 3:20", "is from 8 to 4, which is before it"},
    {"float(N) A", "C(i) += A(i)", "'C' has no value before this statement"},
    {"float(N, M) A", "C(i) = A(i, j)", "'j' is not among the target's indices"},
    {"float(N) A", "C(i) = A(i, i)", "'A' has 1 dimension, and is read at 2 indices"},
    {"float(N) A", "C(i) = D(i)", "'D' is no tensor or function that is defined here"},
    {"float(N) A", "A(i) = A(i)", "'A' is an input, which no statement may change"},
    {"float(N) A", "C = A", "'A' has 1 dimension; its elements are read by as many indices"},
    {"float(N) A", "C +=! A(i) * A(j) where i in 0:j, j in 0:i", "depends on itself"},
    {"float(N) A", "C(i) = A(i) where i in 0:9223372036854775807 * 2", "beyond those of 64 bits"},
    {"float(N) A", "C(i) = A(i) where i in 0:9223372036854775808", "beyond those of 64 bits"},
    {"float(N) A", "C(i) = A(i) where i in 0:A(3)", "bounds of a range don't read tensors"},
    {"float(N) A", "C(i) = 0 where exists A(i) C(i) += A(i)",
     "'C' is of int32, and this value of float"},
    {"float(N) A", "C(A) = A(i)", "'A' is a tensor, a size or an index already"},
    {"float(N) A", "C(i) = A(A(i))", "an index is a whole number, and this is of float"},
    {"float(N) A", "C(i) = A(i) ? 1.0 : 0.0", "a condition is expected here"},
    {"float(N) A", "C(i) = exp(A(i), A(i))", "exp takes 1 argument, not 2"},
    {"float(N) A", "C(i) = A(i) C(i, j) = A(i)", "'C' has 1 dimension, not 2"},
    {"float(N, N) A", "C(i, j) = A(i, j) where j in 0:i + 1",
     "has elements that this statement doesn't reach"},
    {"float(N) A", "D(i) = A(i)", "no statement defines the result 'C'"},
    {"float(N) A", "C(i) = A(i) +", "an expression is expected here, not '}'"},
    {"float(N) A", "C(i) A(i)",
     "an assignment, '=', '+=!', '+=', 'max=!' or the like, is expected"},
    {"float(N) A", "C(i) = A(i", "',' or ')' is expected here"},
    {"float(N) N", "C(i) = N(i)", "'N' is a tensor, and no size"},
    {"bool(N) A", "C +=! A(i)", "elements of bool are not reduced"},
    {"f8e4m3fn(N) A", "C(i) = A(i) * A(i)", "nothing is computed with f8e4m3fn"},
    {"float(N) A", "C, D = g(A)", "several results are those of a call"},
    {"float(N) A", "C = f(A)", "calls itself, or is called too deep"},
};

std::string textOf(const Case &one) {
  return std::string("def f(") + one.signature + ") -> (C) { " + one.body + " }";
}

} // namespace

TEST(ComprehensionRanges, AreInferred) {
  for (const Case &one : kRanges)
    EXPECT_EQ(inferred(textOf(one)), one.expected) << one.body;
}

TEST(ComprehensionRanges, ErrorsNameThePlaceAndWhatIsWrong) {
  for (const Case &one : kErrors) {
    std::string message = inferred(textOf(one));
    EXPECT_NE(message.find(one.expected), message.npos) << one.body << "\n  gave " << message;
    EXPECT_EQ(message.substr(0, 2), "1:") << message;
  }
}

TEST(ComprehensionRanges, CallsAreTakenIn) {
  std::string two =
      "def mm(float(M, K) A, float(K, N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }\n"
      "def f(float(M, K) A, float(K, N) B, float(N, P) D) -> (E) {\n"
      "  T = mm(A, B)\n  E = mm(T, D)\n}";
  EXPECT_EQ(inferred(two), "m in 0:M n in 0:N k in 0:K ; m in 0:M n in 0:P k in 0:N ; "
                           "float E(0+M, 0+P)");
  std::string square =
      "def mm(float(M, K) A, float(K, N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }\n"
      "def f(float(P, Q) A) -> (E) { E = mm(A, A) }";
  EXPECT_NE(inferred(square).find("where P = Q"), std::string::npos) << inferred(square);
}

/// What is printed says the same, and is printed so again: a lost parenthesis would be seen.
TEST(ComprehensionRanges, LayoutIsStable) {
  std::string text = "# head\ndef f(float(N) A) -> (C) {\n"
                     "  C(i) = (A(i) - (A(i) - 1.0)) * -(-A(i)) / (A(i) / 2.0) # tail\n"
                     "  # before\n"
                     "  C(i) = (A(i) > 0.0 ? 1.0 : 2.0) + (i > 1 && !(i == 2 || i < 7) ? 1e-3 : "
                     "1.5e30) where i in (1 > 0 ? 0 : 1) * 0:N\n}\n";
  std::vector<Message> messages;
  std::vector<Comment> comments, again;
  std::string once = print(parse(text, messages, &comments), comments);
  ASSERT_TRUE(messages.empty()) << messages[0].text;
  EXPECT_EQ(print(parse(once, messages, &again), again), once);
  EXPECT_EQ(comments.size(), again.size());
  EXPECT_NE(once.find("(A(i) - (A(i) - 1.0)) * -(-A(i)) / (A(i) / 2.0)  # tail"), once.npos)
      << once;
}

/// Which lines order which statement, by the statements' numbers.
static std::string schedulesIn(const std::string &text) {
  std::vector<Message> messages;
  std::vector<Comment> comments;
  Module module = parse(text, messages, &comments);
  std::string result = messages.empty() ? "" : messages[0].text;
  for (const ScheduleLine &line : schedulesOf(module, comments, messages))
    for (const Definition &definition : module.definitions)
      for (const StatementSyntax &each : definition.statements)
        if (each.place.line == line.statement.line && each.place.column == line.statement.column)
          result += print(each) + " by " + line.text + "\n";
  return result;
}

/// Breaks if a line of a schedule wanders to another statement, or lines change places.
TEST(ComprehensionRanges, LayoutKeepsSchedules) {
  const char *comments[] = {"", " # note\n", " # schedule: first\n",
                            " # schedule: first\n # note\n # schedule: second\n"};
  for (std::string inside : comments)
    for (std::string behind : comments)
      for (std::string between : {" ", "\n"})
        for (std::string last : {" # schedule: last\n", "\n# schedule: last\n", "\n"}) {
          std::string text = "def f(float(M, K) A) -> (C, D) { C(m) +=! A(m, k)" + between +
                             "D(m) +=!" + inside + " A(m, k)" + behind + " where k in 0:3" + last +
                             "}" + between + "def g(float(M) A) -> (C) { C(m) = A(m)" + last + "}";
          std::vector<Message> messages;
          std::vector<Comment> all, again;
          std::string once = print(parse(text, messages, &all), all);
          ASSERT_TRUE(messages.empty()) << messages[0].text;
          EXPECT_EQ(schedulesIn(once), schedulesIn(text)) << text << "\n gave\n" << once;
          EXPECT_EQ(print(parse(once, messages, &again), again), once);
          EXPECT_EQ(again.size(), all.size());
        }
}

/// Breaks if a schedule of a whole definition wanders behind a statement, or one of them has
/// another.
TEST(ComprehensionRanges, SchedulesOfDefinitions) {
  std::string text = "def f(float(M, K) A) -> (C, D) { # schedule: first\n # note\n"
                     "# schedule: second\n C(m) +=! A(m, k) D(m) = C(m)\n}";
  std::vector<Message> messages;
  std::vector<Comment> comments, again;
  Module module = parse(text, messages, &comments);
  std::string once = print(module, comments);
  std::vector<ScheduleLine> lines = schedulesOf(parse(once, messages, &again), again, messages);
  ASSERT_TRUE(messages.empty()) << messages[0].text;
  ASSERT_EQ(lines.size(), 2u) << once;
  EXPECT_TRUE(lines[0].isWhole && lines[0].text == "first" && lines[1].text == "second") << once;
  EXPECT_EQ(print(parse(once, messages, &again), again), once);
  parse(text.substr(0, text.size() - 1) + "# schedule: third\n}", messages, nullptr);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_NE(messages[0].text.find("has a schedule for all of its statements"), std::string::npos);
}

/// Texts that are made to be hard end soon, with a message.
TEST(ComprehensionRanges, HostileTexts) {
  auto wrapped = [](const std::string &value) {
    return "def f(float(N) A) -> (C) { C(i) = " + value + " }";
  };
  auto repeated = [](const std::string &part, size_t count) {
    std::string all;
    for (size_t i = 0; i < count; ++i)
      all += part;
    return all;
  };
  EXPECT_NE(inferred(std::string(10 << 20, 'x')).find("at most"), std::string::npos);
  EXPECT_NE(inferred(wrapped(repeated("(", 10000))).find("nested too deep"), std::string::npos);
  EXPECT_NE(inferred(wrapped(repeated("-", 10000) + "A(i)")).find("nested too deep"),
            std::string::npos);
  EXPECT_NE(inferred(wrapped("A(i)" + repeated(" + A(i)", 10000))).find("nested too deep"),
            std::string::npos);
  EXPECT_NE(inferred(wrapped("A(i)" + repeated(" ? 1.0 : A(i) > 0.0", 5000))).find("nested"),
            std::string::npos);
  // Each `let` is twice the one before.
  std::string lets = "A(i) * x39 where x0 = A(i)";
  for (int i = 1; i < 40; ++i)
    lets +=
        ", x" + std::to_string(i) + " = x" + std::to_string(i - 1) + " * x" + std::to_string(i - 1);
  EXPECT_NE(inferred(wrapped(lets)).find("too long"), std::string::npos) << inferred(wrapped(lets));
  // Calls within calls.
  std::string calls = "def g0(float(N) A) -> (C) { C(i) = A(i) }\n";
  for (int i = 1; i < 30; ++i) {
    std::string before = "g" + std::to_string(i - 1);
    calls += "def g" + std::to_string(i) + "(float(N) A) -> (C) { B = " + before +
             "(A) C = " + before + "(B) }\n";
  }
  EXPECT_NE(inferred(calls).find("more than"), std::string::npos) << inferred(calls);
}
