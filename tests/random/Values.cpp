// The kinds of values; see Values.h.
#include "tests/random/Values.h"

#include <charconv>
#include <cmath>
#include <limits>

namespace tensmith::random_graphs {
namespace {

double smallReal(Random &random) {
  return random.chance(0.06) ? 0.0 : std::round((random.real() * 4 - 2) * 4096) / 4096;
}

double wideReal(Random &random) {
  return std::ldexp(random.real() * 2 - 1, int(random.integer(-10, 6)));
}

double specialReal(Random &random) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return random.chance(0.7) ? smallReal(random)
                            : random.of({kInfinity, -kInfinity, std::nan(""), 0.0, -0.0, 1.0});
}

double drawReal(Random &random, std::string_view kind) {
  if (kind == "positive")
    return 0.25 + 1.75 * random.real();
  if (kind == "integers")
    return double(random.integer(-8, 8));
  if (kind == "powers")
    return std::ldexp(1, int(random.integer(-4, 2)));
  if (kind == "wide")
    return wideReal(random);
  return kind == "special" ? specialReal(random) : smallReal(random);
}

int64_t drawInteger(Random &random, std::string_view kind, bool isSigned) {
  if (kind == "wide")
    return int64_t(random.next()); // cut to the type
  if (kind == "positive")
    return random.integer(1, 9);
  return isSigned ? random.integer(-9, 9) : random.integer(0, 18);
}

} // namespace

HostTensor drawTensor(DataType type, Shape shape, std::string_view kind, uint64_t seed) {
  HostTensor tensor(type, std::move(shape));
  Random random(seed);
  int64_t bound = 0;
  if (kind.starts_with("index:"))
    std::from_chars(kind.data() + 6, kind.data() + kind.size(), bound);
  for (int64_t i = 0; i < tensor.size(); ++i) {
    if (bound > 0)
      tensor.setInt(i, random.integer(0, bound - 1));
    else if (type == DataType::Bool)
      tensor.setInt(i, random.integer(0, 1));
    else if (isFloat(type))
      tensor.setDouble(i, drawReal(random, kind));
    else
      tensor.setInt(i, drawInteger(random, kind, info(type).kind == TypeClass::Signed));
  }
  return tensor;
}

} // namespace tensmith::random_graphs
