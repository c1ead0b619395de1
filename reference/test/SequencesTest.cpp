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
  static Item ofMap(Item keys, Item values) {
    return {ValueKind::Map, {}, {std::move(keys), std::move(values)}};
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

/// Fails where a change of a sequence has other elements or sizes than the sequence.
TEST(Sequences, ZerosSumsAndSizesAreOfEachElement) {
  Item x = list({1, 2, 3, 4, 5});
  Item parts = *run("split_to_sequence", {x, list({4, 1})}, {{"axis", int64_t(0)}});
  EXPECT_EQ(numbersOf(run("sequence_zeros", {parts})), (Integers{0, 0, 0, 0, 0}));
  EXPECT_EQ(numbersOf(run("sequence_sum", {parts, parts})), (Integers{2, 4, 6, 8, 10}));
  EXPECT_EQ(numbersOf(run("sequence_sum", {parts, *run("optional_none", {})})),
            (Integers{1, 2, 3, 4, 5}));
  Item sizes = *run("sequence_sizes", {parts}, {{"axis", int64_t(-1)}});
  EXPECT_EQ(sizes.tensor.getInt(0), 4);
  EXPECT_EQ(sizes.tensor.getInt(1), 1);
  EXPECT_FALSE(run("sequence_sum", {parts, sequence(3)}).ok());
  EXPECT_FALSE(run("sequence_sum", {parts, x}).ok());
  EXPECT_FALSE(run("sequence_zeros", {item(HostTensor::ofStrings({1}, {"a"}))}).ok());
  EXPECT_FALSE(run("sequence_sizes", {parts}, {{"axis", int64_t(1)}}).ok());
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

TEST(Sequences, MapsAreInTheOrderOfTheirKeys) {
  Item keys = list({7, -2, 7, 3}),
       x = item(integers(DataType::I32, {2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}));
  auto maps = run("zip_map", {keys, x});
  ASSERT_TRUE(maps.ok()) << maps.status().message();
  ASSERT_EQ(maps->elements.size(), 2u);
  EXPECT_EQ(numbersOf(maps->elements[0]), Integers({-2, 3, 7, 2, 4, 3}));
  auto values = run("map_values", {maps->elements[1]});
  ASSERT_TRUE(values.ok());
  EXPECT_EQ(values->tensor.shape(), Shape({3}));
  EXPECT_EQ(values->tensor.getInt(2), 7);
  EXPECT_EQ(run("map_keys", {maps->elements[1]})->tensor.getInt(0), -2);
}

TEST(Sequences, MapsOfStrings) {
  Item keys = item(HostTensor::ofStrings({2}, {"b", "a"}));
  auto maps = run("zip_map", {keys, item(HostTensor::ofStrings({2}, {"1", "2"}))});
  ASSERT_TRUE(maps.ok()) << maps.status().message();
  ASSERT_EQ(maps->elements.size(), 1u);
  EXPECT_EQ(run("map_keys", {maps->elements[0]})->tensor.getString(0), "a");
  EXPECT_EQ(run("map_values", {maps->elements[0]})->tensor.getString(0), "2");
  // An empty map can't tell what keys it has none of.
  Item empty = ItemAccess::ofMap(list({}), list({}));
  EXPECT_EQ(run("map_keys", {empty}, {{"strings", true}})->tensor.type(), DataType::String);
  EXPECT_EQ(run("map_keys", {empty})->tensor.type(), DataType::I64);
}

TEST(Sequences, RefusesWhatMakesNoMap) {
  struct Case {
    const char *name;
    std::vector<Item> operands;
    const char *said;
  };
  const Case cases[] = {
      {"zip_map", {list({1, 2}), list({1, 2, 3})}, "rows of 3 elements for 2 keys"},
      {"zip_map", {list({}), list({})}, "for 0 keys"},
      {"zip_map", {number(1), list({1})}, "a vector of i64 or strings"},
      {"zip_map", {item(floats({1}, {1})), list({1})}, "a vector of i64 or strings"},
      {"zip_map", {sequence(1), list({1})}, "operand 0 is no tensor"},
      {"map_keys", {list({1})}, "operand 0 is no map"},
      {"map_values", {sequence(2)}, "operand 0 is no map"},
      {"sequence_at", {ItemAccess::ofMap(list({1}), list({2})), number(0)}, "is no sequence"},
  };
  for (const Case &one : cases) {
    auto result = run(one.name, one.operands);
    ASSERT_FALSE(result.ok()) << one.name;
    EXPECT_NE(result.status().message().find(one.said), std::string::npos)
        << result.status().message();
  }
}

} // namespace
} // namespace tensmith::reference
