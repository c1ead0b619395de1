// Numbers and labels of plots that are drawn as SVG.
//
// Labels are placed one after the other, each at the first of its places that is free, so that the
// order is their priority. How wide a text is depends on the reader's font; it is taken to be that
// of a wide one, so no two labels overlap in any usual one.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tensmith {

/// A number at an axis: "0.001", "120,000", and "2.5·10⁹" past what is read at a glance.
std::string tickText(double value);

/// A part of the picture, in its units; y grows downwards.
struct Box {
  double left, top, right, bottom;

  bool overlaps(const Box &other) const {
    return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
  }
};

class Labels {
public:
  static constexpr double kFontSize = 12; // what the page's style gives `svg text`

  enum class Anchor { Start, Middle, End };
  /// Of a text: the point that its base line begins at, has its middle or ends at.
  struct Place {
    double x, y;
    Anchor anchor = Anchor::Start;
  };

  Labels(double width, double height) : picture_{0, 0, width, height} {}

  /// Keeps labels from the box where they have another place.
  void avoid(const Box &box) { avoided_.push_back(box); }
  /// Places the text, and says whether it found a place: one within the picture that no other label
  /// is at, if possible away from what is avoided.
  bool write(const std::vector<Place> &places, std::string_view text);
  /// `text` elements.
  const std::string &svg() const { return svg_; }

  static Box boxOf(const Place &place, std::string_view text);

private:
  bool isFree(const Box &box) const;

  Box picture_;
  std::vector<Box> taken_, avoided_;
  std::string svg_;
};

} // namespace tensmith
