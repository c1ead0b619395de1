// A schedule's state, and its text; see Schedule.h.
#include "compiler/nest/Schedule.h"

#include "compiler/nest/Instances.h"
#include "compiler/nest/ScheduleState.h"

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

Status changeTree(ScheduleState &state, const std::string &primitive, const TreeChange &change) {
  return guarded(state, primitive, [&]() -> Status {
    Node tree = state.tree;
    if (std::string problem = change(tree); !problem.empty())
      return invalidArgument(primitive + ": " + problem);
    straighten(tree);
    std::string broken = violation(state.dependences, tree, *state.relations, state.unchecked);
    if (broken.empty())
      broken = interleavedInstances(state.nest, tree, *state.relations);
    if (!broken.empty())
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
  static const char *const kWords[] = {"", " parallel", " vector", " unrolled"};
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
  std::optional<int64_t> number(size_t at) const {
    int64_t value = 0;
    const std::string &word = words[at];
    auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size())
      return std::nullopt;
    return value;
  }
};

Status usage(const std::string &form) { return invalidArgument("write it as: " + form); }

Status applyTile(Schedule &schedule, const Line &line) {
  const std::string form = "tile i j by 32 64 -> i0 j0 i1 j1";
  size_t count = line.words.size() / 2 - 1;
  if (line.words.size() < 4 || line.words.size() % 2 || line.words[1 + count] != "by" ||
      line.results.size() != 2 * count)
    return usage(form);
  std::vector<int64_t> factors;
  for (size_t number = 0; number < count; ++number)
    if (auto factor = line.number(2 + count + number))
      factors.push_back(*factor);
    else
      return usage(form);
  std::vector<std::string> loops(line.words.begin() + 1, line.words.begin() + 1 + int64_t(count));
  return schedule.tile(loops, factors, line.results);
}

Status applyCache(Schedule &schedule, const Line &line) {
  const std::vector<std::string> &words = line.words;
  bool writes = words[0] == "cache_write";
  Status form =
      usage(writes ? "cache_write C at i0 order 0 1 -> W" : "cache_read B at j0 order 1 0 -> P");
  if (words.size() < 2 || line.results.size() != 1)
    return form;
  CacheRequest request{words[1], "", {}, line.results[0]};
  size_t at = 2;
  if (at + 1 < words.size() && words[at] == "at") {
    request.loop = words[at + 1];
    at += 2;
  }
  if (at < words.size() && words[at] == "order")
    for (++at; at < words.size() && line.number(at); ++at)
      request.order.push_back(*line.number(at));
  if (at != words.size())
    return form;
  return writes ? schedule.cacheWrite(std::move(request)) : schedule.cacheRead(request);
}

Status applyLine(Schedule &schedule, const Line &line) {
  const std::vector<std::string> &words = line.words;
  const std::string &what = words[0];
  if (what == "split")
    return line.has(3, 2) && line.number(2)
               ? schedule.split(words[1], *line.number(2), line.results[0], line.results[1])
               : usage("split i 6 -> i0 i1");
  if (what == "tile")
    return applyTile(schedule, line);
  if (what == "fuse")
    return line.has(3, 1) ? schedule.fuse(words[1], words[2], line.results[0])
                          : usage("fuse i j -> f");
  if (what == "reorder")
    return line.results.empty() ? schedule.reorder({words.begin() + 1, words.end()})
                                : usage("reorder j i");
  if (what == "skew")
    return line.has(5, 0) && words[2] == "by" && line.number(3)
               ? schedule.skew(words[1], *line.number(3), words[4])
               : usage("skew x by 1 t");
  if (what == "parallel")
    return line.has(2, 0) ? schedule.parallel(words[1]) : usage("parallel i");
  if (what == "unroll")
    return line.has(2, 0) ? schedule.unroll(words[1]) : usage("unroll i");
  if (what == "vectorize") {
    bool lanes = line.has(3, 0) && line.number(2);
    return lanes || line.has(2, 0) ? schedule.vectorize(words[1], lanes ? *line.number(2) : 0)
                                   : usage("vectorize j 16");
  }
  if (what == "fuse_at")
    return line.has(3, 0) ? schedule.fuseAt(words[1], words[2]) : usage("fuse_at start j0");
  if (what == "cache_read" || what == "cache_write")
    return applyCache(schedule, line);
  if (what == "compute_at")
    return line.has(3, 0) ? schedule.computeAt(words[1], words[2]) : usage("compute_at T y");
  if (what == "inline")
    return line.has(2, 0) ? schedule.inlined(words[1]) : usage("inline T");
  if (what == "rfactor")
    return line.has(3, 1) ? schedule.rfactor(words[1], words[2], line.results[0])
                          : usage("rfactor add k0 -> R");
  if (what == "affine")
    return line.has(2, 0) && (words[1] == "maximal" || words[1] == "minimal")
               ? schedule.affine(words[1] == "maximal" ? Fusion::Maximal : Fusion::Minimal)
               : usage("affine maximal");
  if (what == "default")
    return line.has(2, 0) && line.number(1) ? schedule.byEstimate(*line.number(1))
                                            : usage("default 16");
  return invalidArgument("there is no primitive '" + what + "'");
}

} // namespace

Status Schedule::apply(std::string_view text) {
  std::istringstream in{std::string(text)};
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    Line words(line);
    if (words.words.empty() && words.results.empty())
      continue;
    Status status = words.words.empty() ? usage("split i 6 -> i0 i1") : applyLine(*this, words);
    if (!status.ok())
      return {status.code(), "line " + std::to_string(number) + ": " + status.message()};
  }
  return {};
}

} // namespace tensmith::nest
