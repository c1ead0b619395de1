// Building documents, and writing them; see Layout.h.
#include "frontends/text/Layout.h"

namespace tensmith::text {

Doc::Doc(std::string text) {
  if (!text.empty())
    node_ = std::make_shared<Node>(Node{Kind::Text, false, std::move(text), {}});
}

Doc Doc::make(Kind kind, std::vector<std::shared_ptr<const Node>> parts) {
  Doc doc;
  doc.node_ = std::make_shared<Node>();
  doc.node_->kind = kind;
  doc.node_->broken = kind == Kind::HardLine || kind == Kind::BlankLine;
  for (const auto &part : parts)
    doc.node_->broken |= part->broken;
  doc.node_->parts = std::move(parts);
  return doc;
}

Doc Doc::line() { return make(Kind::Line); }
Doc Doc::softLine() { return make(Kind::SoftLine); }
Doc Doc::hardLine() { return make(Kind::HardLine); }
Doc Doc::blankLine() { return make(Kind::BlankLine); }
Doc Doc::group(Doc inner) { return inner.node_ ? make(Kind::Group, {inner.node_}) : inner; }
Doc Doc::nested(Doc inner) { return inner.node_ ? make(Kind::Nested, {inner.node_}) : inner; }

Doc &Doc::operator+=(Doc next) {
  if (!next.node_)
    return *this;
  if (!node_)
    return *this = std::move(next);
  if (node_->kind != Kind::Sequence || node_.use_count() > 1)
    *this = make(Kind::Sequence, {node_});
  node_->broken |= next.node_->broken;
  node_->parts.push_back(next.node_);
  return *this;
}

/// Whether the node on one line, and what follows it up to the next break, is within the room.
bool Doc::fits(const Node *node, std::vector<Item> &rest, size_t room) {
  if (node->broken)
    return false;
  std::vector<Item> stack = {{node, 0, true}};
  size_t behind = rest.size();
  while (true) {
    if (stack.empty()) {
      if (behind == 0)
        return true;
      stack.push_back(rest[--behind]);
    }
    Item item = stack.back();
    stack.pop_back();
    switch (item.node->kind) {
    case Kind::Text:
      if (item.node->text.size() > room)
        return false;
      room -= item.node->text.size();
      break;
    case Kind::Line:
    case Kind::SoftLine:
      if (!item.flat)
        return true;
      if (item.node->kind == Kind::Line && room-- == 0)
        return false;
      break;
    case Kind::HardLine:
    case Kind::BlankLine:
      return true;
    case Kind::Group: // of what follows, which may break
      stack.push_back({item.node->parts[0].get(), item.indent, item.flat});
      break;
    case Kind::Nested:
    case Kind::Sequence:
      for (size_t i = item.node->parts.size(); i-- > 0;)
        stack.push_back({item.node->parts[i].get(), item.indent, item.flat});
    }
  }
}

std::string Doc::layout(int width) const {
  std::string text;
  size_t begin = 0; // of the line
  auto endLine = [&](int indent, bool blank) {
    text.erase(text.find_last_not_of(' ') + 1);
    text += blank ? "\n\n" : "\n";
    begin = text.size();
    text.append(size_t(indent), ' ');
  };
  std::vector<Item> stack;
  if (node_)
    stack.push_back({node_.get(), 0, false});
  while (!stack.empty()) {
    Item item = stack.back();
    stack.pop_back();
    switch (item.node->kind) {
    case Kind::Text:
      text += item.node->text;
      break;
    case Kind::Line:
    case Kind::SoftLine:
      if (!item.flat)
        endLine(item.indent, false);
      else if (item.node->kind == Kind::Line)
        text += ' ';
      break;
    case Kind::HardLine:
    case Kind::BlankLine:
      endLine(item.indent, item.node->kind == Kind::BlankLine);
      break;
    case Kind::Group: {
      size_t used = text.size() - begin;
      bool flat = item.flat || (used <= size_t(width) &&
                                fits(item.node->parts[0].get(), stack, size_t(width) - used));
      stack.push_back({item.node->parts[0].get(), item.indent, flat});
      break;
    }
    case Kind::Nested:
      stack.push_back({item.node->parts[0].get(), item.indent + 2, item.flat});
      break;
    case Kind::Sequence:
      for (size_t i = item.node->parts.size(); i-- > 0;)
        stack.push_back({item.node->parts[i].get(), item.indent, item.flat});
    }
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

} // namespace tensmith::text
