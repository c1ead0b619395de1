// The cost model of a machine: what work is estimated to take, in cycles of one core.
//
// Who chooses by estimates says what there is to do, as one of the structs below, and adds up what
// the machine's model says of each: rewrites that choose algorithms and layouts, fusion of
// convolutions to chains, the memory budget, placement on devices, warnings of what is slow. So a
// formula that says what an algorithm consists of stands with the algorithm, and a number that was
// measured on a machine stands in the model of it, and nowhere else. Cycles are those of a core
// that multiplies and adds two vectors of f32 in each.
//
// A machine names its model (`Machine::costs`). The class itself is that of machines that compute
// with vectors, whose rates are the machine's data, measured where it was (MachineLimits.h); a
// target whose kernels take their time otherwise overrides what differs.
#pragma once

#include "compiler/kernel/Machine.h"

#include <limits>

namespace tensmith::kernel {

/// `batch` products of [rows, depth] by constants [depth, columns]: the larger of arithmetic and of
/// the time in which constants arrive, since the two overlap.
struct Products {
  double batch, rows, depth, columns;
  double weightBytes = sizeof(float); // of an element
  /// Of numbers of which a lane of floats holds several, the products that an instruction adds up
  /// in it.
  double perLane = 1;
  bool ofPairs = false; // of 16-bit integers, whose sums take an addition beside each product
  /// Bytes in a cycle at which constants arrive (CostModel::weightRate).
  double weightRate = std::numeric_limits<double>::infinity();
  bool ofPlanes = false; // small ones, of operands that the run computes both
};

/// Bytes that are read or written.
struct Traffic {
  enum class From : uint8_t {
    Use,         // where the second half of them, which is read, was written
    SecondCache, // which holds them
    Memory,
    SharedMemory, // of which other cores read as much at the same time
  };
  double bytes;
  From from = From::Use;
};

/// Bytes that are stored again in another order.
struct Transposition {
  double bytes;
};

/// A kernel of so many operations and bytes (Work.h).
struct KernelWork {
  enum class Kind : uint8_t {
    Elements,  // transcendental functions among them
    Products,  // its operations are multiply-adds of these (Template.h)
    Reference, // no kernel: the reference evaluator does it
  };
  double operations, bytes;
  Kind kind = Kind::Elements;
};

/// Vectors that are read from under a window, or multiplied by its taps.
struct Windows {
  enum class Access : uint8_t {
    Together,  // side by side in memory
    Apart,     // a step apart, of windows that don't overlap: taken apart after loading
    Gathered,  // element by element
    Depthwise, // taps of a depthwise convolution, by its kernel
    Looped,    // and where each element is computed for itself
  };
  double vectors;
  Access access = Access::Together;
};

/// To find where a pixel lies under a tap, for each that a product reads.
struct PixelSearch {
  double pixels;
};

/// Of one vector, a tile of size x size, by matrices of minimal filtering (base/ToomCook.h), there
/// or back. Each element of it is in a plane of its own.
struct TileTransform {
  double size;
};

/// Straight code on vectors that lie in so many bytes.
struct VectorWork {
  double operations, accesses;
  double bytes;
};

/// Vectors that are written to planes or read from them, one of each plane in turn. Planes have so
/// many bytes together, and lie `stride` bytes apart.
struct PlaneAccess {
  double vectors;
  double bytes;
  int64_t stride;
};

/// Planes of so many bytes that products read or write, one after the other, and that were all
/// written before, or are all read behind; `packed` ones are stored once more on the way.
struct PlaneTraffic {
  double bytes;
  bool packed = false;
};

/// Runs of elements side by side that are copied to where a product reads them, from under a
/// window.
struct RunCopies {
  double runs, elements;
};

/// Convolutions that one kernel computes a band of lines at a time (ConvChain.h), against one
/// kernel for each.
struct Chain {
  double arithmetic = 0;  // cycles of all multiply-adds at the peak
  double imageBytes = 0;  // between them, which are neither written nor read
  double endBytes = 0;    // that the first reads and the last writes
  double weightBytes = 0; // that each further band reads
  double bands = 1;
};

class CostModel {
public:
  virtual ~CostModel() = default;

  virtual double cyclesOf(const Machine &machine, const Products &products) const;
  virtual double cyclesOf(const Machine &machine, const Traffic &traffic) const;
  virtual double cyclesOf(const Machine &machine, const Transposition &transposition) const;
  virtual double cyclesOf(const Machine &machine, const KernelWork &work) const;
  virtual double cyclesOf(const Machine &machine, const Windows &windows) const;
  virtual double cyclesOf(const Machine &machine, const PixelSearch &search) const;
  virtual double cyclesOf(const Machine &machine, const TileTransform &transform) const;
  virtual double cyclesOf(const Machine &machine, const VectorWork &work) const;
  virtual double cyclesOf(const Machine &machine, const PlaneAccess &access) const;
  virtual double cyclesOf(const Machine &machine, const PlaneTraffic &traffic) const;
  virtual double cyclesOf(const Machine &machine, const RunCopies &copies) const;

  /// What a chain takes less than its convolutions one by one; negative: more.
  virtual double saved(const Machine &machine, const Chain &chain) const;
};

/// By the machine's model.
template <typename Work> double cyclesOf(const Work &work, const Machine &machine) {
  return machine.costs->cyclesOf(machine, work);
}
inline double saved(const Chain &chain, const Machine &machine) {
  return machine.costs->saved(machine, chain);
}

// What a machine's rates say, whatever its model.

/// Multiply-adds in a cycle, at the peak; `perLane` as of Products.
double multiplyAddsPerCycle(const Machine &machine, double perLane = 1);
/// Whether constants or images of so many bytes stay in the last cache from run to run, beside
/// what else needs it.
bool staysCached(double bytes, const Machine &machine);
/// Bytes in a cycle at which constants arrive that are so many bytes together.
double weightRate(double bytes, const Machine &machine);

} // namespace tensmith::kernel
