// The model of machines that compute with vectors; see CostModel.h.
//
// Its numbers were measured on kernels of the kind that they stand for, on CPUs with vectors of
// 256 and 512 bits; what differs among such machines (lanes, registers, bytes in a cycle, caches)
// is data of the machine. An estimate errs by some ten percent, so whoever compares two of them by
// it asks for a clear difference.
#include "compiler/kernel/CostModel.h"

#include <algorithm>
#include <cmath>

namespace tensmith::kernel {
namespace {

constexpr double kVectorsPerCycle = 2; // that are multiplied and added, or else computed with
/// Of packed products, against the peak; and of those of planes.
constexpr double kEfficiency = 0.9, kEfficiencyOfPlanes = 0.7;
/// Products of a vector of pairs, against those of one of floats: twice as many, and an addition
/// beside each.
constexpr double kPairs = 1.5;

/// What each of several cores gets of the memory's bandwidth, or less.
constexpr double kPartOfMemory = 0.5;
/// A transposition's cycles against those of the traffic alone.
constexpr double kTransposition = 2;

// Of kernels as they come, large and small: a call, and what products reach of the peak.
constexpr double kCall = 2000, kReachedOfPeak = 0.7, kCyclesOfElement = 2;
// Of the evaluator, which computes in doubles: of convolutions, pools and resizing.
constexpr double kCyclesOfReference = 8, kCyclesOfReferenceElement = 30;

// A vector of elements at one position of a window.
constexpr double kTogether = 2, kApart = 4, kGathered = 10;
// Of a vector of a depthwise convolution: by its kernel, and where each element is computed alone.
constexpr double kCyclesOfTap = 0.6, kCyclesOfLoopedTap = 40;
/// Which products of pairs of few channels don't hide.
constexpr double kCyclesOfPixel = 8;

// Of minimal filtering: registers of a transform beside its elements, and pages of the first-level
// TLB, and beyond.
constexpr double kTemporaries = 4, kPagesAtHand = 48, kCyclesOfPage = 3;
// Of Fourier transforms, in which additions and multiplications are done side by side: operations
// in a cycle, and accesses to the first-level cache, and beyond it.
constexpr double kTransformedPerCycle = 3, kCyclesOfNearAccess = 0.85, kCyclesOfAccess = 1.1;
// Of planes, which are written in one order and read in another, so that what a machine streams
// says little of them: a vector that the second-level cache holds no more, and one that the last
// cache doesn't, where planes are written one vector each, and where products go over one after the
// other; and one that is packed. Fitted to some 900 passes of convolutions on a Zen 4
// (bench/fourier --grid).
constexpr double kSpreadFar = 3.1, kSpreadInMemory = 8.8;
constexpr double kPlaneFar = 4, kPlaneInMemory = 11.2, kPackedVector = 2.8;
/// Planes that lie a power of two apart share sets of the caches: from this one on, each larger
/// one, up to some, costs a part more.
constexpr int64_t kLeastShared = 1024;
constexpr double kMostShared = 4, kOfShared = 1.0 / 3;

// Of what is copied from under a window.
constexpr double kCyclesOfRun = 8, kCyclesOfCopied = 1.6;

// Of the time that images of a chain take to be written to memory and read, what isn't hidden
// behind arithmetic; and of the arithmetic's time, what is lost by doing it a few lines at a time.
constexpr double kNotHidden = 0.5, kLost = 0.1;

/// Of so many bytes, the part that a cache has no more when they are used again; half of it is for
/// what else is used.
double partBeyond(double bytes, int64_t cache) {
  double most = double(cache) / 2;
  return bytes > most ? 1 - most / bytes : 0;
}

} // namespace

double CostModel::cyclesOf(const Machine &machine, const Products &products) const {
  double weights = products.batch * products.depth * products.columns;
  double perLane = products.perLane * (products.ofPairs ? kPairs : 1);
  double rate = multiplyAddsPerCycle(machine, perLane) *
                (products.ofPlanes ? kEfficiencyOfPlanes : kEfficiency);
  return std::max(weights * products.rows / rate,
                  weights * products.weightBytes / products.weightRate);
}

double CostModel::cyclesOf(const Machine &machine, const Traffic &traffic) const {
  switch (traffic.from) {
  case Traffic::From::Use:
    return traffic.bytes / (traffic.bytes / 2 < double(machine.l2Bytes) ? machine.nearBytesPerCycle
                                                                        : machine.farBytesPerCycle);
  case Traffic::From::SecondCache:
    return traffic.bytes / machine.nearBytesPerCycle;
  case Traffic::From::Memory:
    return traffic.bytes / machine.memoryBytesPerCycle;
  case Traffic::From::SharedMemory:
    return traffic.bytes / (machine.memoryBytesPerCycle * kPartOfMemory);
  }
  return 0;
}

double CostModel::cyclesOf(const Machine &machine, const Transposition &transposition) const {
  return kTransposition * cyclesOf(machine, Traffic{2 * transposition.bytes});
}

double CostModel::cyclesOf(const Machine &machine, const KernelWork &work) const {
  if (work.kind == KernelWork::Kind::Reference)
    return work.operations * kCyclesOfReference +
           work.bytes / sizeof(float) * kCyclesOfReferenceElement;
  double arithmetic =
      work.kind == KernelWork::Kind::Products
          ? work.operations / (2 * multiplyAddsPerCycle(machine, 1) * kReachedOfPeak)
          : work.operations * kCyclesOfElement / double(machine.lanes(sizeof(float)));
  return kCall + std::max(arithmetic, work.bytes / machine.farBytesPerCycle);
}

double CostModel::cyclesOf(const Machine &, const Windows &windows) const {
  switch (windows.access) {
  case Windows::Access::Together:
    return windows.vectors * kTogether;
  case Windows::Access::Apart:
    return windows.vectors * kApart;
  case Windows::Access::Gathered:
    return windows.vectors * kGathered;
  case Windows::Access::Depthwise:
    return windows.vectors * kCyclesOfTap;
  case Windows::Access::Looped:
    return windows.vectors * kCyclesOfLoopedTap;
  }
  return 0;
}

double CostModel::cyclesOf(const Machine &, const PixelSearch &search) const {
  return search.pixels * kCyclesOfPixel;
}

/// A load or store for each element, a store and a load of those that the registers don't hold
/// beside a row, and two multiplications by a matrix of which about a third are zeros.
double CostModel::cyclesOf(const Machine &machine, const TileTransform &transform) const {
  double size = transform.size, planes = size * size;
  double held = std::max(double(machine.vectorRegisters) - size - kTemporaries, 0.0);
  double accesses = planes + 2 * std::max(planes - held, 0.0);
  accesses += planes > kPagesAtHand ? kCyclesOfPage * planes : 0;
  return accesses + planes * 2 * size * 2 / 3 / kVectorsPerCycle;
}

double CostModel::cyclesOf(const Machine &machine, const VectorWork &work) const {
  bool isNear = work.bytes <= double(machine.l1Bytes);
  return (isNear ? kCyclesOfNearAccess : kCyclesOfAccess) * work.accesses +
         work.operations / kTransformedPerCycle;
}

double CostModel::cyclesOf(const Machine &machine, const PlaneAccess &access) const {
  double powers = std::log2(double(access.stride & -access.stride) / double(kLeastShared)) + 1;
  double shared = 1 + kOfShared * std::clamp(powers, 0.0, kMostShared);
  return access.vectors * (kSpreadFar * shared * partBeyond(access.bytes, machine.l2Bytes) +
                           kSpreadInMemory * partBeyond(access.bytes, machine.lastCacheBytes));
}

double CostModel::cyclesOf(const Machine &machine, const PlaneTraffic &traffic) const {
  return traffic.bytes / double(machine.vectorBytes) *
         (kPlaneFar * partBeyond(traffic.bytes, machine.l2Bytes) +
          kPlaneInMemory * partBeyond(traffic.bytes, machine.lastCacheBytes) +
          (traffic.packed ? kPackedVector : 0));
}

double CostModel::cyclesOf(const Machine &, const RunCopies &copies) const {
  return kCyclesOfRun * copies.runs + kCyclesOfCopied * copies.elements;
}

double CostModel::saved(const Machine &machine, const Chain &chain) const {
  // Images that the last cache holds come from there as fast as they are needed.
  if (staysCached(chain.imageBytes + chain.endBytes, machine))
    return -1;
  double images = cyclesOf(machine, Traffic{2 * chain.imageBytes, Traffic::From::Memory});
  double cycles = chain.arithmetic;
  // Each band reads all weights.
  if (chain.weightBytes > double(machine.l2Bytes / 4))
    cycles += (chain.bands - 1) * chain.weightBytes / machine.farBytesPerCycle / kLost;
  return kNotHidden * images - kLost * cycles;
}

double multiplyAddsPerCycle(const Machine &machine, double perLane) {
  return kVectorsPerCycle * double(machine.lanes(sizeof(float))) * perLane;
}

bool staysCached(double bytes, const Machine &machine) {
  return bytes <= double(machine.lastCacheBytes / 2);
}

double weightRate(double bytes, const Machine &machine) {
  return staysCached(bytes, machine) ? machine.farBytesPerCycle : machine.memoryBytesPerCycle;
}

const CostModel &vectorCosts() {
  static const CostModel kCosts;
  return kCosts;
}

} // namespace tensmith::kernel
