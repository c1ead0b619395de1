// Documents that know where they may break, and their best layout in lines of bounded width:
// Wadler's pretty printer ("A prettier printer", 2003), made strict as Lindig did ("Strictly
// Pretty", 2000): a group is written on one line where it fits, else all its breaks are taken.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace tensmith::text {

class Doc {
public:
  Doc() = default;
  Doc(const char *text) : Doc(std::string(text)) {}
  Doc(std::string text);

  /// A space, or nothing, or the end of the line where the group around it breaks.
  static Doc line();
  static Doc softLine();
  /// The end of the line in any case, so that no group around it fits on one.
  static Doc hardLine();
  /// An empty line, where what is around it is broken anyway.
  static Doc blankLine();
  static Doc group(Doc inner);
  static Doc nested(Doc inner);

  Doc &operator+=(Doc next);
  friend Doc operator+(Doc a, Doc b) { return a += std::move(b); }
  bool isEmpty() const { return !node_; }
  /// Whether it has an end of a line in any case.
  bool isBroken() const { return node_ && node_->broken; }

  std::string layout(int width) const;

private:
  enum class Kind : uint8_t { Text, Line, SoftLine, HardLine, BlankLine, Group, Nested, Sequence };
  struct Node {
    Kind kind;
    bool broken = false;
    std::string text;
    std::vector<std::shared_ptr<const Node>> parts;
  };
  struct Item {
    const Node *node;
    int indent;
    bool flat;
  };
  static Doc make(Kind kind, std::vector<std::shared_ptr<const Node>> parts = {});
  static bool fits(const Node *node, std::vector<Item> &rest, size_t room);

  std::shared_ptr<Node> node_; // shared once it is a part of another, and not changed then
};

} // namespace tensmith::text
