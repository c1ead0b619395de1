// Reference evaluation of bit_pack and bit_conv: planes are taken apart into numbers, and those are
// multiplied one by one in 64 bits. So nothing of it is an algorithm on bits.
#include "reference/Bits.h"

#include "reference/Workspace.h"

#include <algorithm>

namespace tensmith::reference {
namespace {

DataType wordOf(int64_t bits) {
  switch (bits) {
  case 8:
    return DataType::U8;
  case 16:
    return DataType::U16;
  case 32:
    return DataType::U32;
  case 64:
    return DataType::U64;
  default:
    return DataType::Undefined;
  }
}

int64_t elementsOf(std::span<const int64_t> shape) {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

/// A tensor of words seen as [before, planes, between, words, after].
struct Planes {
  const HostTensor &words;
  int64_t planes, between, count, after;
  int64_t factor, offset;

  /// The number behind bit `bit` of the words at that place.
  int64_t number(int64_t before, int64_t at, int64_t bit, int64_t last) const {
    const int64_t wide = 8 * byteSize(words.type());
    uint64_t code = 0;
    for (int64_t plane = 0; plane < planes; ++plane) {
      int64_t index = (before * planes + plane) * between + at;
      index = (index * count + bit / wide) * after + last;
      code |= (uint64_t(words.getInt(index)) >> (bit % wide) & 1) << plane;
    }
    return factor * int64_t(code) - offset;
  }
};

struct Convolution {
  Shape image, kernel, out;
  std::vector<int64_t> strides, pads, dilations;
  int64_t images = 0, groups = 0, blocks = 0, width = 0, channels = 0, filters = 0;

  size_t spatial() const { return kernel.size(); }
  /// The pixel that the window of an element reads at `tap`; negative outside.
  int64_t pixel(std::span<const int64_t> at, std::span<const int64_t> tap) const {
    int64_t number = 0;
    for (size_t axis = 0; axis < spatial(); ++axis) {
      int64_t index = at[axis] * strides[axis] - pads[axis] + tap[axis] * dilations[axis];
      if (index < 0 || index >= image[axis])
        return -1;
      number = number * image[axis] + index;
    }
    return number;
  }
};

bool areWithin(std::span<const int64_t> values, int64_t least) {
  return std::ranges::all_of(values,
                             [&](int64_t one) { return one >= least && one <= kLargestExtent; });
}

Convolution convolutionOf(Workspace &workspace, const Invocation &invocation, const HostTensor &x,
                          const HostTensor &w) {
  const Attributes &attributes = invocation.attributes;
  const Shape &of = x.shape(), &by = w.shape();
  Convolution c;
  c.strides = attributes.integers("strides");
  c.pads = attributes.integers("pads");
  c.dilations = attributes.integers("dilations");
  const size_t spatial = of.size() - 4;
  workspace.require(c.strides.size() == spatial && c.dilations.size() == spatial &&
                        c.pads.size() == 2 * spatial && areWithin(c.strides, 1) &&
                        areWithin(c.dilations, 1) && areWithin(c.pads, 0),
                    "x", "needs positive strides and dilations, and pads, for its dimensions");
  c.images = of[0];
  c.image.assign(of.begin() + 1, of.end() - 3);
  c.groups = by[0];
  c.blocks = by[1];
  c.kernel.assign(by.begin() + 3, by.end() - 2);
  c.width = by.back();
  c.channels = attributes.integer("channels");
  c.filters = attributes.integer("filters");
  const int64_t wide = 8 * byteSize(x.type()), words = of.back();
  workspace.require(of[spatial + 1] == c.groups && by[by.size() - 2] == words && c.channels > 0 &&
                        c.channels <= words * wide && c.filters > 0 &&
                        c.filters <= c.blocks * c.width && of[spatial + 2] <= 8 && by[2] <= 8,
                    "w", "has not the groups, words, channels and filters of x");
  for (size_t axis = 0; workspace.ok() && axis < spatial; ++axis) {
    const int64_t reach = (c.kernel[axis] - 1) * c.dilations[axis] + 1;
    const int64_t room = c.image[axis] + c.pads[axis] + c.pads[spatial + axis] - reach;
    workspace.require(c.kernel[axis] > 0 && room >= 0, "x", "is smaller than the window");
    c.out.push_back(room / c.strides[axis] + 1);
  }
  return c;
}

} // namespace

Outcome evaluateBitPack(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.operand(0, "x");
  const int64_t axis = invocation.attributes.integer("axis"),
                planes = invocation.attributes.integer("planes"),
                bits = invocation.attributes.integer("bits"),
                word = invocation.attributes.integer("word", 64);
  workspace.require((x.type() == DataType::U8 || x.type() == DataType::I8) && bits >= 1 &&
                        bits <= 8 && wordOf(word) != DataType::Undefined && axis >= 0 &&
                        axis < x.rank() && planes >= 0 && planes <= x.rank(),
                    "x", "must be of 8 bits, with such an axis, planes and words");
  if (!workspace.ok())
    return workspace.status();
  Shape packed = x.shape();
  const int64_t size = packed[size_t(axis)], words = (size + word - 1) / word;
  packed[size_t(axis)] = words;
  Shape shape = packed;
  shape.insert(shape.begin() + planes, bits);
  HostTensor y = workspace.allocate(wordOf(word), shape);
  if (!workspace.ok() || x.size() == 0)
    return workspace.ok() ? workspace.finish(std::move(y)) : Outcome(workspace.status());
  const int64_t after = elementsOf(std::span(packed).subspan(size_t(axis) + 1));
  // Elements of the result behind a plane's number.
  const int64_t behind = elementsOf(std::span(packed).subspan(size_t(planes)));
  for (int64_t index = 0; index < x.size(); ++index) {
    const int64_t last = index % after, at = index / after % size, before = index / after / size;
    const int64_t to = (before * words + at / word) * after + last;
    for (int64_t plane = 0; plane < bits; ++plane) {
      const int64_t place = (to / behind * bits + plane) * behind + to % behind;
      const uint64_t bit = uint64_t(x.getInt(index)) >> plane & 1;
      y.setInt(place, int64_t(uint64_t(y.getInt(place)) | bit << (at % word)));
    }
  }
  return workspace.finish(std::move(y));
}

Outcome evaluateBitConv(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.operand(0, "x"), &w = workspace.operand(1, "w");
  workspace.require(x.rank() >= 4 && w.rank() == x.rank() + 1 && x.type() == w.type() &&
                        wordOf(8 * byteSize(x.type())) == x.type(),
                    "x", "and w must be words of one type, w with a dimension more");
  if (!workspace.ok())
    return workspace.status();
  Convolution c = convolutionOf(workspace, invocation, x, w);
  if (!workspace.ok())
    return workspace.status();
  Shape shape{c.images};
  shape.insert(shape.end(), c.out.begin(), c.out.end());
  shape.push_back(c.groups * c.filters);
  HostTensor y = workspace.allocate(DataType::I32, shape);
  if (!workspace.ok() || y.size() == 0)
    return workspace.ok() ? workspace.finish(std::move(y)) : Outcome(workspace.status());
  const Attributes &attributes = invocation.attributes;
  const int64_t pixels = elementsOf(c.image), taps = elementsOf(c.kernel);
  const Planes left{x,
                    x.shape()[c.spatial() + 2],
                    1,
                    x.shape().back(),
                    1,
                    attributes.integer("x_factor", 1),
                    attributes.integer("x_offset")};
  const Planes right{w,
                     w.shape()[2],
                     taps,
                     x.shape().back(),
                     c.width,
                     attributes.integer("w_factor", 1),
                     attributes.integer("w_offset")};
  // Numbers of filters by [group, filter, tap, channel].
  std::span<int64_t> filters = workspace.zeros<int64_t>({c.groups, c.filters, taps, c.channels});
  std::span<int64_t> pixel = workspace.zeros<int64_t>({c.channels});
  std::span<int64_t> sums = workspace.zeros<int64_t>({c.filters});
  if (!workspace.ok())
    return workspace.status();
  size_t next = 0;
  for (int64_t group = 0; group < c.groups; ++group)
    for (int64_t f = 0; f < c.filters; ++f)
      for (int64_t tap = 0; tap < taps; ++tap)
        for (int64_t channel = 0; channel < c.channels; ++channel)
          filters[next++] = right.number(group * c.blocks + f / c.width, tap, channel, f % c.width);
  int64_t to = 0;
  for (int64_t n = 0; n < c.images; ++n)
    forEachPosition(c.out, [&](const Shape &at) {
      for (int64_t group = 0; group < c.groups; ++group) {
        std::ranges::fill(sums, 0);
        int64_t tap = 0;
        forEachPosition(c.kernel, [&](const Shape &position) {
          if (int64_t from = c.pixel(at, position); from >= 0) {
            for (int64_t channel = 0; channel < c.channels; ++channel)
              pixel[size_t(channel)] =
                  left.number((n * pixels + from) * c.groups + group, 0, channel, 0);
            for (int64_t f = 0; f < c.filters; ++f) {
              const int64_t *by =
                  &filters[size_t(((group * c.filters + f) * taps + tap) * c.channels)];
              for (int64_t channel = 0; channel < c.channels; ++channel)
                sums[size_t(f)] += pixel[size_t(channel)] * by[channel];
            }
          }
          ++tap;
        });
        for (int64_t sum : sums)
          y.setInt(to++, sum);
      }
    });
  return workspace.finish(std::move(y));
}

} // namespace tensmith::reference
