// Strings, tables and n-grams, against values worked out from the operators' definitions.
#include "Expectations.h"

namespace tensmith::reference {
namespace {

HostTensor texts(Shape shape, Names values) {
  return HostTensor::ofStrings(std::move(shape), std::move(values));
}

void expectTexts(const std::vector<HostTensor> &results, const Shape &shape, const Names &values) {
  ASSERT_FALSE(results.empty());
  ASSERT_EQ(results[0].type(), DataType::String);
  ASSERT_EQ(results[0].shape(), shape);
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(results[0].getString(int64_t(i)), values[i]) << i;
}

TEST(TextReference, ConcatenatesWithBroadcasting) {
  expectTexts(
      evaluated("string_concat", {texts({2, 1}, {"a", ""}), texts({3}, {"x", "y", "é"})}, {}),
      {2, 3}, {"ax", "ay", "aé", "x", "y", "é"});
  expectFailure("string_concat", {texts({2}, {"a", "b"}), texts({3}, {"a", "b", "c"})}, {},
                StatusCode::InvalidArgument, "broadcast");
  expectFailure("string_concat", {texts({1}, {"a"}), floats({1}, {1})}, {},
                StatusCode::InvalidArgument, "strings");
}

TEST(TextReference, SplitsAtDelimitersAndAtSpace) {
  auto split =
      evaluated("string_split", {texts({2}, {"a,b,,c", ""})}, {{"delimiter", std::string(",")}});
  expectTexts(split, {2, 4}, {"a", "b", "", "c", "", "", "", ""});
  expectIntegers(split, 1, DataType::I64, {2}, {4, 1});
  split = evaluated("string_split", {texts({3}, {"  one two  three ", " \t", "x"})},
                    {{"maxsplit", int64_t(1)}});
  expectTexts(split, {3, 2}, {"one", "two  three ", "", "", "x", ""});
  expectIntegers(split, 1, DataType::I64, {3}, {2, 0, 1});
  split = evaluated("string_split", {texts({0}, {})}, {});
  expectTexts(split, {0, 0}, {});
}

TEST(TextReference, NormalizesBeyondAscii) {
  HostTensor words = texts({3}, {"Ärger", "the", "THE"});
  HostTensor stop = texts({1}, {"the"});
  expectTexts(evaluated("string_normalize", {words, stop}, {{"change", std::string("upper")}}), {1},
              {"ÄRGER"});
  expectTexts(evaluated("string_normalize", {words, stop},
                        {{"change", std::string("lower")}, {"case_sensitive", int64_t(1)}}),
              {2}, {"ärger", "the"});
  expectTexts(evaluated("string_normalize", {texts({1, 1}, {"the"}), stop}, {}), {1, 1}, {""});
  // Bytes that are no UTF-8 are kept.
  expectTexts(
      evaluated("string_normalize", {texts({1}, {"a\xffz"})}, {{"change", std::string("upper")}}),
      {1}, {"A\xffZ"});
  expectFailure("string_normalize", {texts({2, 1}, {"a", "b"})}, {}, StatusCode::InvalidArgument,
                "[1, n]");
}

TEST(TextReference, MatchesWholeStrings) {
  auto results = outcome("regex_full_match", {texts({3}, {"ab12", "ab", "xab12"})},
                         {{"pattern", std::string("[a-z]+[0-9]+")}});
  if (!results.ok() && results.status().code() == StatusCode::Unsupported)
    GTEST_SKIP() << results.status().message();
  ASSERT_TRUE(results.ok()) << results.status().message();
  expectIntegers(*results, 0, DataType::Bool, {3}, {1, 0, 1});
  expectFailure("regex_full_match", {texts({1}, {"a"})}, {{"pattern", std::string("(")}},
                StatusCode::InvalidArgument, "pattern");
}

TEST(TextReference, CountsNgramsAcrossSkips) {
  // Pool: the words 1 and 2; the pairs 1 2 and 2 2.
  HostTensor x = integers(DataType::I64, {2, 4}, {1, 3, 2, 2, 2, 2, 1, 2});
  HostTensor pool = integers(DataType::I64, {6}, {1, 2, 1, 2, 2, 2});
  AttributeList list{{"starts", Integers{0, 2}}, {"columns", Integers{0, 1, 2, 4}},
                     {"least", int64_t(1)},      {"most", int64_t(2)},
                     {"skips", int64_t(1)},      {"mode", std::string("tf")}};
  // Row 0: 1 once, 2 twice; "1 2" apart by one, "2 2" adjacent. Row 1: "2 2" and "1 2" adjacent,
  // and "2 2" apart by one (second and last).
  expectNear(evaluated("count_ngrams", {x, pool}, list), 0, {2, 5}, {1, 2, 1, 0, 1, 1, 3, 1, 0, 2});
  list.back() = {"mode", std::string("idf")};
  list.push_back({"weights", Reals{0.5, 2, 3, 4}});
  expectNear(evaluated("count_ngrams", {x, pool}, list), 0, {2, 5},
             {0.5, 2, 3, 0, 4, 0.5, 2, 3, 0, 4});
  list[0] = {"starts", Integers{0, 3}};
  expectFailure("count_ngrams", {x, pool}, list, StatusCode::InvalidArgument, "starts");
}

TEST(TextReference, LooksUpByValue) {
  HostTensor keys = floats({4}, {1.5f, NAN, 0.f, 1.5f});
  HostTensor values = texts({4}, {"first", "none", "zero", "last"});
  expectTexts(evaluated("look_up",
                        {floats({2, 2}, {1.5f, NAN, -0.f, 7}), keys, values, texts({}, {"other"})},
                        {}),
              {2, 2}, {"last", "none", "zero", "other"});
  expectIntegers(
      evaluated("look_up",
                {texts({2}, {"b", "?"}), texts({2}, {"a", "b"}),
                 integers(DataType::I16, {2}, {10, 20}), integers(DataType::I16, {}, {-1})},
                {}),
      0, DataType::I16, {2}, {20, -1});
}

TEST(TextReference, DecodesPicturesAndRefusesDamagedOnes) {
  // A binary PNM of two pixels, (255, 0, 0) and (1, 2, 3).
  std::string file = "P6 2 1 255\n";
  file += std::string("\xff\0\0\1\2\3", 6);
  auto bytes = [](const std::string &text) {
    HostTensor x(DataType::U8, {int64_t(text.size())});
    std::memcpy(x.mutableData(), text.data(), text.size());
    return x;
  };
  auto results = outcome("decode_image", {bytes(file)}, {});
  if (!results.ok() && results.status().code() == StatusCode::Unsupported)
    GTEST_SKIP() << results.status().message();
  ASSERT_TRUE(results.ok()) << results.status().message();
  expectIntegers(*results, 0, DataType::U8, {1, 2, 3}, {255, 0, 0, 1, 2, 3});
  expectIntegers(evaluated("decode_image", {bytes(file)}, {{"pixels", std::string("bgr")}}), 0,
                 DataType::U8, {1, 2, 3}, {0, 0, 255, 3, 2, 1});
  expectIntegers(evaluated("decode_image", {bytes(file)}, {{"pixels", std::string("grayscale")}}),
                 0, DataType::U8, {1, 2, 1}, {76, 2});
  // Beginnings of files of each format that end there.
  for (std::string start :
       {std::string("P6 2 1 255\n"), std::string("P6 99999 99999 255\n"),
        std::string("\xff\xd8\xff\xe0\0\x10JFIF", 10), std::string("II*\0\x08\0\0\0", 8),
        std::string("RIFF\x10\0\0\0WEBPVP8 ", 16), std::string("\0\0\0\x0cjP  \r\n\x87\n", 12),
        std::string("\xff\x4f\xff\x51\0\x29", 6), std::string("\x89PNG\r\n\x1a\n", 8),
        std::string("nothing"), std::string()}) {
    SCOPED_TRACE(start);
    expectFailure("decode_image", {bytes(start)}, {}, StatusCode::InvalidArgument, "as a picture");
  }
}

} // namespace
} // namespace tensmith::reference
