// A schedule's state, and its text; see Schedule.h.
#include "compiler/nest/Schedule.h"

#include "compiler/nest/Instances.h"
#include "compiler/nest/ScheduleState.h"
#include "compiler/nest/Tensorize.h"

#include <isl/map.h>

#include <charconv>
#include <sstream>

namespace tensmith::nest {

void ScheduleState::renew() {
  relations = std::make_unique<Relations>(isl->get(), nest);
  dependences = nest::dependences(nest, *relations, tree);
}

Status guarded(ScheduleState &state, const std::string &what, const std::function<Status()> &run) {
  state.isl->limit(kMostOperations);
  Status result;
  try {
    result = run();
  } catch (const isl::exception &exception) {
    StatusCode code =
        state.isl->isExhausted() ? StatusCode::ResourceExhausted : StatusCode::Internal;
    result = {code, what + ": " + state.isl->error() + " (" + exception.what() + ")"};
  }
  state.isl->limit(0);
  return result;
}

std::string illegality(const ScheduleState &state, const std::vector<Dependence> &dependences,
                       const Nest &nest, const Node &tree, const Relations &relations,
                       Changes changes) {
  std::string broken = violation(dependences, tree, relations, state.unchecked, changes);
  if (broken.empty())
    broken = interleavedInstances(nest, tree, relations);
  if (broken.empty())
    broken = refusedTiles(nest, tree, relations, state.intrinsics).words;
  return broken;
}

std::string illegality(const ScheduleState &state, const Nest &nest, const Node &tree,
                       Changes changes) {
  return illegality(state, state.dependences, nest, tree, *state.relations, changes);
}

Status changeTree(ScheduleState &state, const std::string &primitive, const TreeChange &change,
                  Changes changes) {
  return guarded(state, primitive, [&]() -> Status {
    Node tree = state.tree;
    if (std::string problem = change(tree); !problem.empty())
      return invalidArgument(primitive + ": " + problem);
    straighten(tree);
    if (std::string broken = illegality(state, state.nest, tree, changes); !broken.empty())
      return invalidArgument(primitive + ": " + broken);
    state.tree = std::move(tree);
    return {};
  });
}

Schedule::Schedule(std::unique_ptr<ScheduleState> state) : state_(std::move(state)) {}
Schedule::Schedule(Schedule &&) noexcept = default;
Schedule &Schedule::operator=(Schedule &&) noexcept = default;

Schedule::~Schedule() {
  if (!state_)
    return;
  // isl's objects go before their context.
  state_->dependences.clear();
  state_->tree = {};
  state_->relations.reset();
}

Result<Schedule> Schedule::of(Nest nest) {
  if (Status status = verify(nest); !status.ok())
    return status;
  Schedule result(std::make_unique<ScheduleState>());
  ScheduleState &state = *result.state_;
  state.isl = std::make_shared<IslContext>();
  state.nest = std::move(nest);
  Status status = guarded(state, "nest '" + state.nest.name + "'", [&]() -> Status {
    state.relations = std::make_unique<Relations>(state.isl->get(), state.nest);
    std::string outside = state.relations->outside(state.nest);
    if (!outside.empty())
      return invalidArgument("nest '" + state.nest.name + "': " + outside);
    state.tree = textualTree(state.nest, *state.relations);
    state.renew();
    return {};
  });
  if (!status.ok())
    return status;
  return result;
}

Schedule Schedule::copy() const {
  auto state = std::make_unique<ScheduleState>();
  state->isl = state_->isl;
  state->nest = state_->nest;
  state->relations = std::make_unique<Relations>(*state_->relations);
  state->tree = state_->tree;
  state->dependences = state_->dependences;
  state->unchecked = state_->unchecked;
  state->intrinsics = state_->intrinsics;
  state->memories = state_->memories;
  state->vectorBytes = state_->vectorBytes;
  return Schedule(std::move(state));
}

const Nest &Schedule::nest() const { return state_->nest; }

std::string Schedule::tree() const { return text(state_->tree, *state_->relations); }

Status Schedule::setTree(const std::string &text) {
  return changeTree(*state_, "schedule tree", [&](Node &tree) -> std::string {
    Result<Node> read = fromText(text, state_->nest, *state_->relations);
    if (!read)
      return read.status().message();
    tree = std::move(*read);
    return {};
  });
}

static void outlineOf(const Node &node, size_t depth, std::string &into) {
  static const char *const kWords[] = {"", " parallel", " vector", " unrolled", " tensorized"};
  bool isSequence = node.kind == Node::Kind::Sequence;
  if (!isSequence)
    into += std::string(2 * depth, ' ') + node.name +
            (node.isLoop() ? std::string(":") + kWords[size_t(node.execution)] : "") + "\n";
  for (const Node &child : node.children)
    outlineOf(child, depth + (isSequence ? 0 : 1), into);
}

std::string Schedule::outline() const {
  std::string result;
  outlineOf(state_->tree, 0, result);
  return result;
}

std::string Schedule::dependences() const {
  std::string result;
  for (const Dependence &each : state_->dependences) {
    char *points = isl_map_to_str(each.points.get());
    result += each.text() + ": " + (points ? points : "") + "\n";
    free(points);
  }
  return result;
}

//===-- Schedule text ------------------------------------------------------------------------===//

namespace {

std::optional<int64_t> numberOf(std::string_view word) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size())
    return std::nullopt;
  return value;
}

/// A line of schedule text, word by word.
struct Line {
  std::vector<std::string> words;
  std::vector<std::string> results; // behind ->

  explicit Line(const std::string &text) {
    std::istringstream in(text.substr(0, text.find('#')));
    bool isResult = false;
    for (std::string word; in >> word;)
      if (word == "->")
        isResult = true;
      else
        (isResult ? results : words).push_back(word);
  }
  bool has(size_t count, size_t resultCount) const {
    return words.size() == count && results.size() == resultCount;
  }
  std::optional<int64_t> number(size_t at) const { return numberOf(words[at]); }
};

std::optional<Status> applyTile(Schedule &schedule, const Line &line) {
  size_t count = line.words.size() / 2 - 1;
  if (line.words.size() < 4 || line.words.size() % 2 || line.words[1 + count] != "by" ||
      line.results.size() != 2 * count)
    return std::nullopt;
  std::vector<int64_t> factors;
  for (size_t number = 0; number < count; ++number)
    if (auto factor = line.number(2 + count + number))
      factors.push_back(*factor);
    else
      return std::nullopt;
  std::vector<std::string> loops(line.words.begin() + 1, line.words.begin() + 1 + int64_t(count));
  return schedule.tile(loops, factors, line.results);
}

/// "1", "1/4" or "1%4".
std::optional<LayoutDimension> layoutDimension(const std::string &word) {
  using Part = LayoutDimension::Part;
  size_t sign = word.find_first_of("/%");
  bool isWhole = sign == std::string::npos;
  auto dim = numberOf(std::string_view(word).substr(0, sign));
  auto block = isWhole ? 1 : numberOf(std::string_view(word).substr(sign + 1));
  constexpr int64_t kMostDimensions = 64, kLargestBlock = 1 << 20;
  if (!dim || *dim < 0 || *dim >= kMostDimensions || !block || *block < 1 || *block > kLargestBlock)
    return std::nullopt;
  Part part = isWhole ? Part::Whole : word[sign] == '/' ? Part::Quotient : Part::Remainder;
  return LayoutDimension{size_t(*dim), part, *block};
}

std::optional<Status> applyCache(Schedule &schedule, const Line &line) {
  const std::vector<std::string> &words = line.words;
  bool writes = words[0] == "cache_write";
  if (words.size() < 2 || line.results.size() != 1)
    return std::nullopt;
  CacheRequest request;
  request.tensor = words[1];
  request.name = line.results[0];
  size_t at = 2;
  if (at + 1 < words.size() && words[at] == "at") {
    request.loop = words[at + 1];
    at += 2;
  }
  bool hasOrder = at < words.size() && words[at] == "order";
  for (at += hasOrder; hasOrder && at < words.size() && words[at] != "in"; ++at) {
    auto dimension = layoutDimension(words[at]);
    if (!dimension)
      return std::nullopt;
    request.order.push_back(*dimension);
  }
  if (at + 1 < words.size() && words[at] == "in") {
    request.memory = words[at + 1];
    at += 2;
  }
  if (at != words.size())
    return std::nullopt;
  return writes ? schedule.cacheWrite(std::move(request)) : schedule.cacheRead(request);
}

std::optional<Status> applyTensorize(Schedule &schedule, const Line &line) {
  std::vector<std::string> words = line.words;
  bool packing = words.back() == "packing";
  if (packing)
    words.pop_back();
  size_t count = words.size();
  if (count < 4 || words[count - 2] != "by" || !line.results.empty())
    return std::nullopt;
  return schedule.tensorize({words.begin() + 1, words.end() - 2}, words.back(), packing);
}

/// Applies the line, whose first word is the primitive's name; nothing where it has another form.
using Apply = std::optional<Status> (*)(Schedule &schedule, const Line &line);

struct OwnPrimitive {
  Primitive text;
  Apply apply;
};

const OwnPrimitive kPrimitives[] = {
    {{"split", "split i 6 -> i0 i1"},
     [](Schedule &schedule, const Line &line) -> std::optional<Status> {
       if (!line.has(3, 2) || !line.number(2))
         return std::nullopt;
       return schedule.split(line.words[1], *line.number(2), line.results[0], line.results[1]);
     }},
    {{"tile", "tile i j by 32 64 -> i0 j0 i1 j1"}, applyTile},
    {{"fuse", "fuse i j -> f"},
     [](Schedule &schedule, const Line &line) -> std::optional<Status> {
       if (!line.has(3, 1))
         return std::nullopt;
       return schedule.fuse(line.words[1], line.words[2], line.results[0]);
     }},
    {{"reorder", "reorder j i"},
     [](Schedule &schedule, const Line &line) -> std::optional<Status> {
       if (!line.results.empty())
         return std::nullopt;
       return schedule.reorder({line.words.begin() + 1, line.words.end()});
     }},
    {{"skew", "skew x by 1 t"},
     [](Schedule &schedule, const Line &line) -> std::optional<Status> {
       if (!line.has(5, 0) || line.words[2] != "by" || !line.number(3))
         return std::nullopt;
       return schedule.skew(line.words[1], *line.number(3), line.words[4]);
     }},
    {{"parallel", "parallel i"},
     [](Schedule &schedule, const Line &line) -> std::optional<Status> {
       return line.has(2, 0) ? std::optional(schedule.parallel(line.words[1])) : std::nullopt;
     }},
    {{"unroll", "unroll i"},
     [](Schedule &schedule, const Line &line) -> std::optional<Status> {
       return line.has(2, 0) ? std::optional(schedule.unroll(line.words[1])) : std::nullopt;
     }},
    {{"vectorize", "vectorize j 16"},
     [](Schedule &schedule, const Line &line) -> std::optional<Status> {
       bool lanes = line.has(3, 0) && line.number(2);
       if (!lanes && !line.has(2, 0))
         return std::nullopt;
       return schedule.vectorize(line.words[1], lanes ? *line.number(2) : 0);
     }},
    {{"tensorize", "tensorize j1 k1 by INSTRUCTION, or by INSTRUCTION packing"}, applyTensorize},
    {{"fuse_at", "fuse_at start j0"},
     [](Schedule &schedule, const Line &line) -> std::optional<Status> {
       if (!line.has(3, 0))
         return std::nullopt;
       return schedule.fuseAt(line.words[1], line.words[2]);
     }},
    {{"cache_read", "cache_read B at j0 order 1 0 in l1 -> P"}, applyCache},
    {{"cache_write", "cache_write C at i0 order 0 1 in l1 -> W"}, applyCache},
    {{"double_buffer", "double_buffer P"},
     [](Schedule &schedule, const Line &line) -> std::optional<Status> {
       return line.has(2, 0) ? std::optional(schedule.doubleBuffer(line.words[1])) : std::nullopt;
     }},
    {{"virtual_threads", "virtual_threads i 4 -> i0 v"},
     [](Schedule &schedule, const Line &line) -> std::optional<Status> {
       if (!line.has(3, 2) || !line.number(2))
         return std::nullopt;
       return schedule.virtualThreads(line.words[1], *line.number(2), line.results[0],
                                      line.results[1]);
     }},
    {{"bind", "bind i threads, or bind j lanes"},
     [](Schedule &schedule, const Line &line) -> std::optional<Status> {
       return line.has(3, 0) ? std::optional(schedule.bind(line.words[1], line.words[2]))
                             : std::nullopt;
     }},
    {{"compute_at", "compute_at T y"},
     [](Schedule &schedule, const Line &line) -> std::optional<Status> {
       if (!line.has(3, 0))
         return std::nullopt;
       return schedule.computeAt(line.words[1], line.words[2]);
     }},
    {{"inline", "inline T"},
     [](Schedule &schedule, const Line &line) -> std::optional<Status> {
       return line.has(2, 0) ? std::optional(schedule.inlined(line.words[1])) : std::nullopt;
     }},
    {{"rfactor", "rfactor add k0 -> R"},
     [](Schedule &schedule, const Line &line) -> std::optional<Status> {
       if (!line.has(3, 1))
         return std::nullopt;
       return schedule.rfactor(line.words[1], line.words[2], line.results[0]);
     }},
    {{"affine", "affine maximal, coincident, recomputed or minimal"},
     [](Schedule &schedule, const Line &line) -> std::optional<Status> {
       static const std::map<std::string, Fusion> kFusions = {{"maximal", Fusion::Maximal},
                                                              {"minimal", Fusion::Minimal},
                                                              {"coincident", Fusion::Coincident},
                                                              {"recomputed", Fusion::Recomputed}};
       if (!line.has(2, 0) || !kFusions.count(line.words[1]))
         return std::nullopt;
       return schedule.affine(kFusions.at(line.words[1]));
     }},
    {{"default", "default 16"}, [](Schedule &schedule, const Line &line) -> std::optional<Status> {
       if (!line.has(2, 0) || !line.number(1))
         return std::nullopt;
       return schedule.byEstimate(*line.number(1));
     }}};

Status applyLine(Schedule &schedule, const Line &line) {
  std::string name = line.words.empty() ? "" : line.words[0];
  for (const OwnPrimitive &each : kPrimitives)
    if (each.text.name == name) {
      std::optional<Status> status = each.apply(schedule, line);
      return status ? *status : invalidArgument("write it as: " + std::string(each.text.form));
    }
  std::string names;
  for (const OwnPrimitive &each : kPrimitives)
    names += (names.empty() ? "" : ", ") + std::string(each.text.name);
  return invalidArgument("there is no primitive '" + name + "'; there are " + names);
}

} // namespace

std::vector<Primitive> primitives() {
  std::vector<Primitive> result;
  for (const OwnPrimitive &each : kPrimitives)
    result.push_back(each.text);
  return result;
}

Status Schedule::apply(std::string_view text) {
  std::istringstream in{std::string(text)};
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    Line words(line);
    if (words.words.empty() && words.results.empty())
      continue;
    Status status = applyLine(*this, words);
    if (!status.ok())
      return {status.code(), "line " + std::to_string(number) + ": " + status.message()};
  }
  return {};
}

} // namespace tensmith::nest
