// Listed by the first factor's divisors, and the rest of the size in the parts behind it; see
// Factorisations.h.
#include "base/Factorisations.h"

namespace tensmith {
namespace {

constexpr int64_t kGroup = kMostFactor + 1;

void listFrom(int64_t size, size_t parts, Factors &before, std::vector<Factors> &all) {
  if (parts == 1) {
    all.push_back(before);
    all.back().push_back(size);
    return;
  }
  for (int64_t factor = size; factor >= 1; --factor)
    if (size % factor == 0) {
      before.push_back(factor);
      listFrom(size / factor, parts - 1, before, all);
      before.pop_back();
    }
}

std::vector<int64_t> primesOf(int64_t size) {
  std::vector<int64_t> primes;
  for (int64_t prime = 2; prime * prime <= size; ++prime)
    if (size % prime == 0) {
      primes.push_back(prime);
      while (size % prime == 0)
        size /= prime;
    }
  if (size > 1)
    primes.push_back(size);
  return primes;
}

} // namespace

std::vector<Factors> factorisations(int64_t size, size_t parts) {
  std::vector<Factors> all;
  Factors before;
  listFrom(size, parts, before, all);
  return all;
}

int64_t numberOf(const Factors &factors) {
  int64_t number = 0;
  for (size_t part = 1; part < factors.size(); ++part)
    number = number * kGroup + factors[part];
  return number;
}

Factors factorsBehindFirst(int64_t number, size_t parts) {
  Factors factors(parts - 1);
  for (size_t part = parts - 1; part-- > 0; number /= kGroup)
    factors[part] = number % kGroup;
  return factors;
}

std::optional<Factors> factorsOf(int64_t number, int64_t size, size_t parts) {
  Factors factors = factorsBehindFirst(number, parts);
  for (int64_t each : factors) {
    if (each < 1 || size % each != 0)
      return std::nullopt;
    size /= each;
  }
  factors.insert(factors.begin(), size);
  return numberOf(factors) == number ? std::optional(factors) : std::nullopt;
}

std::vector<Factors> neighboursOf(const Factors &factors) {
  std::vector<Factors> all;
  for (size_t from = 0; from < factors.size(); ++from)
    for (int64_t prime : primesOf(factors[from]))
      for (size_t to = 0; to < factors.size(); ++to)
        if (to != from) {
          all.push_back(factors);
          all.back()[from] /= prime;
          all.back()[to] *= prime;
        }
  return all;
}

} // namespace tensmith
