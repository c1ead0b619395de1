// Which tiles there are; see Fourier.h.
#include "base/Fourier.h"

namespace tensmith {

std::optional<FourierTile> FourierTile::of(std::span<const int64_t> tile,
                                           std::span<const int64_t> window) {
  constexpr int64_t kMost = 256; // along a dimension
  if (tile.size() != 2 || window.empty() || window.size() > 2)
    return std::nullopt;
  FourierTile made{.rows = tile[0], .columns = tile[1], .isLine = window.size() == 1};
  if (made.rows < 1 || made.columns < 1 || made.rows > kMost || made.columns > kMost ||
      (made.isLine && std::gcd(made.rows, made.columns) != 1))
    return std::nullopt;
  made.height = made.isLine ? 1 : made.rows;
  made.width = made.isLine ? made.numbers() : made.columns;
  int64_t above = made.isLine ? 1 : window[0], beside = window.back();
  if (above < 1 || beside < 1 || above > made.height || beside > made.width)
    return std::nullopt;
  made.down = made.height - above + 1;
  made.across = made.width - beside + 1;
  return made;
}

} // namespace tensmith
