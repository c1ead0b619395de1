// Changes to a text, token by token; see TextMutator.h.
#include "tests/fuzz/TextMutator.h"

#include "tests/fuzz/Draw.h"

#include "llvm/ADT/StringExtras.h"

#include <cstring>

namespace tensmith::fuzz {
namespace {

bool isWord(char c) {
  return llvm::isAlnum(c) || c == '_' || c == '.' || c == '%' || c == '#' || c == '@' || c == '!';
}

/// Words, numbers, and each other character by itself: joined, they are the text again.
Pieces tokens(llvm::StringRef text) {
  Pieces result;
  while (!text.empty()) {
    size_t size = text.take_while(isWord).size();
    result.push_back(text.take_front(std::max<size_t>(size, 1)).str());
    text = text.drop_front(result.back().size());
  }
  return result;
}

Pieces lines(llvm::StringRef text) {
  Pieces result;
  while (!text.empty()) {
    size_t end = text.find('\n');
    result.push_back(text.take_front(end == text.npos ? end : end + 1).str());
    text = text.drop_front(result.back().size());
  }
  return result;
}

template <typename List> std::string joined(const List &pieces) {
  std::string text;
  for (const std::string &piece : pieces)
    text += piece;
  return text;
}

/// Tensor types' dimensions and element types are one word: "2x3xf32".
std::string changedWord(std::string word, const Vocabulary &words, Draw &draw) {
  size_t cross = word.rfind('x');
  if (llvm::isDigit(word[0]) && cross != word.npos && draw.oneIn(2))
    return word.substr(0, cross + 1) + draw.among(words.types);
  if (llvm::isDigit(word[0])) {
    size_t end = word.find_first_not_of("0123456789");
    return std::to_string(draw.integer()) + (end == word.npos ? "" : word.substr(end));
  }
  return draw.among(words.types);
}

void changeToken(Pieces &pieces, const Vocabulary &words, Draw &draw) {
  size_t at = draw.below(pieces.size());
  for (size_t tries = 0; tries < pieces.size() && !isWord(pieces[at][0]); ++tries)
    at = (at + 1) % pieces.size();
  std::string &piece = pieces[at];
  bool isOperator = llvm::is_contained(words.operators, piece);
  if (isOperator && draw.oneIn(2)) {
    piece = draw.among(words.operators);
    return;
  }
  if (draw.oneIn(3)) {
    piece = changedWord(piece, words, draw);
    return;
  }
  // Another word of its kind.
  Pieces alike;
  for (const std::string &other : pieces)
    if (isWord(other[0]) &&
        (other[0] == piece[0] || llvm::isDigit(other[0]) == llvm::isDigit(piece[0])))
      alike.push_back(other);
  if (!alike.empty())
    piece = draw.among(alike);
}

void changeLine(Pieces &pieces, const Pieces &source, Draw &draw) {
  size_t at = draw.below(pieces.size());
  switch (draw.below(3)) {
  case 0:
    pieces.erase(pieces.begin() + long(at));
    return;
  case 1:
    return std::swap(pieces[at], draw.among(pieces));
  default:
    pieces.insert(pieces.begin() + long(at), draw.among(source));
  }
}

std::string mutated(std::string text, const Vocabulary &words, Draw &draw) {
  if (text.empty())
    return words.shortest;
  if (draw.oneIn(4)) {
    Pieces pieces = lines(text);
    changeLine(pieces, Pieces(pieces), draw);
    return joined(pieces);
  }
  Pieces pieces = tokens(text);
  if (draw.oneIn(12)) {
    size_t at = draw.below(pieces.size());
    draw.oneIn(2) ? void(pieces.erase(pieces.begin() + long(at)))
                  : void(pieces.insert(pieces.begin() + long(at), std::string(draw.among(pieces))));
    return joined(pieces);
  }
  changeToken(pieces, words, draw);
  return joined(pieces);
}

size_t store(const std::string &text, uint8_t *data, size_t size, size_t maxSize) {
  if (text.size() > maxSize)
    return size;
  std::memcpy(data, text.data(), text.size());
  return text.size();
}

std::string textOf(const uint8_t *data, size_t size) {
  return {reinterpret_cast<const char *>(data), size};
}

} // namespace
} // namespace tensmith::fuzz

using namespace tensmith::fuzz;

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize,
                                          unsigned int seed) {
  Draw draw(seed);
  if (draw.oneIn(50))
    return LLVMFuzzerMutate(data, size, maxSize);
  std::string text = textOf(data, size);
  for (uint64_t count = draw.below(4); count < 4; ++count)
    text = mutated(std::move(text), vocabulary(), draw);
  return store(text, data, size, maxSize);
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t *first, size_t firstSize,
                                            const uint8_t *second, size_t secondSize, uint8_t *out,
                                            size_t maxSize, unsigned int seed) {
  Draw draw(seed);
  Pieces pieces = lines(textOf(first, firstSize)), source = lines(textOf(second, secondSize));
  if (pieces.empty() || source.empty())
    return 0;
  for (uint64_t count = draw.below(4); count < 4 && !pieces.empty(); ++count)
    changeLine(pieces, source, draw);
  return store(joined(pieces), out, 0, maxSize);
}
