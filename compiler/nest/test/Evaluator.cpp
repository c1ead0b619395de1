// The oracle of the tests: all points of all statements, sorted by their textual time, one after
// the other.
#include "compiler/nest/test/Evaluator.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>

namespace tensmith::nest::test {

using Variables = std::map<std::string, int64_t>;

int64_t evaluate(const Affine &affine, const Variables &variables) {
  int64_t result = affine.constant;
  for (const auto &[name, factor] : affine.terms)
    result += factor * variables.at(name);
  return result;
}

Environment drawTensors(const Nest &nest, const Variables &parameters, uint64_t seed,
                        int64_t indexBound) {
  Environment result;
  std::mt19937_64 random(seed);
  for (const Tensor &each : nest.tensors) {
    Values own;
    size_t count = 1;
    for (const Affine &extent : each.extents) {
      own.extents.push_back(evaluate(extent, parameters));
      count *= size_t(own.extents.back());
    }
    for (size_t number = 0; number < count; ++number) {
      double least = info(each.type).kind == TypeClass::Unsigned ? 0 : -2;
      double value = each.name == "index" ? double(random() % uint64_t(indexBound))
                                          : double(random() % 5) + least;
      own.elements.push_back(each.role == Tensor::Role::Input ? value : 0);
    }
    result[each.name] = std::move(own);
  }
  return result;
}

namespace {

bool holds(const Constraint &constraint, const Variables &variables) {
  int64_t value = evaluate(constraint.value, variables);
  return constraint.isEquality ? value == 0 : value >= 0;
}

struct Point {
  std::vector<int64_t> time;
  const Statement *statement;
  Variables variables;
};

/// All points of a statement, by bounds of each iterator that are over earlier ones.
class Enumeration {
public:
  Enumeration(const Statement &statement, std::vector<int64_t> position, std::vector<Point> &into)
      : statement_(statement), position_(std::move(position)), into_(into) {}

  void from(Variables variables, size_t depth) {
    if (depth == statement_.iterators.size()) {
      for (const Constraint &each : statement_.domain)
        if (!holds(each, variables))
          return;
      std::vector<int64_t> time{position_[0]};
      for (size_t at = 0; at < depth; ++at) {
        time.push_back(variables.at(statement_.iterators[at]));
        time.push_back(position_[at + 1]);
      }
      into_.push_back({time, &statement_, variables});
      return;
    }
    auto [low, high] = boundsOf(variables, statement_.iterators[depth]);
    for (int64_t value = low; value <= high; ++value) {
      variables[statement_.iterators[depth]] = value;
      from(variables, depth + 1);
    }
  }

private:
  std::pair<int64_t, int64_t> boundsOf(const Variables &variables, const std::string &name) {
    int64_t low = -1000000, high = 1000000;
    for (const Constraint &each : statement_.domain) {
      int64_t factor = each.value.coefficient(name);
      Affine rest = each.value;
      rest.terms.erase(name);
      bool isKnown = std::all_of(rest.terms.begin(), rest.terms.end(),
                                 [&](const auto &term) { return variables.count(term.first); });
      if (factor == 0 || !isKnown)
        continue;
      double edge = -double(evaluate(rest, variables)) / double(factor);
      if (factor > 0 || each.isEquality)
        low = std::max(low, int64_t(std::ceil(edge)));
      if (factor < 0 || each.isEquality)
        high = std::min(high, int64_t(std::floor(edge)));
    }
    if (high - low > 100000)
      throw std::runtime_error("the iterator " + name + " has no bounds over earlier ones");
    return {low, high};
  }

  const Statement &statement_;
  std::vector<int64_t> position_;
  std::vector<Point> &into_;
};

class Machine {
public:
  explicit Machine(Environment &tensors) : tensors_(tensors) {}

  void run(const Point &point) {
    const Statement &statement = *point.statement;
    double value = of(*statement.value, point.variables);
    double &target =
        element(statement.tensor, statement.indices, statement.indices.size(), point.variables);
    switch (statement.reduction) {
    case Reduction::None:
      target = value;
      break;
    case Reduction::Add:
      target += value;
      break;
    case Reduction::Multiply:
      target *= value;
      break;
    case Reduction::Minimum:
      target = std::min(target, value);
      break;
    case Reduction::Maximum:
      target = std::max(target, value);
      break;
    case Reduction::Or:
      target = target != 0 || value != 0;
      break;
    case Reduction::And:
      target = target != 0 && value != 0;
      break;
    }
  }

private:
  double &element(const std::string &name, const std::vector<Expr> &indices, size_t rank,
                  const Variables &variables) {
    Values &tensor = tensors_.at(name);
    int64_t offset = 0;
    for (size_t dim = 0; dim < rank; ++dim) {
      auto index = int64_t(of(*indices[dim], variables));
      if (index < 0 || index >= tensor.extents[dim])
        throw std::runtime_error("an element of " + name + " outside of it");
      offset = offset * tensor.extents[dim] + index;
    }
    return tensor.elements[size_t(offset)];
  }

  double of(const Expression &e, const Variables &variables) {
    auto operand = [&](size_t number) { return of(*e.operands[number], variables); };
    using enum Operation;
    switch (e.operation) {
    case Constant:
      return info(e.type).kind == TypeClass::Float ? e.number : double(e.integer);
    case Index:
      return double(evaluate(e.affine, variables));
    case Load: {
      size_t rank = rankOf(e);
      for (const Constraint &each : e.guard)
        if (!holds(each, variables))
          return operand(rank);
      return element(e.tensor, e.operands, rank, variables);
    }
    case Add:
      return operand(0) + operand(1);
    case Subtract:
      return operand(0) - operand(1);
    case Multiply:
      return operand(0) * operand(1);
    case Divide:
      return operand(0) / operand(1);
    case Minimum:
      return std::min(operand(0), operand(1));
    case Maximum:
      return std::max(operand(0), operand(1));
    case Negate:
      return -operand(0);
    case Exponential:
      return std::exp(operand(0));
    case Equal:
      return operand(0) == operand(1);
    case Less:
      return operand(0) < operand(1);
    case Select:
      return operand(0) != 0 ? operand(1) : operand(2);
    case Cast:
      return operand(0);
    case Check:
      if (operand(1) == 0)
        throw std::runtime_error(e.reports.at(0).message);
      return operand(0);
    default:
      throw std::runtime_error("the oracle has no such operation");
    }
  }

  Environment &tensors_;
};

} // namespace

std::vector<Touched> touchedAt(const Nest &nest, const Statement &statement,
                               const std::vector<int64_t> &point, const Variables &parameters) {
  Variables variables = parameters;
  for (size_t at = 0; at < point.size(); ++at)
    variables[statement.iterators[at]] = point[at];
  std::vector<Touched> result;
  auto touch = [&](const std::string &name, const std::vector<Expr> &indices, size_t rank,
                   bool isWrite) {
    const Tensor &tensor = *nest.tensor(name);
    int64_t element = 0;
    for (size_t dim = 0; dim < rank; ++dim) {
      if (indices[dim]->operation != Operation::Index)
        return;
      int64_t extent = dim < tensor.instances ? 1 << 20 : evaluate(tensor.extents[dim], parameters);
      element = element * extent + evaluate(indices[dim]->affine, variables);
    }
    result.push_back({name, element, isWrite});
  };
  forEachLoad(statement, [&](const Expression &load, size_t rank) {
    touch(load.tensor, load.operands, rank, false);
  });
  touch(statement.tensor, statement.indices, statement.indices.size(), true);
  if (statement.reduction != Reduction::None)
    touch(statement.tensor, statement.indices, statement.indices.size(), false);
  return result;
}

void run(const Nest &nest, const Variables &parameters, Environment &tensors) {
  std::vector<Point> points;
  for (size_t number = 0; number < nest.statements.size(); ++number) {
    const Statement &each = nest.statements[number];
    std::vector<int64_t> position = each.position;
    if (position.empty()) {
      position.assign(each.iterators.size() + 1, 0);
      position[0] = int64_t(number);
    }
    Enumeration(each, position, points).from(parameters, 0);
  }
  std::sort(points.begin(), points.end(),
            [](const Point &a, const Point &b) { return a.time < b.time; });
  Machine machine(tensors);
  for (const Point &each : points)
    machine.run(each);
}

} // namespace tensmith::nest::test
