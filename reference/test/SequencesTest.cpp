// Operators on sequences: the results, and that what contradicts them is refused by name.
#include "reference/Sequences.h"
#include "reference/test/Expectations.h"

namespace tensmith::reference {
namespace {

struct Item {
  ValueKind kind = ValueKind::None;
  HostTensor tensor;
  std::vector<Item> elements;
};

struct ItemAccess {
  using Value = Item;
  static ValueKind kind(const Item &item) { return item.kind; }
  static HostTensor tensor(const Item &item) { return item.tensor; }
  static const std::vector<Item> &elements(const Item &item) { return item.elements; }
  static Result<Item> ofTensor(HostTensor tensor) {
    return Item{ValueKind::Tensor, std::move(tensor), {}};
  }
  static Item ofElements(std::vector<Item> elements) {
    return {ValueKind::Sequence, {}, std::move(elements)};
  }
  static Item none() { return {}; }
};

Item item(HostTensor tensor) { return {ValueKind::Tensor, std::move(tensor), {}}; }
Item number(int64_t value) { return item(integers(DataType::I64, {}, {value})); }
Item list(const Integers &values) {
  return item(integers(DataType::I64, {int64_t(values.size())}, values));
}

Result<Item> run(const char *name, std::vector<Item> operands, const AttributeList &given = {}) {
  Attributes attributes;
  for (const auto &[key, value] : given)
    attributes.set(key, value);
  return SequenceOperators<ItemAccess>::find(name)(operands, attributes);
}

Item sequence(int64_t length) {
  std::vector<Item> elements;
  for (int64_t i = 0; i < length; ++i)
    elements.push_back(number(i));
  return ItemAccess::ofElements(std::move(elements));
}

/// The numbers in a sequence, one after the other.
Integers numbersOf(const Result<Item> &found) {
  Integers numbers;
  EXPECT_TRUE(found.ok()) << found.status().message();
  if (found.ok())
    for (const Item &element : found->elements)
      for (int64_t i = 0; i < element.tensor.size(); ++i)
        numbers.push_back(element.tensor.getInt(i));
  return numbers;
}

TEST(Sequences, PositionsCountFromBothEnds) {
  EXPECT_EQ(run("sequence_at", {sequence(3), number(-1)})->tensor.getInt(0), 2);
  EXPECT_EQ(numbersOf(run("sequence_insert", {sequence(2), number(7), number(-2)})),
            (Integers{7, 0, 1}));
  EXPECT_EQ(numbersOf(run("sequence_insert", {sequence(2), number(7), {}})), (Integers{0, 1, 7}));
  EXPECT_EQ(numbersOf(run("sequence_erase", {sequence(3), {}})), (Integers{0, 1}));
}

TEST(Sequences, SplitAndJoin) {
  Item x = list({1, 2, 3, 4, 5});
  EXPECT_EQ(run("split_to_sequence", {x, number(2)}, {{"axis", int64_t(0)}})->elements.size(), 3u);
  auto pieces = run("split_to_sequence", {x, list({4, 1})}, {{"axis", int64_t(-1)}});
  EXPECT_EQ(numbersOf(pieces), (Integers{1, 2, 3, 4, 5}));
  EXPECT_EQ(run("concat_from_sequence", {*pieces}, {{"axis", int64_t(0)}})->tensor.shape(),
            Shape{5});
  auto rows = run("split_to_sequence", {x, {}}, {{"axis", int64_t(0)}, {"keepdims", int64_t(0)}});
  EXPECT_EQ(rows->elements[0].tensor.rank(), 0);
  auto joined =
      run("concat_from_sequence", {*rows}, {{"axis", int64_t(0)}, {"new_axis", int64_t(1)}});
  EXPECT_EQ(joined->tensor.shape(), Shape{5});
}

TEST(Sequences, StringsAreJoinedAlongAnyDimension) {
  Item pair = item(HostTensor::ofStrings({2, 1}, {"a", "b"}));
  auto joined =
      run("concat_from_sequence", {ItemAccess::ofElements({pair, pair})}, {{"axis", int64_t(1)}});
  ASSERT_TRUE(joined.ok()) << joined.status().message();
  EXPECT_EQ(joined->tensor.getString(1), "a");
  EXPECT_EQ(joined->tensor.getString(2), "b");
}

TEST(Sequences, OptionalsHoldAValueOrNone) {
  Item none = *run("optional_none", {}), some = *run("optional", {number(3)});
  EXPECT_EQ(none.kind, ValueKind::None);
  EXPECT_EQ(run("optional_has_element", {none})->tensor.getInt(0), 0);
  EXPECT_EQ(run("optional_has_element", {some})->tensor.getInt(0), 1);
  EXPECT_EQ(run("optional_get_element", {some})->tensor.getInt(0), 3);
}

TEST(Sequences, ContradictionsAreNamed) {
  Item x = list({1, 2, 3}), odd = item(ramp({2}, 1));
  const AttributeList axis{{"axis", int64_t(0)}};
  const std::tuple<const char *, std::vector<Item>, const char *> cases[] = {
      {"sequence_construct", {x, sequence(1)}, "operand 1 is no tensor"},
      {"sequence_at", {sequence(2), {}}, "no position was given"},
      {"sequence_at", {sequence(2), number(2)}, "position 2 is outside a sequence of 2"},
      {"sequence_at", {sequence(2), number(-3)}, "position -3 is outside"},
      {"sequence_at", {sequence(2), list({0, 1})}, "a position is one integer"},
      {"sequence_at", {sequence(2), odd}, "a position is one integer"},
      {"sequence_at", {x, number(0)}, "operand 0 is no sequence"},
      {"sequence_insert", {sequence(2), sequence(1), {}}, "operand 1 is no tensor"},
      {"sequence_insert", {sequence(2), x, number(3)}, "position 3 is outside"},
      {"sequence_erase", {sequence(0), {}}, "the sequence is empty"},
      {"split_to_sequence", {x, list({1, 1})}, "the parts have 2 of 3 elements"},
      {"split_to_sequence", {x, list({4, -1})}, "a part has no valid length"},
      {"split_to_sequence", {x, number(0)}, "length must be positive"},
      {"split_to_sequence", {x, odd}, "splits by one integer"},
      {"split_to_sequence", {number(1), {}}, "axis 0 is outside of 0 dimensions"},
      {"concat_from_sequence", {sequence(0)}, "the sequence is empty"},
      {"concat_from_sequence", {sequence(2)}, "axis 0 is outside of 0 dimensions"},
      {"concat_from_sequence", {ItemAccess::ofElements({x, odd})}, "different types"},
      {"optional_get_element", {{}}, "is none"},
  };
  for (const auto &[name, operands, message] : cases) {
    auto found = run(name, operands, axis);
    ASSERT_FALSE(found.ok()) << name << ", where: " << message;
    EXPECT_NE(found.status().message().find(message), std::string::npos)
        << name << ": " << found.status().message();
    EXPECT_EQ(found.status().message().find(std::string(name) + ": "), 0u);
  }
}

} // namespace
} // namespace tensmith::reference
