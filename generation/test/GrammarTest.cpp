// Grammars: of texts as GBNF, of schemas, and over tokens. Breaks when a text that a grammar has is
// not taken, or one that it hasn't is; when a damaged grammar is more than an error; or when a mask
// over tokens is another than trying each of them.
#include "files/Failure.h"
#include "files/test/GgufWriter.h"
#include "generation/grammar/Gbnf.h"
#include "generation/grammar/JsonSchema.h"
#include "generation/grammar/TokenGrammar.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <regex>
#include <set>

namespace tensmith::generation {
namespace {

/// An expression drawn at random: as GBNF, and by its own definition.
struct Expression {
  enum Kind { Text, Class, Sequence, Choice, Repeat } kind = Text;
  std::string text; // letters: all of them, or any
  std::vector<Expression> parts;
  int least = 0, most = 0; // most below 0: any number

  std::string gbnf() const {
    std::string result;
    switch (kind) {
    case Text:
      return "\"" + text + "\"";
    case Class:
      return "[" + text + "]";
    case Sequence:
      for (const Expression &part : parts)
        result += part.gbnf() + " ";
      return "(" + result + ")";
    case Choice:
      for (const Expression &part : parts)
        result += (result.empty() ? "" : " | ") + part.gbnf();
      return "(" + result + ")";
    case Repeat:
      return "(" + parts[0].gbnf() + "){" + std::to_string(least) + "," +
             (most < 0 ? "" : std::to_string(most)) + "}";
    }
    return result;
  }

  /// Where it may end in the text, if it begins at `from`.
  std::set<size_t> ends(const std::string &of, size_t from) const {
    switch (kind) {
    case Text:
      return of.compare(from, text.size(), text) == 0 ? std::set{from + text.size()}
                                                      : std::set<size_t>{};
    case Class:
      return from < of.size() && text.find(of[from]) != std::string::npos ? std::set{from + 1}
                                                                          : std::set<size_t>{};
    case Sequence: {
      std::set<size_t> at = {from};
      for (const Expression &part : parts)
        at = behind(part, of, at);
      return at;
    }
    case Choice: {
      std::set<size_t> all;
      for (const Expression &part : parts)
        all.merge(part.ends(of, from));
      return all;
    }
    case Repeat: {
      std::set<size_t> at = {from}, all;
      int most = this->most < 0 ? int(of.size()) + least + 1 : this->most;
      for (int i = 0; i <= most; ++i, at = behind(parts[0], of, at))
        if (i >= least)
          all.insert(at.begin(), at.end());
      return all;
    }
    }
    return {};
  }
  static std::set<size_t> behind(const Expression &part, const std::string &of,
                                 const std::set<size_t> &at) {
    std::set<size_t> result;
    for (size_t place : at)
      result.merge(part.ends(of, place));
    return result;
  }
};

constexpr std::string_view kLetters = "abc";

/// May be empty, within repetitions as well.
Expression drawn(std::mt19937 &random, int depth) {
  Expression e;
  e.kind = Expression::Kind(depth ? random() % 5 : random() % 2);
  if (e.kind == Expression::Repeat) {
    e.parts = {drawn(random, depth - 1)};
    e.least = int(random() % 3), e.most = int(random() % 4) - 1;
    e.most = e.most < 0 ? -1 : e.least + e.most;
  } else if (e.kind == Expression::Text || e.kind == Expression::Class) {
    for (size_t i = 0; i < 1 + random() % 2; ++i)
      e.text += kLetters[random() % kLetters.size()];
  } else {
    for (size_t i = 0; i < 1 + random() % 3; ++i)
      e.parts.push_back(drawn(random, depth - 1));
  }
  return e;
}

bool takes(GrammarStates &states, std::string_view text) {
  GrammarStates::State state = states.start();
  for (char byte : text)
    state = states.next(state, uint8_t(byte));
  return state != GrammarStates::kNowhere && states.mayEnd(state);
}

/// Breaks if a repetition of what may be empty is refused as left recursion, or never ends.
TEST(Grammar, DrawnExpressionsTakeWhatTheyMean) {
  std::mt19937 random(3);
  std::vector<std::string> texts = {""};
  for (size_t i = 0; texts[i].size() < 5; ++i)
    for (char letter : kLetters)
      texts.push_back(texts[i] + letter);
  for (int i = 0; i < 150; ++i) {
    Expression expression = drawn(random, 3);
    GrammarStates states(parseGbnf("root ::= " + expression.gbnf()));
    for (const std::string &text : texts)
      ASSERT_EQ(takes(states, text), expression.ends(text, 0).contains(text.size()))
          << expression.gbnf() << " of " << text;
  }
}

TEST(Grammar, CharactersAreTheirBytes) {
  std::mt19937 random(5);
  auto utf8 = [](uint32_t c) {
    std::string s;
    if (c < 0x80)
      return std::string(1, char(c));
    int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    s += char((0xff00 >> (more + 1)) | (c >> 6 * more));
    while (more--)
      s += char(0x80 | ((c >> 6 * more) & 63));
    return s;
  };
  constexpr uint32_t kEdges[] = {0,      0x7f,   0x80,    0x7ff,   0x800,    0xd7ff,
                                 0xe000, 0xffff, 0x10000, 0x3ffff, 0x100000, 0x10ffff};
  auto draw = [&] {
    uint32_t c = random() % 2 ? kEdges[random() % 12] + random() % 3 - 1 : random() % 0x110000;
    return std::min<uint32_t>(c, 0x10ffff);
  };
  for (int i = 0; i < 300; ++i) {
    uint32_t first = draw(), last = draw();
    if (first > last)
      std::swap(first, last);
    Grammar grammar;
    grammar.add({});
    grammar.rules[0] = characterRange(first, last);
    GrammarStates states(grammar);
    for (int j = 0; j < 200; ++j) {
      uint32_t c = j % 2 ? draw() : first + random() % (last - first + 1);
      if (c >= 0xd800 && c < 0xe000)
        continue;
      ASSERT_EQ(takes(states, utf8(c)), c >= first && c <= last)
          << first << " " << last << " " << c;
    }
    EXPECT_FALSE(takes(states, "\xed\xa0\x80") || takes(states, "\xc0\x80"));
  }
}

TEST(Grammar, RulesCallOneAnother) {
  GrammarStates states(parseGbnf("# balanced\n"
                                 "root ::= pair*\n"
                                 "pair ::= \"(\" root \")\" | [^()\\n]\n"));
  for (const char *text : {"", "()", "(())()", "a(b\xc3\xa9)c", "((((((()))))))"})
    EXPECT_TRUE(takes(states, text)) << text;
  for (const char *text : {"(", ")", "(()", "a\n", "())("})
    EXPECT_FALSE(takes(states, text)) << text;
}

void refuses(const std::string &text, const std::string &why) {
  try {
    GrammarStates states(parseGbnf(text));
    ADD_FAILURE() << text;
  } catch (const Failure &failure) {
    EXPECT_THAT(failure.what(), testing::HasSubstr(why)) << text;
  }
}

TEST(Grammar, WhatIsNoneIsSaidInWords) {
  refuses("", "'root' has no rule");
  refuses("root ::= a", "'a' has no rule");
  refuses("root ::= \"a\nb\" c\nc ::= [x", "line 3: a text or a class has no end");
  refuses("root ::= root \"a\"", "left recursion");
  refuses("root ::= \"a\"? b\nb ::= root", "left recursion");
  refuses("root ::= \"a\"? root \"b\"", "left recursion");
  refuses("root ::= \"a\"\nroot ::= \"b\"", "line 2: 'root' has a rule already");
  refuses("root ::= \"a\"{5,2}", "repeats");
  refuses("root ::= \"a\"{999999}", "repeats");
  refuses("root ::= ((\"a\"{4000}){4000}){4000} \"a\"{4000}", "more than");
  // Before they are made.
  refuses("root ::= \"" + std::string(60000, 'a') + "\"{4096}", "more than");
  refuses("root ::= [z-a]", "from the lower to the higher");
  refuses("root ::= \"\\q\"", "no escape");
  refuses("root ::= \"\\ud800\"", "no such character");
  refuses("root ::= " + std::string(5000, '('), "nested too deep");
  refuses(std::string(70000, ' '), "more than 65536 bytes");
  refuses("root := \"a\"", "a rule is 'name ::= ...'");
}

TEST(Grammar, AStateThatIsRefusedIsRefusedAgain) {
  GrammarStates states(parseGbnf("root ::= \"(\" root \")\" | \"x\""));
  std::string deep(2000, '(');
  for (int text = 0; text < 3; ++text)
    EXPECT_THROW(takes(states, deep), Failure);
  EXPECT_TRUE(takes(states, "((x))"));
}

TEST(Grammar, AnyDamageGivesAnErrorOrAGrammar) {
  std::mt19937 random(11);
  const std::string good =
      "root ::= item (\",\" item)* # list\n"
      "item ::= [a-z0-9]{1,3} | \"\\x41\\n\" | \"(\" root \")\" | [^\\]a-]+ .?";
  const std::string signs = "()[]{}|*+?\"\\:=-^.,# \na0\xc3";
  for (int i = 0; i < 5000; ++i) {
    std::string text = good;
    for (size_t j = 0; j < 1 + random() % 4; ++j)
      text.replace(random() % text.size(), random() % 3, random() % 3,
                   signs[random() % signs.size()]);
    try {
      GrammarStates states(parseGbnf(text));
      takes(states, "ab,(c),A\n");
    } catch (const Failure &) {
    }
  }
}

struct SchemaCase {
  const char *schema;
  std::vector<const char *> takes, refuses;
};

TEST(JsonSchema, TakesWhatIsValidAndNothingElse) {
  const std::vector<SchemaCase> cases = {
      {R"({"type": "integer"})", {"0", "-12", "345"}, {"01", "1.5", "", "-", "+1", "1e3", "\"1\""}},
      {R"({"type": "number"})", {"0", "-1.5", "2e10", "3.25E-7"}, {"1.", ".5", "1e", "NaN", "--1"}},
      {R"({"type": "string"})",
       {R"("")", R"("a\n\u00e9")", "\"\xe6\xbc\xa2\""},
       {"\"\n\"", R"("a)", R"("\x")", R"("\ud800")", "\"\xff\"", "a"}},
      {R"({"type": "string", "minLength": 2, "maxLength": 3})",
       {R"("ab")", "\"a\xc3\xa9\\n\""},
       {R"("a")", R"("abcd")"}},
      {R"({"type": "string", "minLength": 2})", {R"("abc")"}, {R"("a")"}},
      {R"({"type": ["boolean", "null"]})", {"true", "false", "null"}, {"0", "True"}},
      {R"({"enum": ["a", 1, null, {"x": [1, 2]}]})",
       {R"("a")", "1", "null", R"({"x":[1,2]})"},
       {"2", "a"}},
      {R"({"const": "yes"})", {R"("yes")"}, {R"("no")", "yes"}},
      {R"({"type": ["string", "integer"], "enum": ["a", 3, 2.5, null]})",
       {R"("a")", "3"},
       {"2.5", "null"}},
      {R"({"minItems": 2})", {"[1,2]"}, {"[]", "[1]", "1"}},
      {R"({"type": "array", "items": {"type": "integer"}})",
       {"[]", "[1]", "[1, 2,3]", "[ 1\n]"},
       {"[1,]", "[,1]", "[1 2]", "[\"a\"]"}},
      {R"({"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 3})",
       {"[1,2]", "[1,2,3]"},
       {"[]", "[1]", "[1,2,3,4]"}},
      {R"({"type": "array", "items": {"type": "null"}, "minItems": 2})",
       {"[null,null]", "[null,null,null,null]"},
       {"[null]"}},
      {R"({"type": "array", "maxItems": 0})", {"[]"}, {"[1]"}},
      {R"({"prefixItems": [{"type": "integer"}, {"type": "string"}], "items": false})",
       {"[]", "[1]", "[1,\"a\"]"},
       {"[\"a\"]", "[1,2]", "[1,\"a\",2]"}},
      {R"({"prefixItems": [{"type": "integer"}], "items": {"type": "null"}, "minItems": 1})",
       {"[1]", "[1,null,null]"},
       {"[]", "[null]", "[1,1]"}},
      {R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "required": ["a", "b"]})",
       {R"({"a":1,"b":"x"})", R"({"a": 1, "b": ""})"},
       {"{}", R"({"a":1})", R"({"b":"x","a":1})", R"({"a":1,"b":"x",})"}},
      {R"({"properties": {"a": {"type": "null"}, "b": {"type": "null"}, "c": {"type": "null"}}, "required": ["b"]})",
       {R"({"b":null})", R"({"a":null,"b":null})", R"({"b":null,"c":null})",
        R"({"a":null,"b":null,"c":null})"},
       {"{}", R"({"a":null})", R"({,"b":null})", R"({"a":null,"c":null})"}},
      {R"({"type": "object", "additionalProperties": {"type": "integer"}})",
       {"{}", R"({"x":1,"y":2})"},
       {R"({"x":"a"})"}},
      {R"({"type": "object", "additionalProperties": false})", {"{}"}, {R"({"x":1})"}},
      {R"({"anyOf": [{"type": "integer"}, {"type": "array", "items": {"$ref": "#"}}]})",
       {"1", "[1,[2,[]]]"},
       {"\"a\"", "[\"a\"]"}},
      {R"({"$ref": "#/$defs/n", "$defs": {"n": {"properties": {"next": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}}, "required": ["next"]}}})",
       {R"({"next":{"next":null}})"},
       {"{}", R"({"next":1})"}},
      {R"({"type": "string", "pattern": "^[A-Z]{2}-\\d+$"})",
       {R"("AB-1")", R"("XY-123")"},
       {R"("AB-")", R"("ab-1")", R"("AB-1x")", R"("")"}},
      {R"({"pattern": "a|^(b[^x\"]c|\\\\)$"})",
       {R"("xay")", R"("byc")", R"("\\")", R"("b\nc")"},
       {R"("bxc")", R"("b\"c")", R"("xb")", "\"b\nc\""}},
      {R"({"type": "string", "format": "date"})",
       {R"("2024-02-29")", R"("1999-12-31")"},
       {R"("2023-02-29")", R"("2024-04-31")", R"("2024-13-01")"}},
      {R"({"type": "string", "format": "date-time"})",
       {R"("2024-02-01T23:59:59Z")", R"("2024-02-01T00:00:00.25+01:30")"},
       {R"("2024-02-01 23:59:59Z")", R"("2024-02-01T24:00:00Z")"}},
      {R"({"type": "string", "format": "uuid"})",
       {R"("123e4567-e89b-12d3-a456-426614174000")"},
       {R"("123e4567e89b12d3a456426614174000")"}},
      {R"({"type": "string", "format": "ipv4"})",
       {R"("127.0.0.1")", R"("255.249.99.0")"},
       {R"("256.0.0.1")", R"("1.2.3")", R"("01.2.3.4")"}},
      {R"({"type": "string", "format": "email"})", {R"("a.b@c.de")"}, {R"("a@")", R"("@b.c")"}},
      {R"({"type": "string", "format": "duration"})",
       {R"("P1Y2M3D")", R"("PT5M")", R"("P1DT2H3M4S")", R"("P2W")"},
       {R"("P")", R"("PT")", R"("P1S")"}},
      {R"({"type": "string", "format": "color"})", {R"("red")"}, {"1"}},
      {R"({"type": "integer", "minimum": 5, "maximum": 123})",
       {"5", "9", "10", "99", "100", "123"},
       {"4", "124", "-5", "05", "200"}},
      {R"({"type": "integer", "exclusiveMinimum": -3, "maximum": 2.5})",
       {"-2", "-1", "0", "2"},
       {"-3", "3", "-0", "-20"}},
      {R"({"type": ["integer", "null"], "minimum": 1000})", {"1000", "20000", "null"}, {"999"}},
      {R"({"type": "integer", "minimum": 999999999999998, "maximum": 9223372036854775807})",
       {"999999999999998", "999999999999999"},
       {"999999999999997"}},
      {R"({"type": "integer", "exclusiveMinimum": -1e300, "maximum": -999999999999999})",
       {"-999999999999999"},
       {"-999999999999998"}},
      {R"({"oneOf": [{"type": "integer"}, {"type": "string"}, {"const": null}]})",
       {"1", R"("a")", "null"},
       {"true"}},
      {R"({"oneOf": [{"properties": {"kind": {"const": "a"}, "x": {"type": "integer"}}, "required": ["kind", "x"]},
                     {"properties": {"kind": {"enum": ["b", "c"]}}, "required": ["kind"]}]})",
       {R"({"kind":"a","x":1})", R"({"kind":"c"})"},
       {R"({"kind":"a"})", R"({"kind":"b","x":1})"}},
      {R"({"oneOf": [{"properties": {"a": {}}, "required": ["a"]}, {"properties": {"b": {}}, "required": ["b"]}]})",
       {R"({"a":1})", R"({"b":2})"},
       {R"({"a":1,"b":2})", "{}"}},
      {R"({"allOf": [{"$ref": "#/$defs/n"}, {"properties": {"b": {"type": "null"}}, "required": ["b"]}],
           "$defs": {"n": {"properties": {"a": {"type": "integer"}}, "required": ["a"]}}})",
       {R"({"a":1,"b":null})"},
       {R"({"a":1})", R"({"b":null})"}},
      {R"({})", {"1", "[]", R"({"a":[true,{"b":null}]})"}, {"", "a"}},
      {R"({"title": "t", "description": "d", "type": "boolean", "default": true})",
       {"true"},
       {"1"}},
  };
  for (const SchemaCase &one : cases) {
    GrammarStates states(schemaGrammar(boundedJson(one.schema)));
    for (const char *text : one.takes)
      if (*text)
        EXPECT_TRUE(takes(states, text)) << one.schema << " " << text;
    for (const char *text : one.refuses)
      EXPECT_FALSE(takes(states, text)) << one.schema << " " << text;
  }
  GrammarStates object(objectGrammar());
  EXPECT_TRUE(takes(object, R"({"a": [1, {"b": "c"}], "d": null})"));
  EXPECT_FALSE(takes(object, "[]") || takes(object, "1"));
}

TEST(JsonSchema, WhatCannotBeKeptToIsRefused) {
  const std::vector<std::pair<const char *, const char *>> cases = {
      {R"({"type": "number", "minimum": 5})", "for the type 'integer'"},
      {R"({"minimum": 5})", "for the type 'integer'"},
      {R"({"type": "integer", "minimum": "5"})", "'minimum' is a number"},
      {R"({"type": "integer", "minimum": 5, "exclusiveMaximum": 5})", "no integer"},
      {R"({"type": "integer", "minimum": 1e18})", "'minimum' 1e+18 can't be kept to"},
      {R"({"type": "integer", "exclusiveMinimum": 999999999999999})", "'exclusiveMinimum' 9999999"},
      {R"({"type": "integer", "maximum": -1000000000000000})", "'maximum' -1000000000000000 can't"},
      {R"({"type": "integer", "exclusiveMaximum": -1e300})", "'exclusiveMaximum' -1e+300 can't"},
      {R"({"type": "integer", "multipleOf": 5})", "'multipleOf'"},
      {R"({"type": "string", "pattern": 5})", "regular expression"},
      {R"x({"type": "string", "pattern": "a(?=b)"})x", "looks ahead"},
      {R"({"type": "string", "pattern": "(a)\\1"})", "'\\1' can't be kept"},
      {R"({"type": "string", "pattern": "\\p{L}"})", "'\\p' can't be kept"},
      {R"({"type": "string", "pattern": "(a"})", "')' is missing"},
      {R"x({"type": "string", "pattern": "a)"})x", "nothing is open"},
      {R"({"type": "string", "pattern": "a^b"})", "an anchor in the middle"},
      {R"({"type": "string", "pattern": "a**"})", "is repeated"},
      {R"({"type": "string", "pattern": "a{3,1}"})", "a repetition is"},
      {R"({"type": "string", "pattern": "[z-a]"})", "not before it"},
      {R"({"type": "string", "pattern": "a", "minLength": 2})", "beside a 'pattern'"},
      {R"({"oneOf": [{"type": "integer"}, {"type": "number"}]})", "alternatives 1 and 2"},
      {R"({"oneOf": [{"type": "string"}, {"type": "null"}, {"enum": ["a"]}]})",
       "alternatives 1 and 3"},
      {R"({"oneOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]})", "use 'anyOf'"},
      {R"({"oneOf": [{"$ref": "#"}, {"$ref": "#"}]})", "oneOf"},
      {R"({"not": {}})", "'not'"},
      {R"({"type": "text"})", "none of JSON's"},
      {R"({"type": "any", "minLength": 3})", "none of JSON's"},
      {R"({"type": "string", "enum": [3]})", "no value of its 'type'"},
      {R"({"type": []})", "'type' is empty"},
      {R"({"anyOf": []})", "'anyOf'"},
      {R"({"anyOf": [{}], "type": "string"})", "beside 'anyOf'"},
      {R"({"allOf": [{"type": "string"}, {}]})", "'allOf' of several"},
      {R"({"allOf": [{"properties": {"a": {}}}, {"properties": {"a": {"type": "null"}}}]})",
       "different things of 'a'"},
      // Beside what a member of allOf, or an alternative, refers to.
      {R"({"allOf": [{"$ref": "#/$defs/a", "required": ["x"]}, {"properties": {"y": {}}}],
           "$defs": {"a": {"properties": {"x": {}}}}})",
       "'required' beside '$ref'"},
      {R"({"allOf": [{"$ref": "#/$defs/a", "minProperties": 1}, {"properties": {"y": {}}}],
           "$defs": {"a": {"properties": {"x": {}}}}})",
       "'minProperties'"},
      {R"({"allOf": [{"allOf": [{"properties": {"x": {}}}], "required": ["x"]}, {"properties": {"y": {}}}]})",
       "'required' beside 'allOf'"},
      {R"({"$ref": "#/$defs/x"})", "has no '#/$defs/x'"},
      {R"({"$ref": "http://x"})", "within it"},
      {R"({"$ref": "#"})", "left recursion"},
      {R"({"anyOf": [{"$ref": "#"}, {"type": "null"}]})", "left recursion"},
      {R"({"type": "array", "minItems": 3, "maxItems": 2})", "no array"},
      {R"({"type": "string", "maxLength": 100000})", "'maxLength'"},
      {R"({"type": "string", "minLength": -1})", "'minLength'"},
      {R"({"required": ["a"], "additionalProperties": false})", "requires 'a' and forbids it"},
      {R"({"properties": 5})", "'properties' are an object"},
      {R"({"type": "array", "items": {"type": "array", "maxItems": 4000, "items": {"type": "string", "maxLength": 4000}}, "maxItems": 4000})",
       "more than"},
      {"false", "a schema is an object"},
      {"5", "a schema is an object"},
  };
  for (auto [schema, why] : cases)
    try {
      GrammarStates states(schemaGrammar(boundedJson(schema)));
      ADD_FAILURE() << schema;
    } catch (const Failure &failure) {
      EXPECT_THAT(failure.what(), testing::HasSubstr(why)) << schema;
    }
}

/// Breaks if an expression takes a string that the library of C++ doesn't find it in, or the other
/// way round.
TEST(JsonSchema, PatternsMeanWhatTheLibrarysDo) {
  const std::vector<std::string> patterns = {"^a*$",
                                             "b",
                                             "^(a|bc)+$",
                                             "^[^ab]$",
                                             "^a{2,3}?b{0}c{1,}$",
                                             "^(?:ab|a)b?$",
                                             R"(^\w\W?\d$)",
                                             R"(^.\.$)",
                                             "a$|^c",
                                             "^a|b$",
                                             R"(^[\x61-b\-]+$)",
                                             "^(a(b(c)?)?)?$",
                                             "^(a?b?)*$",
                                             "^(a*)*$",
                                             "^(ab|)+$",
                                             "^(a*|b){2,}c$",
                                             "^((a*)+b?){2,3}$",
                                             "(a?){3}$"};
  std::vector<std::string> texts = {""};
  for (size_t i = 0; i < texts.size() && texts[i].size() < 4; ++i)
    for (char letter : {'a', 'b', 'c', '1', '.', '-'})
      texts.push_back(texts[i] + letter);
  for (const std::string &pattern : patterns) {
    GrammarStates states(schemaGrammar({{"type", "string"}, {"pattern", pattern}}));
    std::regex library(pattern);
    for (const std::string &text : texts)
      ASSERT_EQ(takes(states, '"' + text + '"'), std::regex_search(text, library))
          << pattern << " " << text;
  }
}

/// Breaks if a bound's digits part from another's at the wrong place.
TEST(JsonSchema, IntegersAreThoseOfTheRange) {
  std::mt19937 random(5);
  for (int i = 0; i < 60; ++i) {
    int64_t a = int64_t(random() % 3000) - 1500, b = int64_t(random() % 3000) - 1500;
    auto [least, most] = std::minmax(a, b);
    GrammarStates states(
        schemaGrammar({{"type", "integer"}, {"minimum", least}, {"maximum", most}}));
    for (int64_t number = -1600; number <= 1600; ++number)
      ASSERT_EQ(takes(states, std::to_string(number)), number >= least && number <= most)
          << least << " " << most << " " << number;
  }
}

TEST(JsonSchema, ReferencesAreNotDeeperThanTheStack) {
  Json schema = {{"$ref", "#/$defs/a0"}};
  for (int i = 0; i < 1000; ++i) {
    Json inside = i == 999 ? Json(true) : Json{{"$ref", fmt::format("#/$defs/a{}", i + 1)}};
    for (int j = 0; j < 25; ++j)
      inside = {{"anyOf", Json::array({std::move(inside)})}};
    schema["$defs"][fmt::format("a{}", i)] = std::move(inside);
  }
  EXPECT_THROW(schemaGrammar(schema), Failure);
}

/// Tokens of letters, among them parts of a character.
Tokenizer vocabulary(std::mt19937 &random, size_t count) {
  const std::vector<std::string> letters = {"a", "b", "c", "\xc3\x83", "\xc2\xa9"}; // A3, A9
  GgufWriter w;
  w.start(0, 4);
  w.text("tokenizer.ggml.model").number(uint32_t(8)).text("gpt2");
  w.text("tokenizer.ggml.pre").number(uint32_t(8)).text("gpt-2");
  w.text("tokenizer.ggml.eos_token_id").number(uint32_t(4)).number(uint32_t(0));
  w.text("tokenizer.ggml.tokens").number(uint32_t(9)).number(uint32_t(8)).number(uint64_t(count));
  for (size_t i = 0; i < count; ++i) {
    std::string text;
    for (size_t j = 0; j < 1 + random() % 4; ++j)
      text += letters[random() % letters.size()];
    w.text(text);
  }
  std::string bytes = w.data(0).bytes;
  return Tokenizer::of(GgufFile::read(std::as_bytes(std::span(bytes)), nullptr, "test.gguf"));
}

TEST(TokenGrammar, AllowsWhatTryingEachTokenDoes) {
  std::mt19937 random(7);
  for (int i = 0; i < 40; ++i) {
    Tokenizer tokenizer = vocabulary(random, 60);
    std::string text = "root ::= (" + drawn(random, 3).gbnf() + " | \"\xc3\xa9\")*";
    Grammar grammar = parseGbnf(text);
    GrammarStates states(grammar);
    TokenGrammar masks(std::make_shared<TokenBytes>(tokenizer), grammar);
    TokenGrammar::State state = masks.start();
    GrammarStates::State own = states.start();
    for (int step = 0; step < 10; ++step) {
      std::vector<Token> want;
      for (size_t t = 0; t < tokenizer.size(); ++t) {
        GrammarStates::State next = own;
        for (char byte : tokenizer.bytesOf(Token(t)))
          next = states.next(next, uint8_t(byte));
        if (next != GrammarStates::kNowhere && !tokenizer.ends(Token(t)))
          want.push_back(Token(t));
      }
      ASSERT_EQ(masks.allowed(state), want) << text;
      if (want.empty())
        break;
      std::string bytes = tokenizer.bytesOf(want[random() % want.size()]);
      state = masks.next(state, bytes);
      for (char byte : bytes)
        own = states.next(own, uint8_t(byte));
    }
  }
}

} // namespace
} // namespace tensmith::generation
