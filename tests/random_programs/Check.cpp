// Evaluating, compiling, running and comparing; see Check.h.
#include "tests/random_programs/Check.h"

#include "compiler/pipeline/Compile.h"
#include "frontends/text/Evaluator.h"
#include "frontends/text/Import.h"
#include "runtime/Session.h"
#include "tests/random_programs/Generator.h"

#include <cmath>

namespace tensmith::random_programs {
namespace {

constexpr double kNoise = 0x1p-21, kSpread = 8, kRounding = 2e-6;
constexpr int kSamples = 3;
constexpr int64_t kMostSteps = 400'000;
constexpr int64_t kSizes[] = {1, 3, 17}; // that n has

struct Flat {
  std::string shape; // constructors, and types of tensors
  std::vector<HostTensor> tensors;
};

struct Expected {
  Flat result;
  std::vector<std::vector<double>> tolerances;
};

void flatten(const text::Value &value, Flat &flat) {
  if (value.kind == text::Value::Kind::Tensor) {
    flat.shape += std::string(name(value.tensor.type())) + toString(value.tensor.shape()) + ' ';
    flat.tensors.push_back(value.tensor);
  } else if (value.kind == text::Value::Kind::Data) {
    flat.shape += std::to_string(value.tag) + "( ";
    for (const text::ValueRef &field : value.fields)
      flatten(*field, flat);
    flat.shape += ") ";
  } else {
    flat.shape += "function ";
  }
}

void flatten(const runtime::TensorRef &value, Flat &flat) {
  if (value->kind() == runtime::TensorKind::Tensor) {
    flat.shape += std::string(name(value->type())) + toString(value->shape()) + ' ';
    flat.tensors.push_back(runtime::toHostTensor(value));
  } else if (value->kind() == runtime::TensorKind::Data) {
    flat.shape += std::to_string(value->tag()) + "( ";
    for (const runtime::TensorRef &field : value->elements())
      flatten(field, flat);
    flat.shape += ") ";
  } else {
    flat.shape += "function ";
  }
}

std::vector<text::ValueRef> drawInputs(int64_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<text::ValueRef> values;
  for (const Input &input : inputs()) {
    if (input.type.kind == Type::Kind::Data) { // a list of integers
      text::ValueRef list = text::Value::data(0, {});
      for (uint64_t i = random() % 5; i > 0; --i) {
        HostTensor element(DataType::I64, {});
        element.setInt(0, int64_t(random() % 20) - 5);
        list = text::Value::data(1, {text::Value::of(element), list});
      }
      values.push_back(list);
      continue;
    }
    Shape shape;
    for (const std::string &dim : input.type.dims)
      shape.push_back(dim == "n" ? size : std::stoll(dim));
    HostTensor tensor(input.type.isReal()      ? DataType::F32
                      : input.type.isInteger() ? DataType::I64
                                               : DataType::Bool,
                      shape);
    for (int64_t i = 0; i < tensor.size(); ++i)
      if (input.type.isReal())
        tensor.setDouble(i, double(random() % 2001) / 1000 - 1);
      else
        tensor.setInt(i,
                      input.type.isInteger() ? int64_t(random() % 16) - 3 : int64_t(random() % 2));
    values.push_back(text::Value::of(std::move(tensor)));
  }
  return values;
}

Result<runtime::TensorRef> given(const text::Value &value) {
  if (value.kind == text::Value::Kind::Tensor)
    return runtime::fromHostTensor(value.tensor);
  std::vector<runtime::TensorRef> fields;
  for (const text::ValueRef &field : value.fields) {
    auto made = given(*field);
    if (!made.ok())
      return made.status();
    fields.push_back(*made);
  }
  return runtime::Tensor::data(value.tag, std::move(fields));
}

Result<Expected> expectation(text::Program &program, const std::vector<text::ValueRef> &inputs) {
  text::EvaluationOptions options;
  options.steps = kMostSteps;
  auto exact = text::evaluate(program, inputs, options);
  if (!exact.ok())
    return exact.status();
  Expected expected;
  flatten(*(*exact)->fields[0], expected.result);
  for (const HostTensor &tensor : expected.result.tensors)
    expected.tolerances.emplace_back(isFloat(tensor.type()) ? size_t(tensor.size()) : 0);
  options.noise = kNoise;
  for (options.seed = 1; options.seed <= kSamples; ++options.seed) {
    auto moved = text::evaluate(program, inputs, options);
    if (!moved.ok())
      return moved.status();
    Flat flat;
    flatten(*(*moved)->fields[0], flat);
    if (flat.shape != expected.result.shape)
      return Status(StatusCode::Internal, "noise in floats changes what the program does");
    for (size_t t = 0; t < flat.tensors.size(); ++t)
      for (size_t i = 0; i < expected.tolerances[t].size(); ++i) {
        double value = expected.result.tensors[t].getDouble(int64_t(i));
        double off = std::abs(flat.tensors[t].getDouble(int64_t(i)) - value);
        double allowed = kSpread * off + kRounding * std::max(1.0, std::abs(value));
        expected.tolerances[t][i] = std::max(expected.tolerances[t][i], allowed);
      }
  }
  return expected;
}

void compare(const Flat &actual, const Expected &expected, const std::string &where,
             Finding &finding) {
  auto differs = [&](const std::string &text) {
    finding.verdict = Verdict::Differs;
    finding.message = where + ": " + text;
  };
  if (actual.shape != expected.result.shape)
    return differs("is " + actual.shape.substr(0, 200) + ", not " +
                   expected.result.shape.substr(0, 200));
  for (size_t t = 0; t < actual.tensors.size(); ++t) {
    const HostTensor &a = actual.tensors[t], &b = expected.result.tensors[t];
    finding.elements += a.size();
    for (int64_t i = 0; i < a.size(); ++i) {
      bool real = isFloat(a.type());
      double off = real ? std::abs(a.getDouble(i) - b.getDouble(i)) : 0;
      double allowed = real ? expected.tolerances[t][size_t(i)] : 0;
      finding.loose += allowed > 0.01 * std::max(0.01, std::abs(b.getDouble(i)));
      if (real ? !(off <= allowed) && !(std::isnan(a.getDouble(i)) && std::isnan(b.getDouble(i)))
               : a.getInt(i) != b.getInt(i))
        return differs("element " + std::to_string(i) + " of tensor " + std::to_string(t) + " is " +
                       std::to_string(a.getDouble(i)) + ", not " + std::to_string(b.getDouble(i)) +
                       " within " + std::to_string(allowed));
    }
  }
}

std::string prefixOf(uint64_t seed) { return "p" + std::to_string(seed) + "_"; }

/// fn main(...) = (p1_main(...), p2_main(...), 0)
std::string mainOf(const std::vector<uint64_t> &seeds) {
  text::FunctionDecl main;
  main.name = "main";
  main.body = make(Expr::Kind::Tuple, "");
  for (const Input &input : inputs())
    main.params.push_back(parameter(input.name, &input.type));
  for (uint64_t seed : seeds) {
    std::vector<ExprPointer> arguments;
    for (const Input &input : inputs())
      arguments.push_back(name(input.name));
    main.body->parts.push_back(call(name(prefixOf(seed) + "main"), std::move(arguments)));
  }
  main.body->parts.push_back(integer(0));
  text::Module module;
  module.functions.push_back(std::move(main));
  return text::print(module);
}

std::string declarationsOf(uint64_t seed) {
  return text::print(Generator(seed, prefixOf(seed)).run()) + '\n';
}

struct Unit {
  std::vector<uint64_t> seeds;
  std::vector<Finding *> findings;
  std::vector<std::vector<Expected>> expected; // of each program, for each size
  bool optimised = true;
};

Verdict run(Unit &unit, runtime::Session &session, size_t size, std::string &message) {
  std::vector<runtime::TensorRef> inputs, outputs(unit.seeds.size() + 1);
  for (const text::ValueRef &value : drawInputs(kSizes[size], size)) {
    auto made = given(*value);
    if (!made.ok())
      return message = made.status().message(), Verdict::NotRun;
    inputs.push_back(*made);
  }
  if (Status status = session.run(inputs, outputs); !status.ok())
    return message = status.message(), Verdict::NotRun;
  for (size_t i = 0; i < unit.seeds.size(); ++i) {
    Flat flat;
    flatten(outputs[i], flat);
    if (unit.findings[i]->verdict == Verdict::Agrees)
      compare(flat, unit.expected[i][size],
              (unit.optimised ? "n = " : "unoptimised, n = ") + std::to_string(kSizes[size]),
              *unit.findings[i]);
  }
  return Verdict::Agrees;
}

Verdict compileAndRun(mlir::MLIRContext &context, Unit &unit, const CheckOptions &options,
                      std::string &message) {
  std::string text;
  for (uint64_t seed : unit.seeds)
    text += declarationsOf(seed);
  auto module = text::import(text + mainOf(unit.seeds), "batch.tsm", context, {});
  if (!module.ok())
    return message = module.status().message(), Verdict::NotTyped;
  pipeline::CompileOptions compile;
  compile.threads = 1;
  compile.cacheFolder = options.cacheFolder;
  auto devices = pipeline::parseDevices(options.device);
  if (!devices.ok())
    return message = devices.status().message(), Verdict::NotCompiled;
  compile.devices = *devices;
  compile.byReference = options.byReference;
  compile.evaluatePartially = compile.fuse = unit.optimised;
  auto bytes = pipeline::compileToBytes(**module, compile);
  if (!bytes.ok())
    return message = bytes.status().message(), Verdict::NotCompiled;
  auto loaded = runtime::Module::loadBytes(std::as_bytes(std::span(*bytes)), {});
  if (!loaded.ok())
    return message = loaded.status().message(), Verdict::NotRun;
  for (int threads : {1, 2}) {
    runtime::Session session(*loaded, threads);
    for (size_t size = 0; size < std::size(kSizes); ++size)
      if (Verdict verdict = run(unit, session, size, message); verdict != Verdict::Agrees)
        return verdict;
  }
  return Verdict::Agrees;
}

} // namespace

const char *nameOf(Verdict verdict) {
  static const char *const kNames[] = {"agrees",  "differs",       "not typed", "not compiled",
                                       "not run", "not evaluated", "crashed"};
  return kNames[size_t(verdict)];
}

std::string textOf(uint64_t seed) { return declarationsOf(seed) + mainOf({seed}); }

std::vector<Finding> check(mlir::MLIRContext &context, const std::vector<uint64_t> &seeds,
                           const CheckOptions &options) {
  std::vector<Finding> findings(seeds.size());
  Unit unit;
  for (size_t i = 0; i < seeds.size(); ++i) {
    text::Program program(textOf(seeds[i]), "seed.tsm", "", context);
    std::vector<Expected> expected;
    for (size_t size = 0; size < std::size(kSizes); ++size) {
      auto result = expectation(program, drawInputs(kSizes[size], size));
      if (!result.ok()) {
        findings[i] = {result.status().code() == StatusCode::ResourceExhausted ? Verdict::Endless
                                                                               : Verdict::NotTyped,
                       result.status().message()};
        break;
      }
      expected.push_back(std::move(*result));
    }
    if (expected.size() < std::size(kSizes))
      continue;
    findings[i].verdict = Verdict::Agrees;
    unit.seeds.push_back(seeds[i]);
    unit.findings.push_back(&findings[i]);
    unit.expected.push_back(std::move(expected));
  }
  std::string message;
  if (unit.seeds.empty())
    return findings;
  Verdict verdict = Verdict::Agrees;
  for (bool optimised : {true, false}) {
    unit.optimised = optimised;
    if (verdict == Verdict::Agrees)
      verdict = compileAndRun(context, unit, options, message);
  }
  if (verdict != Verdict::Agrees)
    for (Finding *finding : unit.findings)
      if (finding->verdict == Verdict::Agrees)
        *finding = {verdict, message};
  return findings;
}

} // namespace tensmith::random_programs
